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

// Nothing but a release opens a gate, least of all a signal that anyone may
// have sent.
func TestNoFalseStart(t *testing.T) {
	refuse := func(err error) func(*scene) {
		return func(s *scene) { s.fault.Store(&memory.Fault{Err: err, Lost: true}) }
	}
	text := func(text string) func(*scene) {
		return func(s *scene) { s.store.Set("start", text) }
	}
	signal := func(signals ...gate.Signal) func(*scene) {
		return func(s *scene) {
			for _, forged := range signals {
				s.listener().Received(forged)
			}
		}
	}
	openings := 0
	for _, tt := range []struct {
		name string
		does func(*scene)
		err  error // with which a wait ends then; nil: its time is over at a closed gate
	}{
		{"404", func(s *scene) { s.store.Delete("start") }, nil},
		{"403", refuse(errors.New("storage answered 403 AuthorizationFailure")), gate.ErrUnknown},
		{"503", refuse(memory.ErrBusy), gate.ErrUnknown},
		{"timeout", func(s *scene) { s.fault.Store(&memory.Fault{Lost: true}) }, gate.ErrUnknown},
		{"empty text", text(""), gate.ErrCorrupt},
		{"corrupt text", text(`{"version":2,"released":true,"generation":9000000000000000}`), gate.ErrCorrupt},
		{"older format", text(`{"version":1,"released":true,"generation":9000000000000000}`), gate.ErrCorrupt},
		{"newer format", text(`{"version":3,"released":true}`), gate.ErrCorrupt},
		{"closed connection", func(s *scene) { s.listener().Down(errors.New("EOF")) }, nil},
		{"end of listening", func(s *scene) { s.end <- nil }, nil},
		{"failure of listening", func(s *scene) { s.end <- errors.New("unauthorized") }, nil},
		{"empty signal", signal(gate.Signal{}), nil},
		{"signal of no gate", signal(gate.Signal{Generation: gate.MaxGeneration}), nil},
		{"forged signals", signal(
			gate.Signal{Gate: "start", Generation: 1}, gate.Signal{Gate: "start", Generation: time.Now().UnixMilli()},
			gate.Signal{Gate: "start", Generation: gate.MaxGeneration}, gate.Signal{Gate: "start", Generation: -1},
		), nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newScene(t)
				waits := []<-chan left{wait(t, s.gates, s.seen, gate.MaxWait), wait(t, s.gates, gate.Now, gate.MaxWait)}
				time.Sleep(10 * time.Second)
				tt.does(s)
				waits = append(waits, wait(t, s.gates, gate.Now, gate.MaxWait), wait(t, s.gates, s.seen, gate.MaxWait))
				for i, c := range waits {
					l := <-c
					if l.Passed || !errors.Is(l.err, tt.err) {
						openings++
						t.Errorf("waiter %d: %+v, %v, want %v", i, l.Waited, l.err, tt.err)
					}
				}
			})
		})
	}
	t.Logf("figure: gates opened by 404, 403, 5xx, timeouts, corrupt text, closed connections, forged signals | %d | 0", openings)
}

// What is wrong with a gate or with signals is logged once, and so is that it
// is over.
func TestTroubleIsLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		for range 3 {
			s.end <- errors.New("unauthorized")
			time.Sleep(5*time.Minute + time.Second) // then it tries again
		}
		for range 2 {
			for range 3 {
				s.listener().Down(errors.New("no connection"))
			}
			s.listener().Up()
		}
		wait(t, s.gates, gate.MaxGeneration, gate.MaxWait)
		time.Sleep(40 * time.Second)
		s.fault.Store(&memory.Fault{Err: memory.ErrBusy, Lost: true})
		time.Sleep(40 * time.Second)
		if got := s.gates.Watched()["start"].Error; !strings.Contains(got, "busy") {
			t.Errorf("watched: error %q, want the store's", got)
		}
		s.fault.Store(&memory.Fault{})
		s.store.Set("start", "{")
		time.Sleep(40 * time.Second)
		s.store.Delete("start")
		time.Sleep(40 * time.Second)
		s.end <- errors.New("unauthorized")
		synctest.Wait()
		for text, want := range map[string]int{
			"cannot receive gate signals":  2, // once more after they were received
			"unauthorized":                 2,
			"gate signals are interrupted": 1,
			"no connection":                1,
			"receiving gate signals":       3,
			"cannot read a gate":           2, // the store is busy, then the text is corrupt
			"gate can be read again":       1,
			"gate generation went down":    1,
		} {
			if got := strings.Count(s.log.String(), text); got != want {
				t.Errorf("%q is logged %d times, want %d:\n%s", text, got, want, s.log.String())
			}
		}
	})
}
