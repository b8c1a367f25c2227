package gate_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"kennel/gate"
)

// whole is a signal that tells of a third release.
var whole = gate.Signal{
	Gate: "start", Generation: 3, Released: true,
	At: time.Date(2026, 11, 21, 11, 0, 0, 0, time.FixedZone("", 3600)), By: "bob", Reason: "line 1\nline 2 日本",
}

// A signal is taken at its word when it is whole. Else it hurries the next
// look, if the gate is meant, and that is all.
func TestSignalsThatAreNotWhole(t *testing.T) {
	for _, test := range []struct {
		name   string
		edit   func(s *gate.Signal)
		passes bool // on its word
		wakes  bool
	}{
		{"whole", func(s *gate.Signal) {}, true, true},
		{"whole, shut since", func(s *gate.Signal) { s.Released = false }, true, true},
		{"no reason", func(s *gate.Signal) { s.Reason = "" }, true, true},
		{"longest", func(s *gate.Signal) {
			s.By, s.Reason = strings.Repeat("ü", gate.MaxBy), strings.Repeat("日", gate.MaxReason)
		}, true, true},
		{"empty", func(s *gate.Signal) { *s = gate.Signal{} }, false, true},
		{"no gate", func(s *gate.Signal) { s.Gate = "" }, false, true},
		{"another gate", func(s *gate.Signal) { s.Gate = "other" }, false, false},
		{"no generation", func(s *gate.Signal) { s.Generation = 0 }, false, true},
		{"generation negative", func(s *gate.Signal) { s.Generation = -3 }, false, true},
		{"generation too large", func(s *gate.Signal) { s.Generation = gate.MaxGeneration + 1 }, false, true},
		{"generation of before", func(s *gate.Signal) { s.Generation = 2 }, false, true},
		{"another life", func(s *gate.Signal) { s.Life = "another" }, false, true},
		{"endless life", func(s *gate.Signal) { s.Life = strings.Repeat("A", 1<<20) }, false, true},
		{"no time", func(s *gate.Signal) { s.At = time.Time{} }, false, true},
		{"time that JSON cannot tell", func(s *gate.Signal) { s.At = time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC) }, false, true},
		{"nobody", func(s *gate.Signal) { s.By = "" }, false, true},
		{"long name", func(s *gate.Signal) { s.By = strings.Repeat("ü", gate.MaxBy+1) }, false, true},
		{"name of two lines", func(s *gate.Signal) { s.By = "ann\nlevel=ERROR" }, false, true},
		{"long reason", func(s *gate.Signal) { s.Reason = strings.Repeat("日", gate.MaxReason+1) }, false, true},
		{"control characters", func(s *gate.Signal) { s.Reason = "a\x00b" }, false, true},
		{"not UTF-8", func(s *gate.Signal) { s.Reason = "a\xffb" }, false, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newScene(t)
				c := wait(t, s.gates, 2, gate.MaxWait)
				time.Sleep(time.Second)
				signal, calls := whole, s.store.Calls()
				test.edit(&signal)
				s.ear().Heard(signal)
				synctest.Wait()
				switch known, _ := s.gates.Known("start"); {
				case len(c) == 1 != test.passes:
					t.Errorf("passed: %t, want %t", len(c) == 1, test.passes)
				case test.passes:
					if got := (<-c).State; got.Released != signal.Released || got.Generation != 3 || got.By != signal.By || got.Reason != signal.Reason ||
						got.ChangedAt != signal.At.UTC() || len(got.History) != 0 {
						t.Errorf("passed with %+v, want all that the signal has told", got)
					}
				case known.Generation != 2 || known.By != ann.By:
					t.Errorf("known is %+v, want what the store has shown", known)
				}
				time.Sleep(5 * time.Second)
				if looked := s.store.Calls() > calls; looked != test.wakes {
					t.Errorf("looked within 5 s: %t, want %t", looked, test.wakes)
				}
				if known, ok := s.gates.Known("start"); test.wakes && (!ok || known.Generation != 2 || len(known.History) != 4) {
					t.Errorf("after the look known is %+v, %t: the store has the last word", known, ok)
				}
			})
		})
	}
}

// What a person has written into a document may be more than a signal carries.
// It is not sent then, but that something has happened is.
func TestUnfitForSignals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		change(t, s.store, nil, true)
		flag, _ := s.store.Get("start")
		s.store.Set("start", strings.ReplaceAll(flag.Text, `"by": "ann"`, `"by": "`+strings.Repeat("ann", 1000)+`"`))
		if got, err := newGates(t, s.store, &gate.Options{Signals: s}).Release(t.Context(), "start", ann); err != nil || got.Changed {
			t.Fatalf("release of what is released: %+v, %v", got, err)
		}
		if len(s.published) != 1 || s.published[0] != (gate.Signal{Gate: "start"}) {
			t.Errorf("published %.200v, want nothing but the gate's name", s.published)
		}
	})
}
