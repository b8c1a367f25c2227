package gate_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"kennel/gate"
	"kennel/internal/memory"
)

var ann = gate.Change{By: "ann", Reason: "stock is counted"}

func TestReleaseAndClose(t *testing.T) {
	store := memory.NewGates(nil)
	g := newGates(t, store, nil)
	if s, err := g.State(t.Context(), "start"); err != nil || s.Released || s.Generation != 0 || s.Gate != "start" || s.By != "" {
		t.Errorf("a gate that nobody has changed: %+v, %v, want it shut", s, err)
	}
	for i, step := range []struct {
		release    bool
		by         string
		changed    bool
		generation int64
	}{
		{false, "ann", false, 0}, // shut already, and nothing is written for that
		{true, "ann", true, 1},
		{true, "bob", false, 1},
		{false, "bob", true, 1},
		{false, "ann", false, 1},
		{true, "bob", true, 2},
	} {
		do := g.Close
		if step.release {
			do = g.Release
		}
		writes := store.CallsOf("Replace")
		got, err := do(t.Context(), "start", gate.Change{By: step.by, Reason: fmt.Sprint("step ", i)})
		if err != nil || got.Changed != step.changed || got.State.Generation != step.generation || got.State.Released != step.release {
			t.Errorf("step %d: %+v, %v, want changed %t, generation %d", i, got, err, step.changed, step.generation)
		}
		if wrote := store.CallsOf("Replace") > writes; wrote != step.changed {
			t.Errorf("step %d: written %t, changed %t", i, wrote, step.changed)
		}
		if step.changed && (got.State.By != step.by || got.State.Reason != fmt.Sprint("step ", i) || time.Since(got.State.ChangedAt) > time.Minute) {
			t.Errorf("step %d: %+v does not say who, why and when", i, got.State)
		}
		if !step.changed && got.State.Generation > 0 && got.State.By == step.by {
			t.Errorf("step %d: %+v gives the credit to who changed nothing", i, got.State)
		}
	}
	s, err := g.State(t.Context(), "start")
	if err != nil || !s.Released || s.Generation != 2 {
		t.Errorf("in the end: %+v, %v", s, err)
	}
	var history []string
	for _, entry := range s.History {
		history = append(history, fmt.Sprint(entry.Change, " ", entry.Generation, " ", entry.By, " ", entry.Reason))
	}
	if want := []string{"release 1 ann step 1", "close 1 bob step 3", "release 2 bob step 5"}; !slices.Equal(history, want) {
		t.Errorf("history %q, want %q", history, want)
	}
}

// Each request of a release fails in turn: once without having arrived, once
// with only its reply lost, once arriving when nobody expects it any more.
func TestReleaseThroughLostReplies(t *testing.T) {
	lost := errors.New("connection reset")
	for n := int64(1); n <= 4; n++ {
		for name, fate := range map[string]memory.Fate{
			"refused":          {Err: lost, Lost: true},
			"done, unheard":    {Err: lost},
			"late":             {Err: lost, After: 300 * time.Millisecond},
			"later":            {Err: lost, After: 30 * time.Second},
			"silence":          {Lost: true},
			"conflict, untrue": {Err: gate.ErrChanged, Lost: true},
		} {
			t.Run(fmt.Sprintf("request %d %s", n, name), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					store := memory.NewGates(&memory.Options{Fate: func(c memory.Call) memory.Fate {
						if c.N == n {
							return fate
						}
						return memory.Fate{Back: time.Millisecond}
					}})
					for i, do := range []func(context.Context, string, gate.Change) (gate.Changed, error){
						newGates(t, store, nil).Release, newGates(t, store, nil).Close,
					} {
						got, err := do(t.Context(), "start", ann)
						if err != nil || !got.Changed || len(got.State.History) != i+1 || got.State.Generation != 1 {
							t.Errorf("change %d: %+v, %v, want it made, and once", i, got, err)
						}
					}
					store.Wait()
					if past := store.Past("start"); len(past) != 2 {
						t.Errorf("the store has held %d states, want 2", len(past))
					}
				})
			})
		}
	}
}

// A store that stays down: the error says whether something may have happened.
func TestReleaseWhileTheStoreIsDown(t *testing.T) {
	lost := errors.New("connection reset")
	for _, test := range []struct {
		name    string
		op      string
		fate    memory.Fate
		want    error
		longest time.Duration
	}{
		{"cannot be read", "Load", memory.Fate{Err: lost, Lost: true}, gate.ErrUnknown, 2 * time.Second},
		{"is silent when read", "Load", memory.Fate{Lost: true}, gate.ErrUnknown, 21 * time.Second},
		{"cannot be written", "Replace", memory.Fate{Err: lost, Lost: true}, gate.ErrUnclear, 20 * time.Second},
		{"is silent when written", "Replace", memory.Fate{Lost: true}, gate.ErrUnclear, 20 * time.Second},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := memory.NewGates(&memory.Options{Fate: func(c memory.Call) memory.Fate {
					if c.Op == test.op {
						return test.fate
					}
					return memory.Fate{}
				}})
				began := time.Now()
				got, err := newGates(t, store, nil).Release(t.Context(), "start", ann)
				if !errors.Is(err, test.want) || got.Changed {
					t.Errorf("release: %+v, %v, want %v", got, err, test.want)
				}
				if test.fate.Err != nil && !errors.Is(err, lost) {
					t.Errorf("release: %v does not say what the store said", err)
				}
				if took := time.Since(began); took > test.longest {
					t.Errorf("it took %v to say so, want at most %v", took, test.longest)
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				began = time.Now()
				if _, err := newGates(t, store, nil).Release(ctx, "start", ann); !errors.Is(err, test.want) {
					t.Errorf("release with a short time: %v, want %v", err, test.want)
				}
				if took := time.Since(began); took > time.Second {
					t.Errorf("it took %v, where there was a second", took)
				}
			})
		})
	}
}

// Two administrators race again and again: one winner for each generation,
// and the account is complete.
func TestAdministratorsRace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		rng := rand.New(rand.NewPCG(5, 6))
		store := memory.NewGates(&memory.Options{Fate: func(memory.Call) memory.Fate {
			mu.Lock()
			defer mu.Unlock()
			return memory.Fate{Delay: time.Duration(rng.Int64N(int64(20 * time.Millisecond))), Back: 5 * time.Millisecond}
		}})
		var entries []gate.Transition
		for race := range int64(gate.Races) {
			for _, release := range []bool{true, false} {
				var winners []string
				var states []gate.State
				var wg sync.WaitGroup
				for _, by := range []string{"ann", "bob"} {
					g := newGates(t, store, nil)
					do := g.Close
					if release {
						do = g.Release
					}
					wg.Go(func() {
						got, err := do(t.Context(), "start", gate.Change{By: by, Reason: fmt.Sprintf("%s in race %d", by, race)})
						mu.Lock()
						defer mu.Unlock()
						if err != nil || got.State.Generation != race+1 {
							t.Errorf("race %d: %+v, %v", race, got, err)
						}
						if got.Changed {
							winners = append(winners, by)
						}
						states = append(states, got.State)
					})
				}
				wg.Wait()
				if len(winners) != 1 || states[0].By != winners[0] || states[1].By != winners[0] {
					t.Fatalf("race %d: %q have won, and both were told that %q and %q had", race, winners, states[0].By, states[1].By)
				}
				entries = append(entries, states[0].History[len(states[0].History)-1])
			}
		}
		for i, e := range entries {
			if e.Generation != int64(i/2)+1 || e.Reason != fmt.Sprintf("%s in race %d", e.By, i/2) || e.At.IsZero() {
				t.Errorf("entry %d: %+v", i, e)
			}
		}
		t.Logf("figure: releases with other than one winner in %d races of two administrators | 0 | 0", gate.Races)
	})
}

func TestInvalidChanges(t *testing.T) {
	g := newGates(t, memory.NewGates(nil), nil)
	for _, test := range []struct {
		name   string
		gate   string
		change gate.Change
		ok     bool
	}{
		{"fine", "start-order-processing", ann, true},
		{"no reason", "start", gate.Change{By: "ann"}, true},
		{"longest", strings.Repeat("g", 63), gate.Change{By: strings.Repeat("ü", 200), Reason: strings.Repeat("日", 1000)}, true},
		{"lines", "start", gate.Change{By: "ann", Reason: "one\n\ttwo"}, true},
		{"no gate", "", ann, false},
		{"long gate", strings.Repeat("g", 64), ann, false},
		{"capitals", "Start", ann, false},
		{"hyphen at the end", "start-", ann, false},
		{"a path", "a/b", ann, false},
		{"nobody", "start", gate.Change{Reason: "x"}, false},
		{"long name", "start", gate.Change{By: strings.Repeat("ü", 201)}, false},
		{"name with lines", "start", gate.Change{By: "a\nb"}, false},
		{"long reason", "start", gate.Change{By: "ann", Reason: strings.Repeat("日", 1001)}, false},
		{"control characters", "start", gate.Change{By: "ann", Reason: "a\x00b"}, false},
		{"not UTF-8", "start", gate.Change{By: "ann", Reason: "a\xffb"}, false},
	} {
		_, err := g.Release(t.Context(), test.gate, test.change)
		if ok := err == nil; ok != test.ok || err != nil && !errors.Is(err, gate.ErrInvalid) {
			t.Errorf("%s: %v, want fine: %t, or else %v", test.name, err, test.ok, gate.ErrInvalid)
		}
	}
	if _, err := g.State(t.Context(), "a/b"); !errors.Is(err, gate.ErrInvalid) {
		t.Errorf("state: %v, want %v", err, gate.ErrInvalid)
	}
}

// Whoever releases a released gate sends its signal again: perhaps it was never
// sent.
func TestReleaseAgainSignalsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		signals := memory.NewSignals(nil)
		signals.Break()
		g := newGates(t, memory.NewGates(nil), &gate.Options{Signals: signals})
		got, err := g.Release(t.Context(), "start", ann)
		if err != nil || !got.Changed || !errors.Is(got.Unsignalled, memory.ErrCutOff) {
			t.Errorf("release without signals: %+v, %v, want it made, and said that nobody was told", got, err)
		}
		signals.Mend()
		got, err = g.Release(t.Context(), "start", ann)
		if err != nil || got.Changed || got.Unsignalled != nil || signals.Published() != 1 {
			t.Errorf("release again: %+v, %v, %d signals, want one", got, err, signals.Published())
		}
	})
}
