package gate_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"kennel/gate"
	"kennel/internal/memory"
)

// A waiter that comes while a read is under way is not admitted by what that
// read saw before: the gate may have been closed since.
func TestReadBeforeTheWaiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		s.atOnce(t, newGates(t, s.store, nil), true)
		s.slow()
		before, other := wait(t, s.gates, s.seen, gate.MaxWait), wait(t, s.gates, gate.MaxGeneration, gate.MaxWait)
		time.Sleep(60 * time.Millisecond)
		s.atOnce(t, newGates(t, s.store, nil), false)
		during := wait(t, s.gates, gate.Now, gate.MaxWait)
		time.Sleep(60 * time.Millisecond)
		after := wait(t, s.gates, gate.Now, gate.MaxWait)
		time.Sleep(time.Minute)
		if len(before) != 1 || len(during) != 0 || len(after) != 0 || len(other) != 0 {
			t.Errorf("passed: the waiter from before the close %t, those after it %t and %t; want the first only",
				len(before) == 1, len(during) == 1, len(after) == 1)
		}
	})
}

// A read that began before a change by this process does not undo what this
// process knows from that change: it reads again at once.
func TestReadBeforeOwnChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		s.slow()
		c := wait(t, s.gates, gate.Now, gate.MaxWait)
		time.Sleep(60 * time.Millisecond) // the read has seen the gate closed
		s.atOnce(t, s.gates, true)
		time.Sleep(150 * time.Millisecond)
		if len(c) != 1 {
			t.Errorf("the waiter has not passed; known is %+v", s.gates.Watched()["start"].State)
		}
	})
}

// All waiters of a process share its reads. Where signals were received and no longer are, polls are frequent again.
// They are not while a signal is lost silently: then it takes the rare poll.
func TestPolls(t *testing.T) {
	for name, tt := range map[string]struct {
		cut   func(s *scene)
		bound time.Duration
	}{
		"nothing happens":                         {func(*scene) {}, rarely + rarely/10},
		"the connection breaks":                   {func(s *scene) { s.listener().Down(errors.New("EOF")) }, often + often/10},
		"listening ends":                          {func(s *scene) { s.end <- nil }, often + often/10},
		"listening fails":                         {func(s *scene) { s.end <- errors.New("unauthorized") }, often + often/10},
		"the connection breaks and is made again": {func(s *scene) { s.listener().Down(nil); s.listener().Up() }, often + often/10},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newScene(t)
				c := wait(t, s.gates, s.seen, gate.MaxWait)
				for range 99 {
					wait(t, s.gates, gate.Now, gate.MaxWait)
				}
				time.Sleep(4 * time.Second)
				calls := s.store.Calls()
				time.Sleep(40 * time.Second)
				w := s.gates.Watched()["start"]
				if n := s.store.Calls() - calls; !w.Signals || w.Waiting != 100 || w.Error != "" || n < 1 || n > 2 {
					t.Errorf("%d reads in 40 s while signals are received: %+v", n, w)
				}
				tt.cut(s)
				synctest.Wait()
				if relied := s.gates.Watched()["start"].Signals; relied != (tt.bound > rarely) {
					t.Errorf("signals are relied on: %t", relied)
				}
				change(t, s.store, nil, true) // and no signal is received
				released := time.Now()
				if l := <-c; !l.Passed || l.at.Sub(released) > tt.bound {
					t.Errorf("%+v, %v, %v after the release, want to have polled", l.Waited, l.err, l.at.Sub(released))
				}
			})
		})
	}
}

// The first signal causes a read at once, one during a read another after it,
// and a flood of them four a second.
func TestSignalsCauseReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		c := wait(t, s.gates, s.seen, gate.MaxWait)
		time.Sleep(10 * time.Second)
		s.slow()
		calls := func() int64 { return s.store.CallsOf("Load") }
		before := calls()
		s.listener().Received(gate.Signal{Gate: "another"})
		synctest.Wait()
		if n := calls() - before; n != 0 {
			t.Errorf("a signal of another gate caused %d reads", n)
		}
		s.listener().Received(gate.Signal{Gate: "start"})
		synctest.Wait()
		if n := calls() - before; n != 1 {
			t.Errorf("a signal caused %d reads at once, want 1", n)
		}
		time.Sleep(60 * time.Millisecond) // the read has seen the gate closed
		s.atOnce(t, newGates(t, s.store, nil), true)
		for range 10 {
			s.listener().Received(gate.Signal{})
		}
		released := time.Now()
		if l := <-c; !l.Passed || l.at.Sub(released) > 400*time.Millisecond {
			t.Errorf("%+v, %v, %v after a signal that came during a read", l.Waited, l.err, l.at.Sub(released))
		}
		wait(t, s.gates, gate.MaxGeneration, gate.MaxWait)
		time.Sleep(10 * time.Second)
		before = calls()
		for range 10_000 {
			s.listener().Received(gate.Signal{Gate: "start", Generation: 1})
			time.Sleep(time.Millisecond)
		}
		if n := calls() - before; n < 38 || n > 42 {
			t.Errorf("10,000 signals in 10 s caused %d reads, want 40", n)
		}
	})
}

// A failing store is not read more often because many wait. When it recovers,
// a waiter that comes then, or a signal, brings the next read forward.
func TestFailingStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, arrives := range []func(s *scene){
			nil,
			func(s *scene) { wait(t, s.gates, gate.Now, gate.MaxWait) },
			func(s *scene) { s.listener().Received(gate.Signal{Gate: "start"}) },
		} {
			s := newScene(t)
			c := wait(t, s.gates, s.seen, gate.MaxWait)
			time.Sleep(10 * time.Second)
			s.fault.Store(&memory.Fault{Err: memory.ErrBusy, Lost: true})
			before := s.store.CallsOf("Load")
			for range 600 {
				wait(t, s.gates, gate.Now, gate.MaxWait)
				time.Sleep(100 * time.Millisecond)
			}
			if n := s.store.CallsOf("Load") - before; n < 12 || n > 60 {
				t.Errorf("%d reads in a minute of a store that is busy", n)
			}
			s.atOnce(t, newGates(t, s.store, nil), true)
			s.fault.Store(&memory.Fault{})
			recovered, bound := time.Now(), 4*often
			if arrives != nil {
				bound = 2 * often
				arrives(s)
			}
			if l := <-c; !l.Passed || l.at.Sub(recovered) > bound {
				t.Errorf("%+v, %v, %v after the store recovered, want within %v", l.Waited, l.err, l.at.Sub(recovered), bound)
			}
		}
	})
}
