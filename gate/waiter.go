package gate

import "time"

// MaxWait is the longest that one Wait lasts, because an HTTP request cannot
// last longer. To wait longer, call Wait again.
const MaxWait = 200 * time.Second

// Now, as the generation that a waiter has seen, means that it has seen none.
const Now = -1

// Waited is the result of a wait.
type Waited struct {
	// Passed reports that the waiter may go on. Otherwise its time was over.
	Passed bool

	// Generation is the one that this waiter has seen. Wait with it again, to
	// go on waiting or for the next release: no release is missed in between.
	Generation int64

	// State is the newest known state of the gate. It may be closed for a
	// waiter that passed: a release has happened, and a close after it.
	State State
}

// waiter is one call of Wait.
type waiter struct {
	after  int64 // passes with a greater generation; Now until a read has shown which
	reads  int   // that had begun when it came
	unread bool  // it needs the answer to a read that begins after it came

	done   chan struct{} // closed when the waiter is admitted or rejected
	waited *Waited       // nil until the wait has ended; shared by those who pass together
	err    error
}
