package gate_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"kennel/gate"
	"kennel/internal/memory"
)

// Whoever waits with what passes when.
func TestWhoPasses(t *testing.T) {
	for _, test := range []struct {
		name    string
		before  []bool // releases and closings before the waiter comes
		after   int64
		then    []bool // what happens while it waits
		passes  bool
		returns int64 // the generation it goes away with
	}{
		{"shut for ever", nil, gate.Now, nil, false, 0},
		{"shut, then released", nil, gate.Now, []bool{true}, true, 1},
		{"shut, released and shut at once", nil, gate.Now, []bool{true, false}, true, 1},
		{"released", []bool{true}, gate.Now, nil, true, 1},
		{"released before and shut again", []bool{true, false}, gate.Now, nil, false, 1},
		{"released before, shut and released again", []bool{true, false}, gate.Now, []bool{true}, true, 2},
		{"has seen nothing, released and shut before", []bool{true, false}, 0, nil, true, 1},
		{"has seen the one it is at", []bool{true}, 1, nil, false, 1},
		{"has seen the one it is at, and it is shut", []bool{true}, 1, []bool{false}, false, 1},
		{"has seen the one it is at, and there is another", []bool{true}, 1, []bool{false, true}, true, 2},
		{"re-armed, missed two", []bool{true, false, true, false}, 0, nil, true, 2},
		{"has seen more than there is", []bool{true}, 5, nil, false, 5},
		{"has seen more than there is, and waits on", []bool{true}, 2, []bool{false, true}, false, 2},
	} {
		for _, signals := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, signals %t", test.name, signals), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					store := memory.NewGates(nil)
					o := &gate.Options{}
					if signals {
						o.Signals = memory.NewSignals(nil)
					}
					for _, release := range test.before {
						change(t, store, o, release)
					}
					c := wait(t, running(t, store, o), test.after, gate.MaxWait)
					time.Sleep(time.Minute)
					for _, release := range test.then {
						change(t, store, o, release)
					}
					l := <-c
					if l.err != nil || l.Passed != test.passes || l.Generation != test.returns {
						t.Errorf("%+v, %v, want passed %t with generation %d", l.Waited, l.err, test.passes, test.returns)
					}
					if l.State.Gate != "start" {
						t.Errorf("state %+v is of another gate", l.State)
					}
					if changed := l.State.Generation > 0; changed && (l.State.By != ann.By || l.State.Reason != ann.Reason || time.Since(l.State.ChangedAt) > 5*time.Minute) ||
						!changed && !l.State.ChangedAt.IsZero() {
						t.Errorf("state %+v does not tell who changed it last, when and why", l.State)
					}
				})
			})
		}
	}
}

// A wait is bounded, and what happens between two of them is not missed.
func TestResumedWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewGates(nil)
		g, other := running(t, store, nil), running(t, store, nil)
		began := time.Now()
		w, err := g.Wait(t.Context(), "start", gate.Now, 30*time.Second)
		if err != nil || w.Passed || w.Generation != 0 || time.Since(began) != 30*time.Second {
			t.Errorf("first wait: %+v, %v after %v, want the time to be over", w, err, time.Since(began))
		}
		change(t, store, nil, true)
		change(t, store, nil, false)
		w, err = other.Wait(t.Context(), "start", w.Generation, 30*time.Second)
		if err != nil || !w.Passed || w.Generation != 1 || w.State.Released {
			t.Errorf("second wait, elsewhere: %+v, %v, want to pass for the release in between", w, err)
		}
		w, err = g.Wait(t.Context(), "start", w.Generation, 5*time.Second)
		if err != nil || w.Passed || w.Generation != 1 {
			t.Errorf("third wait: %+v, %v, want to wait for the next release", w, err)
		}
	})
}

// Each wait ends when its own time is over, in whatever order they have begun,
// and also while a look hangs.
func TestWaitsEnd(t *testing.T) {
	for _, hangs := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			store := memory.NewGates(&memory.Options{Fate: func(memory.Call) memory.Fate {
				if hangs {
					return memory.Fate{Delay: time.Hour}
				}
				return memory.Fate{}
			}})
			g := running(t, store, &gate.Options{CallTimeout: 100 * time.Second})
			began := time.Now()
			waits := make(map[time.Duration]<-chan left)
			for _, limit := range []time.Duration{50, 10, 11, 190, 30, 200, 60} {
				limit *= time.Second
				waits[limit] = wait(t, g, 0, limit)
				synctest.Wait()
			}
			gone, leave := context.WithTimeout(t.Context(), 20*time.Second)
			defer leave()
			if _, err := g.Wait(gone, "start", 0, 40*time.Second); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("who has gone before its time: %v, want %v", err, context.DeadlineExceeded)
			}
			for limit, c := range waits {
				l := <-c
				if took := l.at.Sub(began); took != limit || l.Passed || errors.Is(l.err, gate.ErrUnknown) != hangs {
					t.Errorf("hangs %t: a wait of %v ended after %v: %+v, %v", hangs, limit, took, l.Waited, l.err)
				}
			}
			again := time.Now()
			if l := <-wait(t, g, 0, 7*time.Second); l.at.Sub(again) != 7*time.Second {
				t.Errorf("the wait after all others took %v, want 7 s", l.at.Sub(again))
			}
			store.Wait()
		})
	}
}

// Whoever is sent away in the very moment of a release has either passed, or
// hears what was known before: with the generation of a release that it has
// not passed it would come back and miss it.
func TestSentAwayDuringRelease(t *testing.T) {
	for range 100 {
		synctest.Test(t, func(t *testing.T) {
			s := newScene(t)
			var waits []<-chan left
			wait(t, s.gates, 2, time.Second) // the watcher is there
			synctest.Wait()
			go func() {
				time.Sleep(time.Second)
				s.ear().Heard(whole)
			}()
			for range 20 {
				waits = append(waits, wait(t, s.gates, 2, time.Second))
			}
			for _, c := range waits {
				if l := <-c; l.err != nil || l.Passed != (l.State.Generation == 3) || l.Generation != l.State.Generation {
					t.Errorf("%+v, %v, want to have passed with generation 3, or to know only 2", l.Waited, l.err)
				}
			}
		})
	}
}

// A node passes a release at one process, and waits for the next at another,
// which has not seen the first yet: with the state that this one answers it
// comes back, and must not pass the same release again.
func TestComingFromElsewhere(t *testing.T) {
	for _, slow := range []time.Duration{0, 700 * time.Millisecond, time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			var delay atomic.Int64
			store := memory.NewGates(&memory.Options{Fate: func(memory.Call) memory.Fate { return memory.Fate{Delay: time.Duration(delay.Load())} }})
			change(t, store, nil, true)
			change(t, store, nil, false)
			g := running(t, store, nil)
			wait(t, g, 1, gate.MaxWait) // somebody else, so that g looks now and then
			time.Sleep(gate.MaxWait / 2)
			for off := time.Duration(0); off < 2500*time.Millisecond; off += 250 * time.Millisecond {
				passed := int64(0)
				for s, ok := g.Known("start"); ok && passed == 0; s, ok = g.Known("start") {
					passed = s.Generation + 1
				}
				change(t, store, nil, true)
				change(t, store, nil, false)
				delay.Store(int64(slow))
				l := <-wait(t, g, passed, time.Second)
				if !errors.Is(l.err, gate.ErrUnknown) && (l.err != nil || l.Passed || l.State.Generation != passed || slow > time.Second) {
					t.Errorf("looks take %v: who has passed %d is answered %+v, %v", slow, passed, l.Waited, l.err)
				}
				delay.Store(0)
				time.Sleep(10*time.Second + off) // polls come in intervals
			}
			store.Wait()
		})
	}
}

func TestInvalidWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := running(t, memory.NewGates(nil), nil)
		for _, test := range []struct {
			gate  string
			after int64
			limit time.Duration
		}{
			{"Start", gate.Now, time.Second},
			{"start", -2, time.Second},
			{"start", gate.MaxGeneration + 1, time.Second},
			{"start", gate.Now, 0},
			{"start", gate.Now, -time.Second},
			{"start", gate.Now, gate.MaxWait + 1},
		} {
			if w, err := g.Wait(t.Context(), test.gate, test.after, test.limit); !errors.Is(err, gate.ErrInvalid) {
				t.Errorf("wait at %q after %d for %v: %+v, %v, want %v", test.gate, test.after, test.limit, w, err, gate.ErrInvalid)
			}
		}
		for i := range 1001 {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if _, err := g.Wait(ctx, fmt.Sprint("gate-", i), gate.Now, time.Second); !errors.Is(err, context.Canceled) {
				t.Errorf("wait at gate %d: %v, want %v", i, err, context.Canceled)
			}
		}
		time.Sleep(2 * time.Minute) // nobody waits there any more
		if n := len(g.Watched()); n != 0 {
			t.Errorf("%d gates are watched at which nobody waits", n)
		}
	})
}

// As many gates are watched as there may be only if there are waiters at all of
// them. Those at which nobody waits any more make room, the longest unused
// first.
func TestTooManyGates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewGates(&memory.Options{Fate: (&memory.Line{RoundTrip: 10 * time.Millisecond}).Fate})
		g := running(t, store, nil)
		waitAt := func(name string, limit time.Duration) <-chan error {
			c := make(chan error, 1)
			go func() {
				_, err := g.Wait(t.Context(), name, 0, limit)
				c <- err
			}()
			synctest.Wait()
			return c
		}
		known := func(name string) bool { _, ok := g.Known(name); return ok }
		for i := range 1000 {
			waitAt(fmt.Sprint("gate-", i), time.Minute-time.Duration(i)*time.Millisecond)
		}
		if err := <-waitAt("one-more", time.Second); !errors.Is(err, gate.ErrTooMany) {
			t.Errorf("wait at one gate more: %v, want %v", err, gate.ErrTooMany)
		}
		time.Sleep(time.Minute)
		for i := range 3 {
			if err := <-waitAt(fmt.Sprint("new-", i), time.Second); err != nil {
				t.Errorf("wait when nobody else does: %v", err)
			}
		}
		if len(g.Watched()) != 1000 || !known("gate-996") || known("gate-997") || known("gate-999") || !known("new-0") {
			t.Errorf("of %d gates watched, the last that were waited at are not those", len(g.Watched()))
		}
		again := waitAt("gate-999", 100*time.Second)
		time.Sleep(90 * time.Second)
		if n := g.Watched()["gate-999"].Waiting; n != 1 {
			t.Errorf("%d waiters at a gate that was forgotten and waited at again, want 1", n)
		}
		if err := <-again; err != nil {
			t.Errorf("wait at a gate that was forgotten: %v", err)
		}
		time.Sleep(2 * time.Minute)
		calls := store.Calls()
		time.Sleep(time.Hour)
		if store.Calls() != calls || len(g.Watched()) != 0 {
			t.Errorf("%d requests, %d gates watched, in an hour in which nobody waited", store.Calls()-calls, len(g.Watched()))
		}
	})
}

// One watcher for a gate, whoever waits there, and none when nobody does.
func TestOneWatcher(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewGates(&memory.Options{Fate: (&memory.Line{RoundTrip: 10 * time.Millisecond}).Fate})
		g := running(t, store, &gate.Options{Linger: 10 * time.Second})
		var waits []<-chan left
		for range 100 {
			waits = append(waits, wait(t, g, gate.Now, time.Minute))
		}
		time.Sleep(25 * time.Second)
		if calls := store.Calls(); calls > 13 {
			t.Errorf("100 waiters have caused %d requests in 25 s, want at most 13", calls)
		}
		watched := g.Watched()["start"]
		if watched.Waiting != 100 || watched.Trouble != "" || watched.Signals {
			t.Errorf("watched: %+v, want 100 waiters", watched)
		}
		if s, ok := g.Known("start"); !ok || s.Released {
			t.Errorf("known: %+v, %t", s, ok)
		}
		for _, c := range waits {
			if l := <-c; l.err != nil || l.Passed {
				t.Errorf("%+v, %v, want the time to be over", l.Waited, l.err)
			}
		}
		time.Sleep(11 * time.Second)
		calls := store.Calls()
		time.Sleep(time.Hour)
		if store.Calls() != calls || len(g.Watched()) != 0 {
			t.Errorf("%d requests in an hour in which nobody waited", store.Calls()-calls)
		}
		if s, ok := g.Known("start"); ok {
			t.Errorf("known though nobody watches: %+v", s)
		}
		change(t, store, nil, true)
		if l := <-wait(t, g, gate.Now, time.Minute); !l.Passed { // and it begins again
			t.Errorf("%+v, %v, want to pass", l.Waited, l.err)
		}
	})
}

func TestEndOfWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewGates(nil)
		g := newGates(t, store, nil)
		if w, err := g.Wait(t.Context(), "start", 0, time.Second); !errors.Is(err, gate.ErrUnknown) || w.Passed || !strings.Contains(err.Error(), "not running") {
			t.Errorf("wait while nobody watches: %+v, %v, want %v", w, err, gate.ErrUnknown)
		}
		early := wait(t, g, gate.Now, time.Minute) // before Run
		time.Sleep(time.Second)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- g.Run(ctx) }()
		time.Sleep(time.Second)
		if err := g.Run(ctx); err == nil {
			t.Error("gates have run twice")
		}
		cause := errors.New("the caller has hung up")
		caller, hangUp := context.WithCancelCause(t.Context())
		hung := make(chan error, 1)
		go func() {
			_, err := g.Wait(caller, "start", gate.Now, time.Minute)
			hung <- err
		}()
		synctest.Wait()
		hangUp(cause)
		if err := <-hung; !errors.Is(err, cause) {
			t.Errorf("wait of a caller who has gone: %v, want %v", err, cause)
		}
		stop()
		stopped := time.Now()
		if l := <-early; !errors.Is(l.err, gate.ErrStopped) || l.Passed || l.at != stopped {
			t.Errorf("wait in a process that stops: %+v, %v after %v, want %v at once", l.Waited, l.err, l.at.Sub(stopped), gate.ErrStopped)
		}
		if err := <-done; err != nil {
			t.Errorf("run: %v", err)
		}
		if w, err := g.Wait(t.Context(), "start", 0, time.Second); !errors.Is(err, gate.ErrStopped) || time.Now() != stopped {
			t.Errorf("wait after that: %+v, %v after %v, want %v at once", w, err, time.Since(stopped), gate.ErrStopped)
		}
		if err := g.Run(t.Context()); err == nil {
			t.Error("gates have run again")
		}
	})
}

// A thousand turnovers of an instance in the middle of everything: the bubble
// of each fails if a goroutine is left.
func TestTurnovers(t *testing.T) {
	for i := range 1000 {
		synctest.Test(t, func(t *testing.T) {
			store := memory.NewGates(&memory.Options{Fate: func(c memory.Call) memory.Fate {
				return memory.Fate{Delay: time.Duration(1+i%7) * 100 * time.Millisecond, Lost: c.N%3 == 0}
			}})
			signals := memory.NewSignals(&memory.SignalOptions{Connect: time.Second})
			g := newGates(t, store, &gate.Options{Signals: signals})
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*11*time.Millisecond)
			defer cancel()
			c := wait(t, g, gate.Now, gate.MaxWait)
			if err := g.Run(ctx); err != nil {
				t.Error(err)
			}
			if l := <-c; l.Passed || !errors.Is(l.err, gate.ErrStopped) {
				t.Errorf("%+v, %v, want %v", l.Waited, l.err, gate.ErrStopped)
			}
			if n := signals.Listening(); n != 0 {
				t.Errorf("%d still listen", n)
			}
			store.Wait()
		})
	}
	t.Log("figure: goroutines and subscriptions left after 1,000 turnovers | 0 | 0")
}

// A gate that is deleted is shut; begun anew, it counts from the start, and
// nobody who waited is left behind. Put back as it was, it opens for nobody.
func TestDeletedGate(t *testing.T) {
	for _, anew := range []bool{true, false} {
		for _, meanwhile := range []time.Duration{0, time.Minute} {
			t.Run(fmt.Sprintf("anew %t, after %v", anew, meanwhile), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					store := memory.NewGates(nil)
					o := &gate.Options{Signals: memory.NewSignals(nil)}
					change(t, store, o, true)
					change(t, store, o, false)
					g := running(t, store, o)
					seen, unseen := wait(t, g, 1, gate.MaxWait), wait(t, g, gate.Now, gate.MaxWait)
					time.Sleep(time.Minute)
					flag, _ := store.Get("start")
					store.Delete("start")
					time.Sleep(meanwhile)
					late := wait(t, g, gate.Now, gate.MaxWait)
					time.Sleep(time.Second)
					if anew {
						change(t, store, o, true)
					} else {
						store.Set("start", flag.Text)
					}
					time.Sleep(40 * time.Second)
					if passed := len(seen) + len(unseen) + len(late); anew && passed != 3 || !anew && passed != 0 {
						t.Errorf("%d of 3 have left, want all when it is begun anew: %t", passed, anew)
					}
					for _, c := range []<-chan left{seen, unseen, late} {
						if l := <-c; l.err != nil || l.Passed != anew {
							t.Errorf("%+v, %v, want to pass: %t", l.Waited, l.err, anew)
						}
					}
				})
			})
		}
	}
}

// Once a gate that was released is gone, nobody passes any more.
func TestDeletedWhileReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewGates(nil)
		g := running(t, store, nil)
		change(t, store, nil, true)
		if l := <-wait(t, g, gate.Now, gate.MaxWait); !l.Passed {
			t.Fatalf("%+v, %v, want to pass", l.Waited, l.err)
		}
		store.Delete("start")
		if l := <-wait(t, g, gate.Now, time.Minute); l.Passed || l.err != nil || l.State.Released {
			t.Errorf("%+v, %v, want the time to be over at a gate that is shut", l.Waited, l.err)
		}
	})
}

// A gate that is put back to what it once was lets nobody go for what has
// happened before, and everybody with its next release.
func TestGatePutBack(t *testing.T) {
	for _, gone := range []bool{false, true} { // meanwhile
		synctest.Test(t, func(t *testing.T) {
			store := memory.NewGates(nil)
			o := &gate.Options{Signals: memory.NewSignals(nil)}
			change(t, store, o, true)
			once, _ := store.Get("start")
			for range 2 {
				change(t, store, o, false)
				change(t, store, o, true)
			}
			g := running(t, store, o)
			c, further := wait(t, g, 3, gate.MaxWait), wait(t, g, 4, gate.MaxWait)
			time.Sleep(time.Minute)
			if gone {
				store.Delete("start")
				time.Sleep(40 * time.Second)
			}
			store.Set("start", once.Text)
			time.Sleep(40 * time.Second)
			if len(c) != 0 {
				t.Errorf("somebody has left: %+v", <-c)
			}
			change(t, store, o, false)
			change(t, store, o, true)
			time.Sleep(10 * time.Second)
			if len(c) != 1 || len(further) != 0 {
				t.Errorf("passed for the next release: %t, and who has seen more than there ever was: %t, want the first only", len(c) == 1, len(further) == 1)
			}
		})
	}
}
