package gate_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"kennel/gate"
	"kennel/internal/memory"
)

// hand is a Signals that does what its owner says.
type hand struct {
	mu        sync.Mutex
	listener  gate.Listener
	end       chan error
	published []gate.Signal
}

func (h *hand) Publish(_ context.Context, s gate.Signal) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.published = append(h.published, s)
	return nil
}

func (h *hand) Listen(ctx context.Context, l gate.Listener) error {
	h.mu.Lock()
	h.listener = l
	h.mu.Unlock()
	select {
	case err := <-h.end:
		return err
	case <-ctx.Done():
		return nil
	}
}

// ear is who listens.
func (h *hand) ear() gate.Listener {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.listener
}

// scene is a gate that was released twice and is shut, with its surroundings.
type scene struct {
	*hand
	store *memory.Gates
	fate  atomic.Pointer[memory.Fate] // of all requests
	gates *gate.Gates                 // of a process that hears signals
}

func newScene(t *testing.T) *scene {
	s := &scene{hand: &hand{end: make(chan error)}}
	s.fate.Store(&memory.Fate{})
	s.store = memory.NewGates(&memory.Options{Fate: func(memory.Call) memory.Fate { return *s.fate.Load() }})
	for _, release := range []bool{true, false, true, false} {
		change(t, s.store, nil, release)
	}
	// One whose turn to poll is not near, so that looks have another reason.
	s.gates = running(t, s.store, &gate.Options{Signals: s, Instance: "scene-1"})
	time.Sleep(time.Second)
	s.ear().Up()
	return s
}

// Nothing but a release opens a gate.
func TestNoFalseStart(t *testing.T) {
	refuse := func(err error) func(*scene) {
		return func(s *scene) { s.fate.Store(&memory.Fate{Err: err, Lost: true}) }
	}
	text := func(text string) func(*scene) {
		return func(s *scene) { s.store.Set("start", text) }
	}
	signal := func(gates string, life string, generations ...int64) func(*scene) {
		return func(s *scene) {
			for _, n := range generations {
				s.ear().Heard(gate.Signal{Gate: gates, Generation: n, Released: true, Life: life, At: time.Now(), By: "bob"})
			}
		}
	}
	openings := 0
	for _, test := range []struct {
		name string
		does func(*scene)
		says error // what a wait then ends with; nil: the time is over at a gate that is shut
	}{
		{"404", func(s *scene) { s.store.Delete("start") }, nil},
		{"a 404 that does not mean the gate", refuse(errors.New("storage answers 404 ResourceNotFound")), gate.ErrUnknown},
		{"403", refuse(errors.New("storage answers 403 AuthorizationFailure")), gate.ErrUnknown},
		{"500", refuse(errors.New("storage answers 500 InternalError")), gate.ErrUnknown},
		{"503", refuse(memory.ErrBusy), gate.ErrUnknown},
		{"304 out of nowhere", refuse(gate.ErrUnchanged), nil},
		{"timeout", func(s *scene) { s.fate.Store(&memory.Fate{Lost: true}) }, gate.ErrUnknown},
		{"empty text", text(""), gate.ErrCorrupt},
		{"corrupt text", text(`{"version":1,"released":true,"generation":5}`), gate.ErrCorrupt},
		{"newer text", text(`{"version":2,"released":true}`), gate.ErrCorrupt},
		{"closed stream", func(s *scene) { s.ear().Down(errors.New("EOF")) }, nil},
		{"end of listening", func(s *scene) { s.end <- nil }, nil},
		{"failure of listening", func(s *scene) { s.end <- errors.New("unauthorized") }, nil},
		{"streams that open and close", func(s *scene) {
			for range 100 {
				s.ear().Up()
				s.ear().Down(nil)
			}
		}, nil},
		{"spurious wake-up", func(s *scene) { s.ear().Heard(gate.Signal{}) }, nil},
		{"signal without gate", signal("", "", 7), nil},
		{"signal without generation", signal("start", "", 0), nil},
		{"signal of a generation of before", signal("start", "", 1, 2), nil},
		{"signal of nonsense", signal("start", "", -9, gate.MaxGeneration+1), nil},
		{"signal of another gate", signal("other", "", 7), nil},
		{"signal of another life", signal("start", "another", 7), nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newScene(t)
				g := s.gates
				waits := []<-chan left{wait(t, g, 2, gate.MaxWait), wait(t, g, gate.Now, gate.MaxWait)}
				time.Sleep(time.Second)
				test.does(s)
				waits = append(waits, wait(t, g, gate.Now, gate.MaxWait), wait(t, g, 2, gate.MaxWait))
				time.Sleep(3 * time.Minute)
				for i, c := range waits {
					if len(c) > 0 {
						openings++
						t.Errorf("waiter %d has left: %+v", i, <-c)
					}
				}
				for i, c := range waits {
					l := <-c
					if l.Passed || test.says != nil && !errors.Is(l.err, test.says) || test.says == nil && l.err != nil {
						t.Errorf("waiter %d: %+v, %v, want %v", i, l.Waited, l.err, test.says)
					}
				}
			})
		})
	}
	t.Logf("figure: openings under 404, 403, 5xx, timeouts, corrupt text, closed streams, spurious signals | %d | 0", openings)
}

// What is wrong with a gate is said once, and so is that it is over.
func TestTroubleIsSaidOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var down atomic.Bool
		store := memory.NewGates(&memory.Options{Fate: func(memory.Call) memory.Fate {
			if down.Load() {
				return memory.Fate{Err: memory.ErrBusy, Lost: true}
			}
			return memory.Fate{}
		}})
		var log lines
		h := &hand{end: make(chan error)}
		g := running(t, store, &gate.Options{Signals: h, Log: slog.New(slog.NewTextHandler(&log, nil))})
		wait(t, g, gate.Now, gate.MaxWait)
		for range 3 {
			h.end <- errors.New("unauthorized")
			time.Sleep(5*time.Minute + time.Second) // then it tries again
			wait(t, g, gate.Now, gate.MaxWait)
		}
		down.Store(true)
		time.Sleep(2 * time.Minute)
		if got := g.Watched()["start"].Trouble; !strings.Contains(got, "busy") {
			t.Errorf("watched: trouble %q, want what the store said", got)
		}
		if s, ok := g.Known("start"); ok {
			t.Errorf("known while nothing is: %+v", s)
		}
		down.Store(false)
		store.Set("start", "{")
		time.Sleep(time.Minute)
		store.Delete("start")
		time.Sleep(time.Minute)
		h.ear().Up() // somebody gave it the right, and takes it away
		h.end <- errors.New("unauthorized")
		time.Sleep(time.Second)
		for text, want := range map[string]int{
			"signals cannot be heard":   2,
			"unauthorized":              2,
			"cannot be read: it counts": 2, // the store is busy, then the text is nonsense
			"can be read again":         1,
		} {
			if got := strings.Count(log.String(), text); got != want {
				t.Errorf("the log says %q %d times, want %d:\n%s", text, got, want, log.String())
			}
		}
	})
}

// Listening that breaks off is said, once for each time it does, and so is
// that signals are heard again.
func TestListeningIsSaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &hand{end: make(chan error)}
		var log lines
		running(t, memory.NewGates(nil), &gate.Options{Signals: h, Log: slog.New(slog.NewTextHandler(&log, nil))})
		time.Sleep(time.Second)
		for range 2 {
			for range 3 {
				h.ear().Down(errors.New("no connection"))
			}
			h.ear().Up()
		}
		for text, want := range map[string]int{
			"signals of gates are not heard for now": 2,
			"no connection":                          2,
			"signals of gates are heard":             2,
		} {
			if got := strings.Count(log.String(), text); got != want {
				t.Errorf("the log says %q %d times, want %d:\n%s", text, got, want, log.String())
			}
		}
	})
}

// lines is a log that can be read while it is written.
type lines struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
