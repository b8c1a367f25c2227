package gate_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"kennel/gate"
	"kennel/internal/memory"
)

// broken returns a store in which somebody has edited a gate of generation 2
// into something else.
func broken(t *testing.T, edit func(text string) string) *memory.Gates {
	t.Helper()
	store := memory.NewGates(nil)
	g := newGates(t, store, nil)
	for range 2 {
		if _, err := g.Release(t.Context(), "start", ann); err != nil {
			t.Fatal(err)
		}
		if _, err := g.Close(t.Context(), "start", ann); err != nil {
			t.Fatal(err)
		}
	}
	flag, _ := store.Get("start")
	store.Set("start", edit(flag.Text))
	return store
}

func TestNothingIsRepairedSilently(t *testing.T) {
	store := broken(t, func(text string) string { return strings.Replace(text, `"released": false`, `"released": "yes"`, 1) })
	before, _ := store.Get("start")
	g := newGates(t, store, nil)
	if s, err := g.State(t.Context(), "start"); !errors.Is(err, gate.ErrCorrupt) || s.Released || !strings.Contains(err.Error(), `"released" is a string`) {
		t.Errorf("state: %+v, %v, want %v, and what is wrong", s, err, gate.ErrCorrupt)
	}
	if got, err := g.Release(t.Context(), "start", ann); !errors.Is(err, gate.ErrCorrupt) {
		t.Errorf("release: %+v, %v, want %v", got, err, gate.ErrCorrupt)
	}
	if got, err := g.Close(t.Context(), "start", ann); !errors.Is(err, gate.ErrCorrupt) {
		t.Errorf("close: %+v, %v, want %v", got, err, gate.ErrCorrupt)
	}
	if after, _ := store.Get("start"); after != before {
		t.Errorf("it was written to: %q", after.Text)
	}
}

func TestForce(t *testing.T) {
	for _, test := range []struct {
		name       string
		edit       func(text string) string
		release    bool
		generation int64
		history    int
	}{
		{"released as text, release", func(text string) string {
			return strings.Replace(text, `"released": false`, `"released": "yes"`, 1)
		}, true, 3, 1},
		{"contradiction, release", func(text string) string {
			return strings.Replace(text, `"released": false`, `"released": true`, 1)
		}, true, 3, 5},
		{"contradiction, close", func(text string) string {
			return strings.Replace(text, `"released": false`, `"released": true`, 1)
		}, false, 2, 5},
		{"generation raised by hand", func(text string) string {
			return strings.Replace(text, `"generation": 2`, `"generation": 7`, 1)
		}, true, 8, 5},
		{"half of it", func(text string) string { return text[:len(text)/2] }, true, 3, 1},
		{"another text", func(string) string { return "open the gates!\xff" }, true, 1, 1},
		{"empty", func(string) string { return "" }, false, 0, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			store := broken(t, test.edit)
			g := newGates(t, store, nil)
			do := g.Close
			if test.release {
				do = g.Release
			}
			got, err := do(t.Context(), "start", gate.Change{By: "bob", Reason: "repair", Force: true})
			if err != nil || !got.Changed || got.State.Released != test.release || got.State.Generation != test.generation || len(got.State.History) != test.history {
				t.Fatalf("%+v, %v, want generation %d and %d entries", got, err, test.generation, test.history)
			}
			last := got.State.History[test.history-1]
			if last.By != "bob" || last.Replaced == "" {
				t.Errorf("the history does not tell of the force: %+v", last)
			}
			if s, err := g.State(t.Context(), "start"); err != nil || s.Generation != test.generation {
				t.Errorf("afterwards: %+v, %v", s, err)
			}
			if again, err := g.Release(t.Context(), "start", gate.Change{By: "bob", Force: true}); err != nil || again.Changed == test.release ||
				again.State.History[len(again.State.History)-1].Replaced != "" && again.Changed {
				t.Errorf("force at a gate that is fine: %+v, %v, want nothing special", again, err)
			}
		})
	}
}

// What a newer program has written is not for an older one to replace, as
// while a new version is being deployed.
func TestForceSparesNewerFormats(t *testing.T) {
	store := broken(t, func(string) string { return `{"version":2,"open":true}` })
	if got, err := newGates(t, store, nil).Release(t.Context(), "start", gate.Change{By: "ann", Force: true}); !errors.Is(err, gate.ErrCorrupt) {
		t.Errorf("release by force: %+v, %v, want %v", got, err, gate.ErrCorrupt)
	}
}

// A close by force opens nothing, whatever generation the wreck spoke of. The
// release after it lets everybody go.
func TestForcedCloseOpensNothing(t *testing.T) {
	for _, generation := range []string{"9", "1"} {
		synctest.Test(t, func(t *testing.T) {
			store := broken(t, func(text string) string { return text })
			o := gate.Options{Signals: memory.NewSignals(nil)}
			before := wait(t, running(t, store, &o), 2, gate.MaxWait)
			time.Sleep(time.Minute)
			flag, _ := store.Get("start")
			store.Set("start", strings.ReplaceAll(flag.Text, `"generation": 2`, `"generation": `+generation))
			after := wait(t, running(t, store, &o), 2, gate.MaxWait) // in a process that has never seen the gate whole
			time.Sleep(time.Minute)
			g := newGates(t, store, &o)
			if got, err := g.Close(t.Context(), "start", gate.Change{By: "bob", Force: true}); err != nil || !got.Changed {
				t.Fatalf("close by force: %+v, %v", got, err)
			}
			time.Sleep(time.Minute)
			if len(before) > 0 || len(after) > 0 {
				t.Error("somebody has passed for a close")
			}
			if _, err := g.Release(t.Context(), "start", ann); err != nil {
				t.Fatal(err)
			}
			time.Sleep(10 * time.Second)
			for _, c := range []<-chan left{before, after} {
				select {
				case l := <-c:
					if l.err != nil || !l.Passed {
						t.Errorf("after the release: %+v, %v, want to pass", l.Waited, l.err)
					}
				default:
					if generation == "9" || c == before { // else it cannot know that 2 is over
						t.Error("somebody is left behind after the release")
					}
				}
			}
		})
	}
}

// A forged signal of the last generation that can be counted does not make a
// forced gate one that can never be released again.
func TestForceAfterForgedSignal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := broken(t, func(string) string { return "open the gates!" })
		signals := memory.NewSignals(nil)
		g := running(t, store, &gate.Options{Signals: signals})
		wait(t, g, 2, gate.MaxWait)
		time.Sleep(time.Minute)
		forged := gate.Signal{Gate: "start", Generation: gate.MaxGeneration, At: time.Now(), By: "mallory"}
		if err := signals.Publish(t.Context(), forged); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Millisecond)
		for _, by := range []gate.Change{{By: "bob", Force: true}, ann} {
			if got, err := g.Close(t.Context(), "start", by); err != nil {
				t.Fatalf("close: %+v, %v", got, err)
			}
			if got, err := g.Release(t.Context(), "start", ann); err != nil || !got.Changed {
				t.Fatalf("release: %+v, %v", got, err)
			}
		}
	})
}
