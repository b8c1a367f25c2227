package parts

import (
	"context"
	"log/slog"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"kennel/gate"
	"kennel/internal/config"
	"kennel/internal/customhandler"
	"kennel/internal/edge"
	"kennel/internal/instances"
	"kennel/internal/memory"
	"kennel/internal/observe"
	"kennel/internal/worker"
)

// TestGatesOfAWorker: a worker that holds no work at a gate watches none, and
// so needs no subscription, until its console asks for one.
func TestGatesOfAWorker(t *testing.T) {
	for _, cfg := range []config.Config{{}, {WorkGate: "hounds"}} {
		synctest.Test(t, func(t *testing.T) {
			log := slog.New(slog.DiscardHandler)
			signals := &countedSignals{}
			gates, err := gate.New(memory.NewValues(nil), &gate.Options{Signals: signals})
			if err != nil {
				t.Fatal(err)
			}
			e := &environment{cfg: cfg, listening: &worker.Listening{}, members: observe.NewMembers(nil, instances.Worker, time.Now(), log), log: log}
			g := newGatePart(e, gates, nil)
			host, err := customhandler.New(&customhandler.Options{Log: log})
			if err != nil {
				t.Fatal(err)
			}
			edge.ServeRoutes(host, g.Routes())
			ctx, stop := context.WithCancel(t.Context())
			var running sync.WaitGroup
			running.Go(func() {
				if err := g.Run(ctx); err != nil {
					t.Error(err)
				}
			})
			expect := func(when string, want bool) {
				t.Helper()
				synctest.Wait()
				if got := signals.listens(); got != want {
					t.Errorf("%+v, %s: listens %t, want %t", cfg.WorkGate, when, got, want)
				}
			}
			expect("at the start", cfg.WorkGate != "")
			host.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, "GET", "/api/gates/hounds", nil))
			expect("after a call", true)
			stop()
			running.Wait()
		})
	}
}

// countedSignals are signals that never come.
type countedSignals struct {
	mu      sync.Mutex
	listing int
}

func (s *countedSignals) Listen(ctx context.Context, _ gate.Listener) error {
	s.mu.Lock()
	s.listing++
	s.mu.Unlock()
	<-ctx.Done()
	return nil
}

func (s *countedSignals) listens() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.listing > 0
}

func (s *countedSignals) Publish(context.Context, gate.Signal) error { return nil }
