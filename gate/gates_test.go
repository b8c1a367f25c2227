package gate_test

import (
	"context"
	"testing"
	"time"

	"kennel/gate"
)

func newGates(t testing.TB, store gate.Store, o *gate.Options) *gate.Gates {
	t.Helper()
	g, err := gate.New(store, o)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// running returns gates that run until the test ends.
func running(t testing.TB, store gate.Store, o *gate.Options) *gate.Gates {
	t.Helper()
	g := newGates(t, store, o)
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- g.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return g
}

// left is how and when a wait has ended.
type left struct {
	gate.Waited
	err error
	at  time.Time
}

// wait waits at the gate start, and delivers how that ends: in the end by
// itself, even if it should have ended before.
func wait(t testing.TB, g *gate.Gates, after int64, limit time.Duration) <-chan left {
	c := make(chan left, 1)
	go func() {
		ctx, cancel := context.WithTimeout(t.Context(), limit+time.Minute)
		defer cancel()
		w, err := g.Wait(ctx, "start", after, limit)
		c <- left{w, err, time.Now()}
	}()
	return c
}

// change changes the gate start from a process of its own and returns when it
// was done.
func change(t testing.TB, store gate.Store, o *gate.Options, release bool) time.Time {
	t.Helper()
	g := newGates(t, store, o)
	do := g.Close
	if release {
		do = g.Release
	}
	if got, err := do(t.Context(), "start", ann); err != nil || !got.Changed {
		t.Fatalf("change to %t: %+v, %v", release, got, err)
	}
	return time.Now()
}
