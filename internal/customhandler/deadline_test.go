package customhandler

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"testing/synctest"
	"time"
)

// A callContext behaves like context.WithDeadline, whether Done is called
// before its end or only after.
func TestCallContext(t *testing.T) {
	const limit = time.Minute
	tests := []struct {
		name string
		then func(t *testing.T, cancelParent, end func())
		want error
	}{
		{"nothing happens", func(*testing.T, func(), func()) {}, nil},
		{"the deadline passes", func(*testing.T, func(), func()) { time.Sleep(limit) }, context.DeadlineExceeded},
		{"the caller disconnects", func(_ *testing.T, cancelParent, _ func()) { cancelParent() }, context.Canceled},
		{"the call ends", func(_ *testing.T, _, end func()) { end() }, context.Canceled},
		{"the call ends, then the deadline passes", func(_ *testing.T, _, end func()) { end(); time.Sleep(2 * limit) }, context.Canceled},
	}
	for _, tt := range tests {
		for _, watched := range []bool{true, false} { // Done is called before the end
			t.Run(tt.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					parent, cancelParent := context.WithCancel(context.Background())
					defer cancelParent()
					inv := &invocation{id: "inv-1"}
					c := &callContext{parent: parent, deadline: time.Now().Add(limit), inv: inv}
					defer c.end()
					if watched {
						c.Done()
					}
					tt.then(t, cancelParent, c.end)
					synctest.Wait()
					if got := c.Err(); !errors.Is(got, tt.want) {
						t.Errorf("Err = %v, want %v", got, tt.want)
					}
					var done bool
					select {
					case <-c.Done():
						done = true
					default:
					}
					if done != (tt.want != nil) {
						t.Errorf("Done is closed: %v, want %v", done, tt.want != nil)
					}
					if got := c.Err(); !errors.Is(got, tt.want) {
						t.Errorf("Err after Done = %v, want %v", got, tt.want)
					}
					if got := context.Cause(c); !errors.Is(got, tt.want) {
						t.Errorf("Cause = %v, want %v", got, tt.want)
					}
					child, cancel := context.WithCancel(c)
					defer cancel()
					synctest.Wait()
					if got := child.Err(); !errors.Is(got, tt.want) {
						t.Errorf("a derived context's Err = %v, want %v", got, tt.want)
					}
					if invocationFrom(child) != inv {
						t.Error("a derived context does not know its invocation")
					}
				})
			})
		}
	}
}

// An error that was returned once stays the same.
func TestCallContextKeepsItsError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &callContext{parent: t.Context(), deadline: time.Now().Add(time.Minute)}
		time.Sleep(time.Minute)
		before := c.Err()
		c.end()
		if after := c.Err(); before != context.DeadlineExceeded || after != before {
			t.Errorf("Err = %v, and after the call %v, want %v twice", before, after, context.DeadlineExceeded)
		}
	})
}

func TestCallContextNeedsNoGoroutine(t *testing.T) {
	c := &callContext{parent: t.Context(), deadline: time.Now().Add(time.Hour)}
	defer c.end()
	before := runtime.NumGoroutine()
	for range 100 {
		_, cancel := context.WithCancel(c)
		defer cancel()
	}
	if got := runtime.NumGoroutine(); got >= before+100 {
		t.Errorf("%d goroutines for 100 derived contexts", got-before)
	}
}
