package customhandler

import (
	"context"
	"sync"
	"time"
)

// callContext is context.WithDeadline for calls that mostly do not wait. It
// sets its timer and joins its parent only when Done is called. Most HTTP
// functions answer without that, and the timer and the join cost a tenth of
// the rate of order numbers.
type callContext struct {
	parent   context.Context
	deadline time.Time
	inv      *invocation

	mu     sync.Mutex
	ended  bool               // the call is over; guarded by mu
	inner  context.Context    // does the work once Done was called; guarded by mu
	cancel context.CancelFunc // of inner
}

func (c *callContext) Deadline() (time.Time, bool) { return c.deadline, true }

func (c *callContext) Done() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.join().Done()
}

func (c *callContext) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.inner == nil && !c.ended && c.parent.Err() == nil && time.Now().Before(c.deadline) {
		return nil
	}
	return c.join().Err() // the same from now on: an error never changes
}

// join returns inner, and makes it first if needed. Its caller holds mu.
func (c *callContext) join() context.Context {
	switch {
	case c.inner != nil:
	case c.ended:
		c.inner, c.cancel = context.WithCancel(c.parent)
		c.cancel()
	default:
		c.inner, c.cancel = context.WithDeadline(c.parent, c.deadline)
	}
	return c.inner
}

// Value passes a key on to inner if there is one. A derived context looks for
// its parent's canceler that way, and then needs no goroutine.
func (c *callContext) Value(key any) any {
	if key == (invocationKey{}) {
		return c.inv
	}
	c.mu.Lock()
	next := c.inner
	c.mu.Unlock()
	if next == nil {
		next = c.parent
	}
	return next.Value(key)
}

// end cancels the context: the call is over.
func (c *callContext) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
	if c.inner != nil {
		c.cancel()
	}
}
