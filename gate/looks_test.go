package gate_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"kennel/gate"
	"kennel/internal/memory"
)

// slow is the way to the store and back, where it matters that it takes time.
var slow = &memory.Fate{Delay: 50 * time.Millisecond, Back: 50 * time.Millisecond}

// atOnce changes the gate although the store is slow.
func (s *scene) atOnce(t *testing.T, release bool) {
	t.Helper()
	fate := s.fate.Swap(&memory.Fate{})
	change(t, s.store, nil, release)
	s.fate.Store(fate)
}

// A look has seen the gate shut, and before its answer is here, a signal tells
// of the release since.
func TestOvertakenLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		s.fate.Store(slow)
		c := wait(t, s.gates, 2, gate.MaxWait)
		time.Sleep(60 * time.Millisecond)
		s.atOnce(t, true)
		s.ear().Heard(whole)
		synctest.Wait()
		if len(c) != 1 {
			t.Error("a release was signalled, and a waiter has not passed")
		}
		time.Sleep(60 * time.Millisecond) // the look is over
		if known, ok := s.gates.Known("start"); !ok || known.Generation != 3 || !known.Released {
			t.Errorf("known is %+v, %t: the look has undone the signal", known, ok)
		}
		time.Sleep(6 * time.Second)
		if known, _ := s.gates.Known("start"); len(known.History) != 5 {
			t.Errorf("known is %+v: nobody has looked since", known)
		}
	})
}

// Who comes when a look is under way is not let in by what that may have seen
// before, nor by what is known from it.
func TestLookBeforeTheWaiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		s.atOnce(t, true)
		s.fate.Store(slow)
		before := wait(t, s.gates, 2, gate.MaxWait)
		time.Sleep(60 * time.Millisecond)
		s.atOnce(t, false)
		during := wait(t, s.gates, gate.Now, gate.MaxWait)
		time.Sleep(60 * time.Millisecond)
		if known, _ := s.gates.Known("start"); !known.Released {
			t.Fatalf("known is %+v, want what was before the closing", known)
		}
		after := wait(t, s.gates, gate.Now, gate.MaxWait)
		time.Sleep(time.Minute)
		if len(before) != 1 || len(during) != 0 || len(after) != 0 {
			t.Errorf("passed: who came before the closing %t, after it during the look %t, after that %t, want the first only",
				len(before) == 1, len(during) == 1, len(after) == 1)
		}
	})
}

// Who comes to a gate that is released passes within two round trips, whatever
// the watcher is at: one may be under way already. Who has seen an earlier
// generation than the one that is known passes at once.
func TestLateJoiners(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		s.atOnce(t, true)
		s.fate.Store(slow)
		for i := range 100 {
			began := time.Now()
			now, again := wait(t, s.gates, gate.Now, time.Second), wait(t, s.gates, 2, time.Second)
			if l := <-now; !l.Passed || l.at.Sub(began) > 200*time.Millisecond {
				t.Errorf("waiter %d: %+v, %v after %v, want to pass within two round trips", i, l.Waited, l.err, l.at.Sub(began))
			}
			if l := <-again; !l.Passed || i > 0 && l.at != began {
				t.Errorf("waiter %d, who has seen generation 2: %+v, %v after %v, want to pass at once", i, l.Waited, l.err, l.at.Sub(began))
			}
			wait(t, s.gates, gate.Now, time.Second) // a look is under way when the next comes
			time.Sleep(time.Duration(i) * time.Millisecond)
		}
	})
}

// Where signals have been heard and are no more, polls are frequent again.
func TestPollsWhenCutOff(t *testing.T) {
	for name, cut := range map[string]func(s *scene){
		"the line is cut":            func(s *scene) { s.ear().Down(errors.New("EOF")) },
		"listening ends":             func(s *scene) { s.end <- nil },
		"listening fails":            func(s *scene) { s.end <- errors.New("unauthorized") },
		"the line is cut and mended": func(s *scene) { s.ear().Down(nil); s.ear().Up() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newScene(t)
				c := wait(t, s.gates, 2, gate.MaxWait)
				time.Sleep(time.Second)
				calls := s.store.Calls()
				time.Sleep(5 * time.Second)
				if !s.gates.Watched()["start"].Signals || s.store.Calls() > calls+1 {
					t.Errorf("%d looks in 5 s while signals are heard", s.store.Calls()-calls)
				}
				cut(s)
				synctest.Wait()
				if s.gates.Watched()["start"].Signals {
					t.Error("signals count as heard, and are not")
				}
				released := change(t, s.store, nil, true) // and no signal tells of it
				if l := <-c; !l.Passed || l.at.Sub(released) > often+often/10 {
					t.Errorf("%+v, %v, %v after the release, want to have polled", l.Waited, l.err, l.at.Sub(released))
				}
			})
		})
	}
}

// A signal that overtakes a look when signals are not relied on does not make
// the next one later than a poll would be.
func TestPollsAfterOvertakenLooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		s.ear().Down(errors.New("EOF"))
		s.fate.Store(slow)
		for generation := int64(2); generation < 30; generation++ {
			c := wait(t, s.gates, generation, gate.MaxWait)
			wait(t, s.gates, gate.Now, time.Second) // so there is a look now
			time.Sleep(60 * time.Millisecond)
			s.ear().Heard(gate.Signal{Gate: "start"})
			s.atOnce(t, true)
			released := time.Now()
			if l := <-c; !l.Passed || l.at.Sub(released) > often+often/10+100*time.Millisecond {
				t.Errorf("%+v, %v, %v after the release, want to have polled", l.Waited, l.err, l.at.Sub(released))
			}
			s.atOnce(t, false)
			time.Sleep(10 * time.Second)
		}
	})
}

// Where signals are heard, as far as anybody knows, there are polls still.
func TestPollsThroughSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		c := wait(t, s.gates, 2, gate.MaxWait)
		time.Sleep(time.Minute)
		released := change(t, s.store, nil, true) // and the signal is lost
		if l := <-c; !l.Passed || l.at.Sub(released) > rarely+rarely/10 {
			t.Errorf("%+v, %v, %v after the release, want to have polled", l.Waited, l.err, l.at.Sub(released))
		}
	})
}

// Signals that come all the time do not keep a process from looking.
func TestSignalsDoNotPutLooksOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		wait(t, s.gates, 2, gate.MaxWait)
		time.Sleep(time.Second)
		for round := range 30 {
			calls := s.store.Calls()
			for range 50 {
				s.ear().Heard(gate.Signal{Gate: "start"})
				time.Sleep(100 * time.Millisecond)
			}
			if s.store.Calls() == calls {
				t.Fatalf("round %d: no look within 5 s of a signal, while there were others", round)
			}
		}
	})
}

// A store that fails is not asked more often because many wait.
func TestFailingStoreIsSpared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewGates(&memory.Options{Fate: func(memory.Call) memory.Fate {
			return memory.Fate{Err: memory.ErrBusy, Lost: true}
		}})
		g := running(t, store, &gate.Options{Instance: "node-1"})
		for range 1000 {
			wait(t, g, gate.Now, gate.MaxWait)
			time.Sleep(60 * time.Millisecond)
		}
		if calls := store.Calls(); calls < 2 || calls > 20 {
			t.Errorf("%d requests in a minute to a store that is busy, want a few", calls)
		}
	})
}

// A store that says unchanged to who has seen nothing yet has said nothing.
func TestUnchangedSinceNever(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewGates(&memory.Options{Fate: func(memory.Call) memory.Fate {
			return memory.Fate{Err: gate.ErrUnchanged, Lost: true}
		}})
		l := <-wait(t, running(t, store, nil), 0, 10*time.Second)
		if !errors.Is(l.err, gate.ErrUnknown) || l.Passed {
			t.Errorf("%+v, %v, want %v", l.Waited, l.err, gate.ErrUnknown)
		}
	})
}
