package gate_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"kennel/gate"
	"kennel/internal/memory"
)

const (
	often  = 2500 * time.Millisecond
	rarely = 30 * time.Second
)

var (
	ann     = gate.Change{By: "ann", Reason: "stock is counted"}
	errLost = errors.New("connection reset")
)

func newGates(t testing.TB, store gate.Store, o *gate.Options) *gate.Gates {
	t.Helper()
	g, err := gate.New(store, o)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// running returns gates that run until the test ends. The test ends when no
// request is under way.
func running(t testing.TB, store *memory.Values, o *gate.Options) *gate.Gates {
	t.Helper()
	t.Cleanup(store.Wait)
	g := newGates(t, store, o)
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- g.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return g
}

// left is how and when a wait has ended.
type left struct {
	gate.Waited
	err error
	at  time.Time
}

// wait waits at the gate start, and delivers how that ends.
func wait(t testing.TB, g *gate.Gates, after int64, limit time.Duration) <-chan left {
	c := make(chan left, 1)
	go func() {
		w, err := g.Wait(t.Context(), "start", after, limit)
		c <- left{w, err, time.Now()}
	}()
	return c
}

// changeTo returns Release or Close.
func changeTo(g *gate.Gates, release bool) func(context.Context, string, gate.Change) (gate.Changed, error) {
	if release {
		return g.Release
	}
	return g.Close
}

// change changes the gate start from a process of its own, and returns the
// generation then.
func change(t testing.TB, store gate.Store, o *gate.Options, release bool) int64 {
	t.Helper()
	got, err := changeTo(newGates(t, store, o), release)(t.Context(), "start", ann)
	if err != nil || !got.Changed {
		t.Fatalf("change to released %t: %+v, %v", release, got, err)
	}
	return got.State.Generation
}

// scene is a process that listens to signals sent by the test, at a store that
// the test disturbs. Its gate was released and closed twice.
type scene struct {
	*hand
	store *memory.Values
	fault atomic.Pointer[memory.Fault]
	gates *gate.Gates
	log   strings.Builder // read it when all goroutines wait
	seen  int64           // the gate's generation
}

func newScene(t *testing.T) *scene { return newSceneAt(t, 0) }

// newSceneAt also sets how far the store's clock is ahead.
func newSceneAt(t *testing.T, ahead time.Duration) *scene {
	s := &scene{hand: newHand()}
	s.fault.Store(&memory.Fault{})
	s.store = memory.NewValues(&memory.Options{Fault: func(memory.Call) memory.Fault { return *s.fault.Load() }})
	s.store.SetClock(ahead)
	for _, release := range []bool{true, false, true, false} {
		s.seen = change(t, s.store, nil, release)
	}
	s.gates = running(t, s.store, &gate.Options{Signals: s, Log: slog.New(slog.NewTextHandler(&s.log, nil))})
	time.Sleep(time.Second)
	s.listener().Up()
	return s
}

// atOnce changes the gate in no time, whatever the fault of other requests.
func (s *scene) atOnce(t *testing.T, by *gate.Gates, release bool) {
	t.Helper()
	defer s.fault.Store(s.fault.Swap(&memory.Fault{}))
	if got, err := changeTo(by, release)(t.Context(), "start", ann); err != nil || !got.Changed {
		t.Fatalf("change to released %t: %+v, %v", release, got, err)
	}
}

// slow makes each request take 50 ms each way.
func (s *scene) slow() {
	s.fault.Store(&memory.Fault{Delay: 50 * time.Millisecond, Back: 50 * time.Millisecond})
}

// hand is a Signals that does what the test does.
type hand struct {
	end chan error // ends listening

	mu        sync.Mutex
	to        gate.Listener
	published []sent
}

type sent struct {
	gate.Signal
	at time.Time
}

func newHand() *hand { return &hand{end: make(chan error)} }

func (h *hand) Publish(_ context.Context, s gate.Signal) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.published = append(h.published, sent{s, time.Now()})
	return nil
}

func (h *hand) Listen(ctx context.Context, l gate.Listener) error {
	h.mu.Lock()
	h.to = l
	h.mu.Unlock()
	select {
	case err := <-h.end:
		return err
	case <-ctx.Done():
		return nil
	}
}

func (h *hand) listener() gate.Listener {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.to
}
