package gate_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"kennel/gate"
	"kennel/internal/memory"
)

// witness is a Signals that compares each signal with what is stored when it
// is sent.
type witness struct {
	t         *testing.T
	store     *memory.Gates
	published int
}

func (w *witness) Publish(_ context.Context, s gate.Signal) error {
	w.published++
	flag, _ := w.store.Get(s.Gate)
	var stored gate.State
	if err := json.Unmarshal([]byte(flag.Text), &stored); err != nil || stored.Generation != s.Generation || stored.Released != s.Released {
		w.t.Errorf("signal %+v is sent while the store holds %q", s, flag.Text)
	}
	return nil
}

func (w *witness) Listen(ctx context.Context, _ gate.Listener) error {
	<-ctx.Done()
	return nil
}

// Whatever becomes of the requests of a release, nobody is told of it before
// the store has confirmed it; and nobody in this process passes before.
func TestSignalsComeAfterTheStore(t *testing.T) {
	lost := errors.New("connection reset")
	for name, fate := range map[string]memory.Fate{
		"done":              {Delay: time.Millisecond},
		"refused":           {Err: lost, Lost: true},
		"done, unheard":     {Err: lost},
		"late":              {Err: lost, After: 300 * time.Millisecond},
		"silence":           {Lost: true},
		"conflict":          {Err: gate.ErrChanged, Lost: true},
		"not known to fail": {Err: errors.New("storage answers 500 InternalError")},
	} {
		for _, ever := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, for ever %t", name, ever), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					n := 0
					store := memory.NewGates(&memory.Options{Fate: func(c memory.Call) memory.Fate {
						if c.Op != "Replace" {
							return memory.Fate{}
						}
						if n++; ever || n == 1 {
							return fate
						}
						return memory.Fate{}
					}})
					w := &witness{t: t, store: store}
					g := running(t, store, &gate.Options{Signals: w})
					c := wait(t, g, 0, gate.MaxWait)
					time.Sleep(time.Second)
					got, err := g.Release(t.Context(), "start", ann)
					want := 0
					if got.Changed {
						want = 1
					} else if !errors.Is(err, gate.ErrUnclear) || !ever {
						t.Errorf("release: %+v, %v", got, err)
					}
					if w.published != want {
						t.Errorf("%d signals are sent, want %d", w.published, want)
					}
					time.Sleep(time.Minute)
					store.Wait()
					if _, stored := store.Get("start"); len(c) == 1 != stored {
						t.Errorf("passed: %t, released: %t", len(c) == 1, stored)
					}
				})
			})
		}
	}
}

// hasty is a store whose caller goes away when a write is done.
type hasty struct {
	*memory.Gates
	goAway context.CancelFunc
}

func (h hasty) Replace(ctx context.Context, name string, old, next gate.Flag) (gate.Flag, error) {
	flag, err := h.Gates.Replace(ctx, name, old, next)
	h.goAway()
	return flag, err
}

// A change that was made is told, even if its caller has not waited for that.
func TestSignalAfterTheCallerHasGone(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	signals := memory.NewSignals(nil) // which send nothing for who has gone
	g := newGates(t, hasty{memory.NewGates(nil), cancel}, &gate.Options{Signals: signals})
	got, err := g.Release(ctx, "start", ann)
	if err != nil || !got.Changed || got.Unsignalled != nil || signals.Published() != 1 || ctx.Err() == nil {
		t.Errorf("release: %+v, %v, %d signals, want it made and told", got, err, signals.Published())
	}
}

// Who waits in the process that releases passes at that moment, without
// signals and without a poll.
func TestOwnWaitersPassAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := running(t, memory.NewGates(nil), nil)
		c := wait(t, g, 0, gate.MaxWait)
		time.Sleep(time.Second)
		if _, err := g.Release(t.Context(), "start", ann); err != nil {
			t.Fatal(err)
		}
		released := time.Now()
		if l := <-c; !l.Passed || l.at != released {
			t.Errorf("%+v, %v, %v after the release, want to pass with it", l.Waited, l.err, l.at.Sub(released))
		}
	})
}

// Of a gate whose life was written by hand, in two lines, a signal tells only
// that something has happened: it travels as lines of text.
func TestSignalOfLifeByHand(t *testing.T) {
	store := broken(t, func(text string) string { return strings.Replace(text, `"life": "`, `"life": "a\n`, 1) })
	signals := &hand{}
	got, err := newGates(t, store, &gate.Options{Signals: signals}).Release(t.Context(), "start", ann)
	if err != nil || !got.Changed {
		t.Fatalf("release: %+v, %v", got, err)
	}
	if want := []gate.Signal{{Gate: "start"}}; !slices.Equal(signals.published, want) {
		t.Errorf("signals: %+v, want %+v", signals.published, want)
	}
}
