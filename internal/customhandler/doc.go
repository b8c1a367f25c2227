// Package customhandler implements both sides of the wire between the Azure
// Functions host and a custom handler.
//
// [App] is the handler's side. It is an [http.Handler] for three kinds of
// requests:
//
//   - GET / is the host's readiness check. The answer is always 200 {}.
//   - /api/… is an HTTP call as the client sent it. The host forwards it to a
//     function whose bindings are exactly an httpTrigger and an http output.
//   - POST /<Function> carries an envelope, one JSON object with Data and
//     Metadata. The host sends it to every other function.
//
// An HTTP function is one http.Handler for both of its shapes. Queue and timer
// functions are plain Go functions. An error of a queue function fails the
// invocation, so that the host delivers the message again.
//
// App keeps the host alive: it answers each envelope with one JSON object,
// never empty and never null, with its content type, even if the function
// panics, hangs, ends its goroutine or writes nothing. It ends every invocation
// before the host would kill the process for it.
//
// An answer waits at most ten seconds for a body that the function did not read
// and that does not come.
//
// [Client] is the host's side, for a local host and for tests. [Trigger] builds
// envelopes as the host does, with double encoding and replaced metadata.
// [Client.Invoke] judges an answer as the host does, and [Answer.HTTP] makes
// the caller's answer from it. Output bindings other than http, and the binding
// $return, are not supported, because no function uses them.
//
// The package leaves a goroutine behind only for a function that ignores the
// end of its context: App answers for it, logs that, and abandons it.
package customhandler
