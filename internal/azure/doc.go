// Package azure connects the jobs to Azure Storage. It and its subpackages are
// the only packages that import the Azure SDK, except that azurestore, which
// passes their stores on to other programs, has a credential as a parameter.
//
// # Requests
//
// Each method documents how many requests it makes, and sends each of them
// once. The SDK's retries are off, because a retried write cannot distinguish
// its own first attempt from another writer's success. A try ends after
// [Options.TryTimeout]; then the caller decides whether to retry.
// [Options.Requests] counts the requests.
//
// # Consistency
//
// Blobs, tables and queues are strongly consistent, and a write is durable when
// its method returns nil. After an error that the contract does not define, the
// write may have been applied.
//
// # Errors
//
// Error responses are [Error] values: a status, a code and the request's id.
// No error contains an address with its query, a key, a signature or a body.
package azure
