// Package azure reaches Azure Storage. It is the only package that imports
// the Azure SDK.
//
// # Requests
//
// Each method states how many requests it makes, and it makes each of them
// once: the SDK's own retries are off, because a retried write cannot tell its
// own echo from somebody else's success. A try ends after
// [Options.TryTimeout]; what to do then is the caller's decision.
//
// # Consistency
//
// Blobs and queues are strongly consistent and writes are durable when a
// method returns nil. A method that returns an error other than a sentinel
// of its contract leaves open whether its write was done.
//
// # Errors
//
// Refusals are [Error] values: a status, a code and the request's id, by which
// Microsoft finds it. No error holds an address with its query, a key, a
// signature or a body.
package azure
