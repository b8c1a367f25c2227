package gate_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"kennel/gate"
	"kennel/internal/memory"
)

// TestUnreadable: a gate whose document cannot be used is reported by each kind
// of read, and until the document can be used again or is gone, although no
// caller comes.
func TestUnreadable(t *testing.T) {
	for name, read := range map[string]func(*gate.Gates) error{
		"state":   func(g *gate.Gates) error { _, err := g.State(context.Background(), "start"); return err },
		"release": func(g *gate.Gates) error { _, err := g.Release(context.Background(), "start", ann); return err },
		"wait": func(g *gate.Gates) error {
			_, err := g.Wait(context.Background(), "start", gate.Now, time.Second)
			return err
		},
	} {
		for cure, repair := range map[string]func(*memory.Values, *gate.Gates){
			"restored": func(store *memory.Values, _ *gate.Gates) { store.Delete("start") },
			"forced": func(store *memory.Values, _ *gate.Gates) {
				newGates(t, store, nil).Close(context.Background(), "start", gate.Change{By: "ann", Force: true})
			},
			"forced here": func(_ *memory.Values, g *gate.Gates) {
				g.Close(context.Background(), "start", gate.Change{By: "ann", Force: true})
			},
		} {
			t.Run(name+" "+cure, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := newScene(t)
					s.store.Set("start", "{")
					began := time.Now()
					if err := read(s.gates); !errors.Is(err, gate.ErrCorrupt) {
						t.Fatalf("error %v, want ErrCorrupt", err)
					}
					all := s.gates.Unreadable()
					if f := all["start"]; len(all) != 1 || !errors.Is(f.Err, gate.ErrCorrupt) || f.Since.Sub(began) > time.Second || f.Count < 1 {
						t.Errorf("unreadable %+v, want start", all)
					}
					time.Sleep(10 * time.Minute)
					s.fault.Store(&memory.Fault{Err: errLost, Lost: true})
					time.Sleep(time.Minute)
					if again := s.gates.Unreadable()["start"]; !again.Since.Equal(all["start"].Since) || again.Count < 10 {
						t.Errorf("eleven minutes later: %+v, want the same, met again", again)
					}
					s.fault.Store(&memory.Fault{})
					repair(s.store, s.gates)
					if cure != "forced here" {
						time.Sleep(31 * time.Second)
					}
					if all := s.gates.Unreadable(); len(all) > 0 {
						t.Errorf("after the repair: %+v, want none", all)
					}
				})
			})
		}
	}
}

// TestSignalFailures: that signals are not received is reported with the cause,
// but not in the first seconds.
func TestSignalFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHand()
		g := running(t, memory.NewValues(nil), &gate.Options{Signals: h})
		synctest.Wait()
		began := time.Now()
		check := func(when string, want error, since time.Time, count int64) {
			t.Helper()
			if f, _ := g.SignalFailures(); want == nil && f.Err != nil || want != nil && (f.Err == nil || f.Err.Error() != want.Error() || !f.Since.Equal(since) || f.Count != count) {
				t.Errorf("%s: %+v, want %v since %v, %d times", when, f, want, since, count)
			}
		}
		cut := errors.New("cut off")
		check("at the start", nil, began, 0)
		h.listener().Down(cut)
		check("a first attempt has failed", nil, began, 0)
		time.Sleep(10 * time.Second)
		check("ten seconds later", cut, began, 1)
		h.listener().Up()
		check("received", nil, began, 0)
		time.Sleep(time.Minute)
		h.listener().Down(cut)
		h.listener().Down(errLost)
		check("interrupted twice", errLost, time.Now(), 2)
		h.listener().Up()
		check("received again", nil, began, 0)
		h.end <- cut
		synctest.Wait()
		check("listening has ended", cut, time.Now(), 1)
		ended := time.Now()
		time.Sleep(5 * time.Minute)
		check("listening again", cut, ended, 1)
		h.listener().Up()
		check("received at last", nil, began, 0)
	})
	synctest.Test(t, func(t *testing.T) {
		h := newHand()
		g := running(t, memory.NewValues(nil), &gate.Options{Signals: h})
		synctest.Wait()
		h.end <- errLost
		synctest.Wait()
		if f, _ := g.SignalFailures(); f.Err != errLost {
			t.Errorf("listening has failed at the start: %+v, want the cause at once", f)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		h := newHand()
		g := running(t, memory.NewValues(nil), &gate.Options{Signals: h})
		time.Sleep(10 * time.Second)
		if f, _ := g.SignalFailures(); f.Err == nil {
			t.Error("no connection for ten seconds, and no failure is reported")
		}
	})
}

// TestSendingFails: a signal that could not be sent is reported until another
// one is sent, or for ten minutes.
func TestSendingFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		signals := memory.NewSignals(nil)
		store := memory.NewValues(nil)
		g := newGates(t, store, &gate.Options{Signals: signals})
		release := func() {
			t.Helper()
			if _, err := g.Release(t.Context(), "start", ann); err != nil {
				t.Fatal(err)
			}
		}
		check := func(count int64) {
			t.Helper()
			if _, f := g.SignalFailures(); f.Count != count || (f.Err != nil) != (count > 0) {
				t.Errorf("sending: %+v, want %d failures", f, count)
			}
		}
		check(0)
		signals.Break()
		release()
		release()
		check(2)
		signals.Mend()
		release()
		check(0)
		signals.Break()
		release()
		time.Sleep(9 * time.Minute)
		check(1)
		time.Sleep(2 * time.Minute)
		check(0)
	})
}
