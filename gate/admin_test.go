package gate_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"kennel/gate"
	"kennel/internal/memory"
)

// The store stays down. The error reports whether something may have happened,
// and wraps the end of the caller's ctx and the store's error.
func TestChangeWhileTheStoreIsDown(t *testing.T) {
	for _, tt := range []struct {
		name  string
		op    string
		fault memory.Fault
		want  error
		bound time.Duration
	}{
		{"cannot be read", "Load", memory.Fault{Err: errLost, Lost: true}, gate.ErrUnknown, 2 * time.Second},
		{"is silent when read", "Load", memory.Fault{Lost: true}, gate.ErrUnknown, 21 * time.Second},
		{"cannot be written", "Replace", memory.Fault{Err: errLost, Lost: true}, gate.ErrUnclear, 20 * time.Second},
		{"is silent when written", "Replace", memory.Fault{Lost: true}, gate.ErrUnclear, 20 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := memory.NewValues(&memory.Options{Fault: func(c memory.Call) memory.Fault {
					if c.Op == tt.op {
						return tt.fault
					}
					return memory.Fault{}
				}})
				g := newGates(t, store, nil)
				g.SetJitter(func(bound time.Duration) time.Duration { return bound })
				for _, limit := range []time.Duration{time.Hour, 120 * time.Millisecond} { // the latter ends in a pause, or while a request hangs
					for name, call := range map[string]func(ctx context.Context) error{
						"Release": func(ctx context.Context) error { _, err := g.Release(ctx, "start", ann); return err },
						"State":   func(ctx context.Context) error { _, err := g.State(ctx, "start"); return err },
					} {
						if name == "State" && tt.op == "Replace" {
							continue
						}
						ctx, cancel := context.WithTimeout(t.Context(), limit)
						began := time.Now()
						err := call(ctx)
						cancel()
						if took := time.Since(began); !errors.Is(err, tt.want) || took > min(tt.bound, limit) || errors.Is(err, errLost) != (tt.fault.Err != nil) ||
							errors.Is(err, context.DeadlineExceeded) != (limit < tt.bound || tt.fault.Err == nil || tt.op == "Replace") {
							t.Errorf("%s for %v: %v after %v, want %v within %v", name, limit, err, took, tt.want, tt.bound)
						}
					}
				}
			})
		})
	}
}

// timeless is a store whose answers have no time.
type timeless struct{ *memory.Values }

func (s timeless) Load(ctx context.Context, name, seen string) (gate.Value, error) {
	v, err := s.Values.Load(ctx, name, seen)
	v.ReadAt = time.Time{}
	return v, err
}

// Without the store's clock a generation could be used twice, so nothing is
// released.
func TestAnswerWithoutTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewValues(nil)
		g := newGates(t, timeless{store}, nil)
		if done, err := g.Release(t.Context(), "start", ann); !errors.Is(err, gate.ErrUnknown) {
			t.Errorf("release: %+v, %v, want %v", done, err, gate.ErrUnknown)
		}
		if past := store.Past("start"); len(past) != 0 {
			t.Errorf("stored %+v", past)
		}
	})
}

func TestInvalidArguments(t *testing.T) {
	g := newGates(t, memory.NewValues(nil), nil)
	for _, tt := range []struct {
		gate   string
		change gate.Change
		ok     bool
	}{
		{"start-order-processing", ann, true},
		{"start", gate.Change{By: "ann", Reason: "one\n\ttwo"}, true},
		{strings.Repeat("g", 63), gate.Change{By: strings.Repeat("ü", 200), Reason: strings.Repeat("日", 1000)}, true},
		{"", ann, false},
		{strings.Repeat("g", 64), ann, false},
		{"Start", ann, false},
		{"start-", ann, false},
		{"a/b", ann, false},
		{"start", gate.Change{Reason: "x"}, false},
		{"start", gate.Change{By: strings.Repeat("ü", 201)}, false},
		{"start", gate.Change{By: "a\nb"}, false},
		{"start", gate.Change{By: "ann", Reason: strings.Repeat("日", 1001)}, false},
		{"start", gate.Change{By: "ann", Reason: "a\x00b"}, false},
		{"start", gate.Change{By: "ann", Reason: "a\xffb"}, false},
	} {
		_, err := g.Release(t.Context(), tt.gate, tt.change)
		if ok := err == nil; ok != tt.ok || err != nil && (!errors.Is(err, gate.ErrInvalid) || strings.HasPrefix(err.Error(), "invalid")) {
			t.Errorf("release of %q by %+v: %v, want valid: %t, or else %v", tt.gate, tt.change, err, tt.ok, gate.ErrInvalid)
		}
	}
	if _, err := g.State(t.Context(), "a/b"); !errors.Is(err, gate.ErrInvalid) {
		t.Errorf("state: %v, want %v", err, gate.ErrInvalid)
	}
	for _, tt := range []struct {
		gate  string
		after int64
		limit time.Duration
	}{
		{"Start", 0, time.Second}, {"start", -2, time.Second}, {"start", gate.MaxGeneration + 1, time.Second},
		{"start", gate.Now, 0}, {"start", gate.Now, gate.MaxWait + 1},
	} {
		if _, err := g.Wait(t.Context(), tt.gate, tt.after, tt.limit); !errors.Is(err, gate.ErrInvalid) {
			t.Errorf("wait %+v: %v, want %v", tt, err, gate.ErrInvalid)
		}
	}
}

// Whatever happens to a request of a release, the release is made once. It is
// announced, and waiters of the same process pass, only after the store has
// confirmed it: then at once, without a read.
func TestSignalAfterConfirmation(t *testing.T) {
	for name, fault := range map[string]memory.Fault{
		"delayed":                        {Delay: time.Millisecond},
		"refused":                        {Err: errLost, Lost: true},
		"applied but reported as failed": {Err: errLost},
		"applied late":                   {Err: errLost, After: 300 * time.Millisecond},
		"applied after the release":      {Err: errLost, After: 30 * time.Second},
		"never answered":                 {Lost: true},
		"false conflict":                 {Err: gate.ErrChanged, Lost: true},
	} {
		for _, which := range []string{"first read", "first write", "each write"} {
			t.Run(which+" "+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var releasing atomic.Bool
					var n atomic.Int64
					store := memory.NewValues(&memory.Options{Fault: func(c memory.Call) memory.Fault {
						if releasing.Load() && (c.Op == "Load") == (which == "first read") && (n.Add(1) == 1 || which == "each write") {
							return fault
						}
						return memory.Fault{}
					}})
					h := newHand()
					g := running(t, store, &gate.Options{Signals: h})
					c := wait(t, g, 0, gate.MaxWait)
					time.Sleep(time.Second)
					releasing.Store(true)
					got, err := g.Release(t.Context(), "start", ann)
					released := time.Now()
					if !got.Changed && (!errors.Is(err, gate.ErrUnclear) || which != "each write") || got.Changed != (len(h.published) == 1) || got.Signalled != got.Changed {
						t.Errorf("release: %+v, %v, %d signals", got, err, len(h.published))
					}
					time.Sleep(time.Minute)
					store.Wait()
					if past := store.Past("start"); len(c) != len(past) || len(past) > 1 {
						t.Fatalf("passed: %t, the store has held %d states", len(c) == 1, len(past))
					}
					if got.Changed {
						if sent := h.published[0]; sent.at.Before(store.Past("start")[0].At) || sent.Signal != (gate.Signal{Gate: "start", Generation: got.State.Generation}) {
							t.Errorf("signal %+v after a release at %v: %+v", sent, store.Past("start")[0].At, got.State)
						}
						if l := <-c; l.at.After(released) || l.State.By != ann.By || l.State.Releases != 1 {
							t.Errorf("passed %v after the release of its own process: %+v", l.at.Sub(released), l.State)
						}
					}
				})
			})
		}
	}
}

// hasty is a store whose caller goes away when a write is done.
type hasty struct {
	*memory.Values
	goAway context.CancelFunc
}

func (h hasty) Replace(ctx context.Context, name string, old, next gate.Value) (gate.Value, error) {
	defer h.goAway()
	return h.Values.Replace(ctx, name, old, next)
}

// A change that was made is announced even if its caller closed the
// connection. The result reports whether that failed; releasing again sends
// the signal again.
func TestSignalResult(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		signals, store := memory.NewSignals(nil), memory.NewValues(nil)
		signals.Break()
		for i, tt := range []struct {
			release bool
			signals gate.Signals
			changed bool
			sent    bool
			err     error
		}{
			{true, signals, true, false, memory.ErrCutOff},
			{true, nil, false, false, nil},
			{true, signals, false, true, nil},
			{false, signals, true, true, nil},
			{false, signals, false, false, nil},
		} {
			got, err := changeTo(newGates(t, hasty{store, cancel}, &gate.Options{Signals: tt.signals}), tt.release)(ctx, "start", ann)
			if err != nil || got.Changed != tt.changed || got.Signalled != tt.sent || !errors.Is(got.SignalErr, tt.err) || i == 0 && ctx.Err() == nil {
				t.Errorf("change %d: %+v, %v, want changed %t, signalled %t, %v", i, got, err, tt.changed, tt.sent, tt.err)
			}
			signals.Mend()
			ctx = t.Context()
		}
		if signals.Published() != 2 {
			t.Errorf("%d signals, want 2", signals.Published())
		}
	})
}
