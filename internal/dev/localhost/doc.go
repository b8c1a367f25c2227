// Package localhost is a small Azure Functions host for machines without
// `func`. It runs a function app with a custom handler: it reads host.json and
// the function.json files, starts the handler, and serves HTTP, storage queue
// and timer triggers.
//
// It reproduces the behavior of the real host, including its pitfalls: payloads
// are encoded twice and metadata is shadowed (package customhandler); a failed
// message is retried at once and then moved to a poison queue; a retry policy
// repeats invocations in the process, even where Azure does not document it;
// the handler is killed with SIGKILL at a timeout or a stop; after exit code 0
// it is not restarted; the third crash stops the host; function.json files in
// nested folders are ignored. Where the real host logs nothing, this host logs
// a warning. An empty response fails at once instead of hanging, unless
// Options.StrictHang is set.
//
// It is for development only: one instance, timers in UTC, no change detection,
// no proxying mode. It rejects an app that needs other binding types, or more
// of ASP.NET's route templates than text and parameters. It accepts an output
// to a queue and fails an answer that uses it.
package localhost
