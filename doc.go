// Package kennel is for programs that do a job on many nodes of Azure together:
// with queues whose messages are not lost, timers that run once, batches, order
// numbers that never repeat, gates that release all waiting nodes at once, and
// messages that are sent while a Service Bus namespace is down.
//
//	type Shop struct {
//		emails *kennel.Queue[Email]
//	}
//
//	func main() { kennel.Main("shop", new(Shop).program) }
//
//	func (s *Shop) program(a *kennel.App) error {
//		s.emails = kennel.NewQueue[Email](a, "emails", nil)
//		s.emails.Handle(s.send, nil)
//		a.Timer("digest", "0 6 * * *", s.digest, nil)
//		a.HandleFunc("POST /orders", s.order, nil)
//		return nil
//	}
//
// The same binary serves the Azure Functions host, works without a host as a
// worker, and runs in a test of package kenneltest. The command line writes the
// functions, the settings and the infrastructure from what is declared.
//
// # What a function returns
//
//   - nil: the message, the slot or the item is done.
//   - [Reject]: no further attempt: a message becomes a dead letter, a slot has
//     failed, an item is rejected.
//   - [RetryAfter]: a failed attempt; the next one follows after that time.
//   - [Snooze]: no attempt; the next one follows after that time.
//   - any error after a stop or a lost lease: no attempt; it is put back.
//   - another error, or a panic: a failed attempt. The next one follows after
//     the wait of Retry, until the attempts are used up.
//
// # What is promised
//
// A message that Send confirmed is handled until its handler returns nil, rejects
// it or uses up its attempts, and then is a dead letter. A handler can run more
// than once for a message: the ID of [Current] is the key for what must happen
// once.
//
// The tour of the code is in package kennel/internal; docs/build.md builds a
// program step by step.
package kennel
