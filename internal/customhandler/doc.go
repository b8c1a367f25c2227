// Package customhandler is the wire between the Azure Functions host and a custom handler, in both directions.
//
// [App] is the handler's side. It is an [http.Handler] that knows three kinds of request:
//
//   - GET / asks whether the process is up. The answer is always 200 {} and costs nothing.
//   - /api/… is an HTTP call as the client made it. The host forwards it as it is to functions that have exactly
//     an httpTrigger and an http output.
//   - POST /<Function> is an envelope, one JSON object with Data and Metadata, for every other function.
//
// An HTTP function is one http.Handler for both of its shapes. Queue, Service Bus and timer functions are plain Go
// functions; an error of theirs fails the invocation, so the host offers the message again.
//
// App promises what keeps the host alive: each envelope is answered with one JSON object, never empty and never null,
// with its content type, whatever the function does: it may panic, hang, exit or write nothing. Every invocation ends
// before the host would kill the process for it.
//
// [Client] is the host's side, for a local host and for tests. [Trigger] builds the envelopes that the real host
// builds, double encoding and shadowed metadata included; [Client.Invoke] judges an answer as the real host judges it,
// and [Answer.HTTP] and [Answer.Messages] do with its outputs what the real host does, including what hurts.
//
// The package starts no goroutine that outlives a request, except for a function that ignores the end of its context:
// that one is answered for, logged and left behind.
package customhandler
