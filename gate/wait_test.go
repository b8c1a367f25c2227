package gate_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"kennel/gate"
	"kennel/internal/memory"
	"kennel/internal/storetest"
)

// Generations are given here by the count of releases: 2 is that of the
// second, 9 is more than there was.
func TestWhoPasses(t *testing.T) {
	for _, tt := range []struct {
		name    string
		before  []bool // releases and closes before the waiter comes
		after   int64
		then    []bool // what happens while it waits
		passes  bool
		returns int64 // the generation it leaves with
	}{
		{"closed", nil, gate.Now, nil, false, 0},
		{"closed, then released", nil, gate.Now, []bool{true}, true, 1},
		{"closed, released and closed at once", nil, gate.Now, []bool{true, false}, true, 1},
		{"released", []bool{true}, gate.Now, nil, true, 1},
		{"released before and closed again", []bool{true, false}, gate.Now, nil, false, 1},
		{"released before, closed and released again", []bool{true, false}, gate.Now, []bool{true}, true, 2},
		{"saw nothing, released and closed before", []bool{true, false}, 0, nil, true, 1},
		{"saw the current release", []bool{true}, 1, nil, false, 1},
		{"saw the current release, then a close", []bool{true}, 1, []bool{false}, false, 1},
		{"saw the current release, then another", []bool{true}, 1, []bool{false, true}, true, 2},
		{"missed two releases", []bool{true, false, true, false}, 0, nil, true, 2},
		{"saw more than there is", []bool{true}, 9, nil, false, 9},
		{"saw more than there is, then another release", []bool{true}, 9, []bool{false, true}, true, 2},
	} {
		for _, signals := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, signals %t", tt.name, signals), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					store, o := memory.NewValues(nil), &gate.Options{}
					if signals {
						o.Signals = memory.NewSignals(nil)
					}
					generations, n := map[int64]int64{gate.Now: gate.Now, 0: 0}, int64(0)
					apply := func(changes []bool) {
						for _, release := range changes {
							if g := change(t, store, o, release); release {
								n++
								generations[n], generations[9] = g, g+500
							}
						}
					}
					apply(tt.before)
					after := generations[tt.after]
					g := running(t, store, o)
					began, c := time.Now(), wait(t, g, after, gate.MaxWait)
					time.Sleep(time.Minute)
					apply(tt.then)
					l, want := <-c, generations[tt.returns]
					if tt.after == tt.returns {
						want = after
					}
					if s, err := g.State(t.Context(), "start"); err != nil || !reflect.DeepEqual(s, l.State) {
						t.Errorf("left with the state %+v, want %+v, %v", l.State, s, err)
					}
					if tt.passes && tt.then == nil && l.at != began {
						t.Errorf("passed after %v, want to pass with the first read", l.at.Sub(began))
					}
					if l.err != nil || l.Passed != tt.passes || l.Generation != want || l.State.Gate != "start" || l.State.Releases != n {
						t.Errorf("%+v, %v, want passed %t with generation %d", l.Waited, l.err, tt.passes, want)
					}
					if s := l.State; n > 0 && (s.By != ann.By || s.Reason != ann.Reason || time.Since(s.ChangedAt) > 5*time.Minute) || n == 0 && !s.ChangedAt.IsZero() {
						t.Errorf("state %+v does not contain who changed it last, when and why", l.State)
					}
				})
			})
		}
	}
}

// A node passes a release at one process, and waits for the next at another
// that has not seen the first yet. It comes back with the generation of that
// answer, and must not pass the same release again.
func TestWaiterFromAnotherProcess(t *testing.T) {
	for _, slow := range []time.Duration{0, 700 * time.Millisecond, time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			var delay atomic.Int64
			store := memory.NewValues(&memory.Options{Fault: func(memory.Call) memory.Fault { return memory.Fault{Delay: time.Duration(delay.Load())} }})
			seen := change(t, store, nil, true)
			g := running(t, store, nil)
			for off := time.Duration(0); off < often; off += often / 10 {
				wait(t, g, gate.MaxGeneration, gate.MaxWait) // another waiter, so that the gate is watched
				time.Sleep(10*time.Second + off)
				change(t, store, nil, false)
				passed := change(t, store, nil, true)
				delay.Store(int64(slow))
				l := <-wait(t, g, passed, time.Second)
				if !errors.Is(l.err, gate.ErrUnknown) && (l.err != nil || l.Passed || l.State.Generation != passed || slow > time.Second) {
					t.Errorf("reads take %v: a waiter that passed %d after %d got %+v, %v", slow, passed, seen, l.Waited, l.err)
				}
				delay.Store(0)
				seen = passed
			}
		})
	}
}

// A process watches up to 1,000 gates. One without waiters costs no reads and
// no room.
func TestTooManyGates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewValues(&memory.Options{Fault: (&memory.Line{RoundTrip: 10 * time.Millisecond}).Fault})
		g := running(t, store, nil)
		waitAt := func(name string) <-chan error {
			c := make(chan error, 1)
			go func() {
				_, err := g.Wait(t.Context(), name, 0, time.Second)
				c <- err
			}()
			synctest.Wait()
			return c
		}
		for round := range 3 {
			name := fmt.Sprint("gate-", round, "-")
			for i := range 1000 {
				waitAt(name + fmt.Sprint(i))
			}
			if err := <-waitAt("one-more"); !errors.Is(err, gate.ErrTooMany) || len(g.Watched()) != 1000 {
				t.Errorf("wait at one gate more: %v, want %v", err, gate.ErrTooMany)
			}
			if err := <-waitAt(name + "999"); err != nil {
				t.Errorf("wait at a gate that is watched: %v", err)
			}
			time.Sleep(time.Second)
			if n := len(g.Watched()); n != 0 {
				t.Errorf("%d gates without waiters are watched", n)
			}
		}
		time.Sleep(time.Hour)
		if calls := store.Calls(); calls < 3000 || calls > 4600 { // one when a waiter comes, and a poll each 2.5 s
			t.Errorf("3,000 waits of 1 s, and an hour without waiters, made %d reads, want 1.4 for each wait", calls)
		}
	})
}

func TestEndOfWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGates(t, memory.NewValues(nil), nil)
		if w, err := g.Wait(t.Context(), "start", 0, time.Second); !errors.Is(err, gate.ErrUnknown) || w.Passed || !strings.Contains(err.Error(), "not running") {
			t.Errorf("wait before Run: %+v, %v, want %v", w, err, gate.ErrUnknown)
		}
		early := wait(t, g, gate.Now, time.Minute)
		time.Sleep(time.Second)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- g.Run(ctx) }()
		time.Sleep(time.Second)
		if err := g.Run(ctx); err == nil {
			t.Error("Run ran twice")
		}
		cause := errors.New("the caller has hung up")
		caller, hangUp := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { hangUp(cause) })
		if _, err := g.Wait(caller, "start", gate.Now, time.Minute); !errors.Is(err, cause) {
			t.Errorf("wait of a caller that hangs up: %v, want %v", err, cause)
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
	})
}

// An instance is stopped at any moment. The bubble of each turnover fails if a
// goroutine is left.
func TestTurnovers(t *testing.T) {
	turnovers := storetest.Scale(100, 1000)
	for i := range turnovers {
		synctest.Test(t, func(t *testing.T) {
			store := memory.NewValues(&memory.Options{Fault: func(c memory.Call) memory.Fault {
				return memory.Fault{Delay: time.Duration(1+i%7) * 100 * time.Millisecond, Lost: c.N%3 == 0}
			}})
			signals := memory.NewSignals(&memory.SignalOptions{Connect: time.Second})
			g := newGates(t, store, &gate.Options{Signals: signals})
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*11*time.Second/time.Duration(turnovers))
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
	t.Logf("figure: goroutines and subscriptions left after turnovers of an instance (%d) | 0 | 0", turnovers)
}
