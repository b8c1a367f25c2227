package customhandler

import (
	"sync"
	"time"
)

// runningCalls are the forwarded calls that a function serves now. One timer
// watches all of them: one for each call would be a twentieth of the cost of an
// order number.
type runningCalls struct {
	overdue func(*runningCall) // gives a call up

	mu      sync.Mutex
	oldest  *runningCall // guarded by mu, as all links
	newest  *runningCall
	watched bool // the timer runs; guarded by mu
}

// runningCall is one of them. All have the same limit, so they end in the order
// in which they began.
type runningCall struct {
	ctx          *callContext
	out          *callWriter
	until        time.Time
	older, newer *runningCall
	listed       bool
}

func (r *runningCalls) add(c *runningCall) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c.older, c.listed = r.newest, true
	if r.newest == nil {
		r.oldest = c
	} else {
		r.newest.newer = c
	}
	r.newest = c
	if !r.watched {
		r.watched = true
		time.AfterFunc(time.Until(c.until), r.check)
	}
}

func (r *runningCalls) remove(c *runningCall) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.unlink(c)
}

// unlink removes a call that may be removed already. The caller holds mu.
func (r *runningCalls) unlink(c *runningCall) {
	if !c.listed {
		return
	}
	if c.older == nil {
		r.oldest = c.newer
	} else {
		c.older.newer = c.newer
	}
	if c.newer == nil {
		r.newest = c.older
	} else {
		c.newer.older = c.older
	}
	c.older, c.newer, c.listed = nil, nil, false
}

// check gives up the calls whose time is over, and sets the timer for the next
// one. Without calls there is no timer.
func (r *runningCalls) check() {
	r.mu.Lock()
	var over []*runningCall
	now := time.Now()
	for r.oldest != nil && !now.Before(r.oldest.until) {
		over = append(over, r.oldest)
		r.unlink(r.oldest)
	}
	if r.watched = r.oldest != nil; r.watched {
		time.AfterFunc(r.oldest.until.Sub(now), r.check)
	}
	r.mu.Unlock()
	for _, c := range over {
		go r.overdue(c) // answers on the connection of its caller, which may be slow
	}
}
