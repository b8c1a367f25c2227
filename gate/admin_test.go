package gate_test

import (
	"context"
	"encoding/json"
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
	"kennel/internal/storetest"
)

func TestReleaseAndClose(t *testing.T) {
	store := memory.NewGates(nil)
	g := newGates(t, store, nil)
	if s, err := g.State(t.Context(), "start"); err != nil || s.Released || s.Generation != 0 || s.Gate != "start" || s.By != "" {
		t.Errorf("a gate without a document: %+v, %v, want it closed", s, err)
	}
	generation := int64(0)
	for i, step := range []struct {
		release  bool
		by       string
		changed  bool
		releases int64
	}{
		{false, "ann", false, 0}, // closed already, and nothing is written for that
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
		if err != nil || got.Changed != step.changed || got.State.Releases != step.releases || got.State.Released != step.release {
			t.Errorf("step %d: %+v, %v, want changed %t, releases %d", i, got, err, step.changed, step.releases)
		}
		if grows := got.State.Generation > generation; grows != (step.changed && step.release) || grows && time.Since(time.UnixMilli(got.State.Generation)).Abs() > time.Minute {
			t.Errorf("step %d: generation %d after %d, want it to grow to the store's time with a release only", i, got.State.Generation, generation)
		}
		generation = got.State.Generation
		if wrote := store.CallsOf("Replace") > writes; wrote != step.changed {
			t.Errorf("step %d: written %t, changed %t", i, wrote, step.changed)
		}
		if own := got.State.By == step.by && got.State.Reason == fmt.Sprint("step ", i) && time.Since(got.State.ChangedAt) < time.Minute; own != step.changed {
			t.Errorf("step %d: %+v does not say who changed it, why and when", i, got.State)
		}
	}
	s, err := g.State(t.Context(), "start")
	var history []string
	for _, entry := range s.History {
		history = append(history, fmt.Sprint(entry.Change, " ", entry.By, " ", entry.Reason))
	}
	if want := []string{"release ann step 1", "close bob step 3", "release bob step 5"}; err != nil || !slices.Equal(history, want) {
		t.Errorf("history %q, %v, want %q", history, err, want)
	}
}

// Each request of a release and of a close fails in turn: once without having
// arrived, once with only its reply lost, once arriving late.
func TestChangeThroughLostReplies(t *testing.T) {
	for n := int64(1); n <= 4; n++ {
		for name, fate := range map[string]memory.Fate{
			"refused":          {Err: errLost, Lost: true},
			"done, reply lost": {Err: errLost},
			"late":             {Err: errLost, After: 300 * time.Millisecond},
			"later":            {Err: errLost, After: 30 * time.Second},
			"silence":          {Lost: true},
			"false conflict":   {Err: gate.ErrChanged, Lost: true},
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
						if err != nil || !got.Changed || len(got.State.History) != i+1 || got.State.Releases != 1 {
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
func TestChangeWhileTheStoreIsDown(t *testing.T) {
	for _, tt := range []struct {
		name  string
		op    string
		fate  memory.Fate
		want  error
		bound time.Duration
	}{
		{"cannot be read", "Load", memory.Fate{Err: errLost, Lost: true}, gate.ErrUnknown, 2 * time.Second},
		{"is silent when read", "Load", memory.Fate{Lost: true}, gate.ErrUnknown, 21 * time.Second},
		{"cannot be written", "Replace", memory.Fate{Err: errLost, Lost: true}, gate.ErrUnclear, 20 * time.Second},
		{"is silent when written", "Replace", memory.Fate{Lost: true}, gate.ErrUnclear, 20 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := memory.NewGates(&memory.Options{Fate: func(c memory.Call) memory.Fate {
					if c.Op == tt.op {
						return tt.fate
					}
					return memory.Fate{}
				}})
				g := newGates(t, store, nil)
				for _, bound := range []time.Duration{tt.bound, time.Second} {
					limit := time.Hour
					if bound < tt.bound {
						limit = bound
					}
					ctx, cancel := context.WithTimeout(t.Context(), limit)
					began := time.Now()
					got, err := g.Release(ctx, "start", ann)
					if took := time.Since(began); !errors.Is(err, tt.want) || got.Changed || took > bound {
						t.Errorf("release: %+v, %v after %v, want %v within %v", got, err, took, tt.want, bound)
					}
					if tt.fate.Err != nil && !errors.Is(err, errLost) {
						t.Errorf("release: %v does not wrap the store's error", err)
					}
					cancel()
				}
				if _, err := g.State(t.Context(), "start"); (err != nil) != (tt.op == "Load") || err != nil && !errors.Is(err, gate.ErrUnknown) {
					t.Errorf("state: %v", err)
				}
			})
		})
	}
}

// Two administrators race again and again: one makes each release, and the
// history is complete.
func TestAdministratorsRace(t *testing.T) {
	races := storetest.Scale(30, 1000)
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		rng := rand.New(rand.NewPCG(5, 6))
		store := memory.NewGates(&memory.Options{Fate: func(memory.Call) memory.Fate {
			mu.Lock()
			defer mu.Unlock()
			return memory.Fate{Delay: time.Duration(rng.Int64N(int64(20 * time.Millisecond))), Back: 5 * time.Millisecond}
		}})
		last := int64(0)
		for race := range int64(races) {
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
						if err != nil || got.State.Releases != race+1 || got.State.Reason != fmt.Sprintf("%s in race %d", got.State.By, race) {
							t.Errorf("race %d: %+v, %v", race, got, err)
						}
						if got.Changed {
							winners = append(winners, by)
						}
						states = append(states, got.State)
					})
				}
				wg.Wait()
				if len(winners) != 1 || states[0].By != winners[0] || states[1].By != winners[0] || states[0].Generation != states[1].Generation {
					t.Fatalf("race %d: %q won, and the answers were %+v and %+v", race, winners, states[0], states[1])
				}
				if grows := states[0].Generation > last; grows != release {
					t.Fatalf("race %d: generation %d after %d", race, states[0].Generation, last)
				}
				last = states[0].Generation
			}
		}
		t.Logf("figure: releases with other than one winner in %d races of two administrators | 0 | 0", races)
	})
}

func TestInvalidArguments(t *testing.T) {
	g := newGates(t, memory.NewGates(nil), nil)
	for _, tt := range []struct {
		name   string
		gate   string
		change gate.Change
		ok     bool
	}{
		{"valid", "start-order-processing", ann, true},
		{"no reason", "start", gate.Change{By: "ann"}, true},
		{"longest", strings.Repeat("g", 63), gate.Change{By: strings.Repeat("ü", 200), Reason: strings.Repeat("日", 1000)}, true},
		{"lines", "start", gate.Change{By: "ann", Reason: "one\n\ttwo"}, true},
		{"no gate", "", ann, false},
		{"long gate", strings.Repeat("g", 64), ann, false},
		{"capitals", "Start", ann, false},
		{"hyphen at the end", "start-", ann, false},
		{"a path", "a/b", ann, false},
		{"no name", "start", gate.Change{Reason: "x"}, false},
		{"long name", "start", gate.Change{By: strings.Repeat("ü", 201)}, false},
		{"name with lines", "start", gate.Change{By: "a\nb"}, false},
		{"long reason", "start", gate.Change{By: "ann", Reason: strings.Repeat("日", 1001)}, false},
		{"control characters", "start", gate.Change{By: "ann", Reason: "a\x00b"}, false},
		{"not UTF-8", "start", gate.Change{By: "ann", Reason: "a\xffb"}, false},
	} {
		_, err := g.Release(t.Context(), tt.gate, tt.change)
		if ok := err == nil; ok != tt.ok || err != nil && !errors.Is(err, gate.ErrInvalid) {
			t.Errorf("%s: %v, want valid: %t, or else %v", tt.name, err, tt.ok, gate.ErrInvalid)
		}
	}
	_, err := g.State(t.Context(), "a/b")
	errs := []error{err}
	for _, tt := range []struct {
		gate  string
		after int64
		limit time.Duration
	}{
		{"Start", 0, time.Second}, {"start", -2, time.Second}, {"start", gate.MaxGeneration + 1, time.Second},
		{"start", gate.Now, 0}, {"start", gate.Now, gate.MaxWait + 1},
	} {
		_, err := g.Wait(t.Context(), tt.gate, tt.after, tt.limit)
		errs = append(errs, err)
	}
	for i, err := range errs {
		if !errors.Is(err, gate.ErrInvalid) {
			t.Errorf("state or wait %d: %v, want %v", i, err, gate.ErrInvalid)
		}
	}
}

// witness is a Signals that compares each signal with what is stored when it
// is sent.
type witness struct {
	hand
	t     *testing.T
	store *memory.Gates
}

func (w *witness) Publish(ctx context.Context, s gate.Signal) error {
	flag, _ := w.store.Get(s.Gate)
	var stored gate.State
	if err := json.Unmarshal([]byte(flag.Text), &stored); err != nil || stored.Generation != s.Generation || s.Gate != "start" {
		w.t.Errorf("signal %+v is sent while the store holds %q", s, flag.Text)
	}
	return w.hand.Publish(ctx, s)
}

// Whatever becomes of the requests of a release, it is announced, and waiters
// of the same process pass, only after the store has confirmed it: then at
// once, without a read.
func TestSignalAfterConfirmation(t *testing.T) {
	for name, fate := range map[string]memory.Fate{
		"done":             {Delay: time.Millisecond},
		"refused":          {Err: errLost, Lost: true},
		"done, reply lost": {Err: errLost},
		"late":             {Err: errLost, After: 300 * time.Millisecond},
		"silence":          {Lost: true},
		"conflict":         {Err: gate.ErrChanged, Lost: true},
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
					w := &witness{hand: hand{end: make(chan error)}, t: t, store: store}
					g := running(t, store, &gate.Options{Signals: w})
					c := wait(t, g, 0, gate.MaxWait)
					time.Sleep(time.Second)
					got, err := g.Release(t.Context(), "start", ann)
					released := time.Now()
					if !got.Changed && (!errors.Is(err, gate.ErrUnclear) || !ever) || got.Changed != (len(w.published) == 1) || got.Signalled != got.Changed {
						t.Errorf("release: %+v, %v, %d signals", got, err, len(w.published))
					}
					time.Sleep(time.Minute)
					store.Wait()
					if _, stored := store.Get("start"); len(c) == 1 != stored {
						t.Fatalf("passed: %t, released: %t", len(c) == 1, stored)
					}
					if got.Changed {
						if l := <-c; l.at.After(released) {
							t.Errorf("passed %v after the release of its own process", l.at.Sub(released))
						}
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
	defer h.goAway()
	return h.Gates.Replace(ctx, name, old, next)
}

// A change that was made is announced even if its caller has gone away. The
// result says whether that failed; releasing again sends the signal again.
func TestSignalResult(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		signals, store := memory.NewSignals(nil), memory.NewGates(nil)
		signals.Break()
		for i, tt := range []struct {
			do      func(*gate.Gates, context.Context, string, gate.Change) (gate.Changed, error)
			signals gate.Signals
			changed bool
			sent    bool
			err     error
		}{
			{(*gate.Gates).Release, signals, true, false, memory.ErrCutOff},
			{(*gate.Gates).Release, nil, false, false, nil},
			{(*gate.Gates).Release, signals, false, true, nil},
			{(*gate.Gates).Close, signals, true, true, nil},
			{(*gate.Gates).Close, signals, false, false, nil},
		} {
			got, err := tt.do(newGates(t, hasty{store, cancel}, &gate.Options{Signals: tt.signals}), ctx, "start", ann)
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
