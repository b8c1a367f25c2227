package gate_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"kennel/gate"
	"kennel/internal/memory"
	"kennel/internal/storetest"
)

// A gate is deleted, restored from an old copy or replaced by force while
// waiters wait, in a process that knew the gate before, and in one that did
// not. Until the next release no waiter passes; when it comes, a second after the
// deletion or later, every waiter passes, in time. That holds wherever the
// store's clock is.
func TestGateStartsOver(t *testing.T) {
	const bound = often + often/10 + 100*time.Millisecond // 1.1 × poll and a round trip
	force := func(release bool) func(*scene, *testing.T, string) {
		return func(s *scene, t *testing.T, _ string) {
			s.store.Set("start", `{"version":2,"generation":`+fmt.Sprint(s.seen+5000)+`}`)
			if got, err := changeTo(newGates(t, s.store, nil), release)(t.Context(), "start", gate.Change{By: "bob", Force: true}); err != nil || !got.Changed {
				t.Errorf("by force: %+v, %v", got, err)
			}
		}
	}
	worst := time.Duration(0)
	for name, tt := range map[string]struct {
		does   func(s *scene, t *testing.T, old string)
		passes bool // by that alone
	}{
		"deleted":           {func(s *scene, _ *testing.T, _ string) { s.store.Delete("start") }, false},
		"restored closed":   {func(s *scene, t *testing.T, old string) { s.store.Set("start", old) }, false},
		"deleted, restored": {func(s *scene, t *testing.T, old string) { s.store.Delete("start"); s.store.Set("start", old) }, false},
		"corrupt":           {func(s *scene, _ *testing.T, _ string) { s.store.Set("start", "{}") }, false},
		"closed by force":   {force(false), false},
		"released by force": {force(true), true},
		"deleted for long":  {func(s *scene, _ *testing.T, _ string) { s.store.Delete("start"); time.Sleep(40 * time.Second) }, false},
	} {
		for _, ahead := range []time.Duration{0, time.Hour, -time.Hour} {
			for range storetest.Scale(3, 100) {
				synctest.Test(t, func(t *testing.T) {
					time.Sleep(rand.N(time.Second))
					s := newSceneAt(t, ahead)
					old, _ := s.store.Get("start")
					s.seen = change(t, s.store, nil, true)
					change(t, s.store, nil, false)
					s.listener().Down(errors.New("EOF"))
					waits := []<-chan left{wait(t, s.gates, s.seen, gate.MaxWait), wait(t, s.gates, gate.Now, gate.MaxWait)}
					time.Sleep(time.Second + rand.N(often))
					s.slow()
					tt.does(s, t, old.Text)
					happened := time.Now()
					stranger := running(t, s.store, nil) // has never read the former gate
					waits = append(waits, wait(t, stranger, s.seen, gate.MaxWait))
					time.Sleep(time.Second - time.Since(happened) + rand.N(2*often))
					if !tt.passes {
						if passed := len(waits[0]) + len(waits[1]) + len(waits[2]); passed > 0 {
							t.Errorf("%s: %d waiters passed without a release", name, passed)
						}
						if _, err := newGates(t, s.store, nil).Release(t.Context(), "start", gate.Change{By: "bob", Force: true}); err != nil {
							t.Fatal(err)
						}
					}
					released := time.Now()
					for i, c := range waits {
						l := <-c
						if worst = max(worst, l.at.Sub(released)); !l.Passed || l.Generation <= s.seen || l.at.Sub(released) > bound {
							t.Errorf("%s, the store's clock %v ahead: waiter %d: %+v, %v, %v after the release", name, ahead, i, l.Waited, l.err, l.at.Sub(released))
						}
					}
				})
			}
		}
	}
	t.Logf("figure: deleted, restored and forced gates: the latest pass after the next release | %.0f %% of 1.1 × poll + a round trip | ≤ 100 %%", 100*worst.Seconds()/bound.Seconds())
}

// A document that cannot be used is replaced by force only, and what was there
// is kept in the history.
func TestForce(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		forced     bool
	}{
		{"released as text", `{"version":2,"released":"yes"}`, true},
		{"empty", "", true},
		{"long", strings.Repeat("日", 1000), true},
		{"older format", `{"version":1,"life":"A","released":true,"generation":4,"history":[]}`, true},
		{"newer format", `{"version":3,"open":true}`, false}, // while a new version of this program is deployed
	} {
		for _, release := range []bool{true, false} {
			store := memory.NewValues(nil)
			store.Set("start", tt.text)
			before, _ := store.Get("start")
			g := newGates(t, store, nil)
			do := changeTo(g, release)
			if s, err := g.State(t.Context(), "start"); !errors.Is(err, gate.ErrCorrupt) || s.Released {
				t.Errorf("%s: state %+v, %v, want %v", tt.name, s, err, gate.ErrCorrupt)
			}
			if got, err := do(t.Context(), "start", ann); !errors.Is(err, gate.ErrCorrupt) {
				t.Errorf("%s: changed without force: %+v, %v", tt.name, got, err)
			}
			if after, _ := store.Get("start"); after.Version != before.Version {
				t.Errorf("%s: it was written to: %q", tt.name, after.Text)
			}
			got, err := do(t.Context(), "start", gate.Change{By: "bob", Force: true})
			if !tt.forced {
				if !errors.Is(err, gate.ErrCorrupt) {
					t.Errorf("%s: by force: %+v, %v, want %v", tt.name, got, err, gate.ErrCorrupt)
				}
				continue
			}
			if err != nil || !got.Changed || got.State.Released != release || got.State.Generation > 0 != release || len(got.State.History) != 1 || got.State.History[0].Replaced == "" {
				t.Fatalf("%s: by force: %+v, %v, want it to start over", tt.name, got, err)
			}
			if s, err := g.State(t.Context(), "start"); err != nil || s.Generation != got.State.Generation || s.By != "bob" {
				t.Errorf("%s: afterwards: %+v, %v", tt.name, s, err)
			}
			again, err := g.Release(t.Context(), "start", gate.Change{By: "bob", Force: true})
			if err != nil || again.Changed == release || again.State.Releases != 1 || again.Changed && again.State.History[1].Replaced != "" {
				t.Errorf("%s: force at a valid document: %+v, %v, want no effect", tt.name, again, err)
			}
		}
	}
}
