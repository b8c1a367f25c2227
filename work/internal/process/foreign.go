package process

import (
	"sync"
	"time"
)

// During a rollout, processes of two builds or with two lists of settings share
// the queues. That a process cannot process a parcel which another one accepted
// is no verdict over its items: it puts the message back, without an attempt,
// for a process that can.

// The wait of a message that was put back for another process: an eighth of the
// age of its batch, within these bounds. Then a short rollout delays little, and
// a long one costs few requests.
const (
	minForeignDelay = 10 * time.Second
	MaxForeignDelay = 5 * time.Minute
)

// foreignLogged is how often a parcel that is put back is logged at most.
const foreignLogged = time.Minute

// Foreign is what a process has lately put back because only others can process
// it.
type Foreign struct {
	Since    time.Time // the first one
	Last     time.Time // the last one
	Messages int64     // how often messages were put back in between
	Reason   string    // of the last one
}

// foreign counts messages that were put back.
type foreign struct {
	mu       sync.Mutex
	known    Foreign   // guarded by mu
	loggedAt time.Time // guarded by mu
}

// add counts a message, and reports whether to log it.
func (f *foreign) add(reason string) (log bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	if now.Sub(f.known.Last) > 2*MaxForeignDelay {
		f.known = Foreign{Since: now}
	}
	f.known.Last, f.known.Reason = now, reason
	f.known.Messages++
	if log = now.Sub(f.loggedAt) >= foreignLogged; log {
		f.loggedAt = now
	}
	return log
}
