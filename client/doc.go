// Package client calls the HTTP API of a Kennel app: it draws order numbers,
// waits at gates and releases them, submits batches and reads their reports,
// manages channels and their blogs, sends messages to queues and to Service Bus,
// runs timers, and redrives dead letters. docs/api.md describes the API.
//
//	app, err := client.New("https://my-app.azurewebsites.net", &client.Options{Key: key})
//	if err != nil {
//		return err
//	}
//	numbers, err := app.Next(ctx, "orders", 100)
//	if err != nil {
//		return err
//	}
//	for n := range numbers.All() {
//		…
//	}
//
// A program that needs numbers one by one uses [Client.Sequence], which draws
// them in pieces that follow its demand.
//
// # What is repeated
//
// A call that fails is repeated up to five times where that is safe, and after
// a pause of at most 30 s. The pause is the answer's Retry-After.
//
//   - Every call is repeated after a 429 with Retry-After: it was not let in.
//   - Reads, creating a channel, submitting a batch and adding a blog, which
//     are sent with a key, a release or close of a gate, deleting a channel by
//     its ETag, deleting a blog without an ETag, overwriting any version of a
//     blog, redriving or deleting dead letters, sending a message, which has an
//     ID, and moving the backlog are repeated after every 503 with Retry-After,
//     after a 5xx that the app did not send itself, and after a connection that
//     was closed without an answer, as by an app that is killed. If the first
//     request was applied, the second changes nothing that would do harm. An
//     entity that does not detect duplicates then has the message twice, with
//     the same ID. The app itself tries for half a minute to send a message or
//     to move the backlog, so only the first repeat of these may begin later
//     than after a minute.
//   - [Client.Next] is repeated after a 503 with Retry-After: then no number was
//     drawn. It is not repeated after a lost answer, because each lost answer
//     would leave a gap. Callers that do not mind gaps may call it again. The
//     requests of a [Sequence] are the same.
//   - [Client.DeleteChannel] without an ETag, changes of one version of a blog,
//     deleting a number of any dead letters, running a timer, and sending
//     messages to a queue of the program are repeated only if the app reports
//     that nothing was changed. Otherwise a repeated request could delete another
//     channel of the same name or more dead letters, run a timer or send a
//     message twice, or fail because the first one succeeded.
//
// A request that cannot connect is not repeated, because the address is
// probably wrong, unless the app was reached before in the same call.
// [Client.Wait], [Client.Watch], [Client.WatchDeletion] and [Client.WatchBatch]
// repeat their requests without limit once the app was reached.
//
// # Errors
//
// An answer that is not a success is an [*Error] with the app's code. A
// [*NoAnswerError] reports a request without a complete answer, and an
// [*UnexpectedError] an answer that is not one of the API, such as the sign-in
// page of a proxy. For all of them, errors.Is(err, [ErrUnclear]) reports that
// the change may have been made. errors.Is(err, [ErrInvalid]) reports an
// argument for which no request was sent.
//
// The function key is sent in a header only, and is in no error. Redirects are
// not followed, because the key would go to another server.
package client
