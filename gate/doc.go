// Package gate holds any number of waiting nodes back and releases them all at
// once.
//
// A gate is one small document in a store. It holds whether the gate is
// released, which generation its last release has, and who changed it, when
// and why. A gate without a document is closed and was never released.
// Documents change by compare-and-swap only.
//
// One rule carries the package. A release sets
//
//	generation = max(previous generation + 1, the store's clock in Unix ms)
//
// and a close keeps the generation. The store's clock is the time in the
// store's own answer to the read before the write, so the clocks of instances
// do not matter. It counts whole seconds. A generation is therefore not used
// twice, even if the document is deleted, restored from an old copy or
// replaced by force, provided that the next release begins a second later. A
// waiter that has seen generation g passes exactly when the store holds a
// greater one.
//
// What holds, whatever is killed, delayed or answered wrongly:
//
//   - No waiter is left behind. A signal announces a release, and polling finds
//     it if the signal is lost: every 30 s while signals are received, every
//     2.5 s while they are not.
//   - There is no false start. A signal only causes a read. A store that
//     refuses, fails, does not answer or holds invalid data opens no gate.
//   - A release is not missed if the gate closes again before a waiter returns.
//   - Of two administrators at once, one makes each release. A write whose reply
//     was lost is recognized by the operation's name in the history.
//
// The life of a release:
//
//  1. Release reads the document (admin.go, change.go) and replaces it,
//     conditional on the version that it read.
//  2. The waiters of this process pass (learn in watch.go), and a signal is
//     published.
//  3. Each other process that receives the signal makes one conditional read
//     of the gate, if anyone waits there (Received in run.go, read in read.go).
//  4. afterRead in watch.go decides who passes.
package gate
