package parts

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"kennel/internal/apptest"
	"kennel/internal/attempt"
	"kennel/internal/instances"
	"kennel/internal/memory"
	"kennel/internal/program"
	"kennel/work"
)

// ends records calls of OnEnd, of which the first ones fail.
type ends struct {
	fails int

	mu    sync.Mutex
	calls []program.Batch   // guarded by mu
	as    []attempt.Attempt // guarded by mu
}

func (e *ends) ended(ctx context.Context, b program.Batch) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	a, _ := attempt.Current(ctx)
	e.calls, e.as = append(e.calls, b), append(e.as, a)
	if len(e.calls) <= e.fails {
		panic("the receiver\nanswered 503")
	}
	return nil
}

func (e *ends) count() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.calls)
}

// processor is a processor of an author: each third item is rejected.
func (e *ends) processor() work.Processor {
	running := &life{begun: make(chan struct{})}
	close(running.begun)
	n := 0
	return ownProcessor{&program.Processor{
		Name: "billing", Timeout: 30 * time.Second, Check: func([]byte) error { return nil }, OnEnd: e.ended,
		Work: func(context.Context, []byte) ([]byte, error) {
			e.mu.Lock()
			defer e.mu.Unlock()
			if n++; n%3 == 0 {
				return nil, attempt.Reject(errors.New("the third"))
			}
			return []byte("{}"), nil
		},
	}, &program.Declared{}, running, slog.New(slog.DiscardHandler)}
}

// TestBatchEnd: OnEnd of a processor is called with the counts of the batch, behind
// a host and in a worker. What fails is called again by the sweep, and is a problem
// from the third failure on until it succeeds.
func TestBatchEnd(t *testing.T) {
	for _, where := range []string{"host", "worker"} {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				e := &ends{fails: 3}
				m := newMemoryBatches(t, memory.NewQueues(nil), nil)
				m.processors["billing"] = e.processor()
				host := apiOf(t, m)
				b := m.submitted(t, apptest.Items(6))
				sweep := func() { time.Sleep(5 * time.Minute) } // the worker does
				if where == "host" {
					m.deliver(t)
					sweep = func() {
						time.Sleep(5 * time.Minute)
						if err := m.sweep(t.Context()); err != nil {
							t.Error(err)
						}
					}
				} else {
					f := newFakeWorkerOn(t, m.queues, memory.NewTable(nil), nil, m, scaleStores{memory.NewTable(nil), memory.NewContainer(nil)})
					defer f.end(t)
				}
				reported := false
				for i := 0; e.count() <= e.fails && i < 20; i++ {
					sweep()
					if p := m.Problems(); len(p) > 0 && p[0].Code == instances.BatchEndFailed {
						reported = true
						if p[0].Count != 1 || !strings.Contains(p[0].What, "billing failed 3 times for batch "+b.ID+"; the last error: panic: the receiver answered 503.") {
							t.Errorf("problems %+v", p)
						}
						if e.count() < 3 {
							t.Errorf("a problem after %d calls", e.count())
						}
					}
				}
				sweep()
				sweep()
				if p := m.Problems(); len(p) > 0 {
					t.Errorf("problems at the end: %+v", p)
				}
				if !reported {
					t.Error("the failures were no problem")
				}
				if n := e.count(); n != 4 {
					t.Fatalf("called %d times, want 4", n)
				}
				for i, got := range e.calls {
					if got.ID != b.ID || got.State != "done" || got.Items != 6 || got.Done != 4 || got.Rejected != 2 || got.Failed != 0 || got.FinishedAt.IsZero() {
						t.Errorf("call %d: %+v", i+1, got)
					}
					if a := e.as[i]; a.Processor != "billing" || a.Batch != b.ID || a.Number != i+1 {
						t.Errorf("call %d is attempt %+v", i+1, a)
					}
				}
				if got := m.call(t, host, "GET", "/api/batches/"+b.ID, ""); got.State != work.Done {
					t.Errorf("the batch is %s", got.Body)
				}
			})
		})
	}
}
