package customhandler

import (
	"context"
	"sync"
	"time"
)

// callContext is context.WithDeadline for calls that mostly never wait: it sets its timer and joins its parent only when
// somebody asks for Done. Most HTTP functions answer without, and the two cost as much as the rest of the way to them.
type callContext struct {
	parent   context.Context
	deadline time.Time
	inv      *invocation

	mu     sync.Mutex
	ended  bool               // the call is over; guarded by mu
	inner  context.Context    // the real one, nil until somebody waits; guarded by mu
	cancel context.CancelFunc // inner's
}

func (c *callContext) Deadline() (time.Time, bool) { return c.deadline, true }

func (c *callContext) Done() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.real().Done()
}

func (c *callContext) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.inner == nil && !c.ended && c.parent.Err() == nil && time.Now().Before(c.deadline) {
		return nil
	}
	return c.real().Err() // kept from now on: an error must never change into another
}

// real returns the context that this one puts off. The caller holds mu.
func (c *callContext) real() context.Context {
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

// Value goes through inner where there is one: contexts derived from this one look for a context to join that way, and
// need no goroutine when the one they find has the same Done.
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
