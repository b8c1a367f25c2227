package parts

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"kennel/internal/apptest"
	"kennel/internal/instances"
	"kennel/internal/memory"
	"kennel/work"
)

// flaky fails for some time.
type flaky struct {
	work.Processor
	until time.Time
}

func (f flaky) Process(ctx context.Context, item work.Item) (json.RawMessage, error) {
	if time.Now().Before(f.until) {
		return nil, errors.New("panic: the receiver\nanswered 503\ngoroutine 7 [running]:\nmain.main()")
	}
	return f.Processor.Process(ctx, item)
}

// TestBatchStuck: items that are tried again are in the answer about their batch
// from the first failure on, and a problem of the process from the second one
// until they are done.
func TestBatchStuck(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMemoryBatches(t, memory.NewQueues(nil), nil)
		m.processors["billing"] = flaky{m.processors["billing"], time.Now().Add(20 * time.Second)}
		host := apiOf(t, m)
		b := m.submitted(t, apptest.Items(3))
		delivered := make(chan struct{})
		go func() {
			defer close(delivered)
			m.deliver(t)
		}()
		began := time.Now()
		var shown, reported time.Time
		for wait := true; wait; {
			select {
			case <-delivered:
				wait = false
			case <-time.After(100 * time.Millisecond):
			}
			got := m.call(t, host, "GET", "/api/batches/"+b.ID, "")
			if r := got.Retrying; r != nil && shown.IsZero() {
				shown = time.Now()
				if r.Items != 3 || r.Attempts != 1 || !strings.HasPrefix(r.Error, "panic: the receiver\nanswered 503\ngoroutine ") || !r.NextAt.After(shown) {
					t.Errorf("shown %s", got.Body)
				}
			}
			if p := m.Problems(); len(p) > 0 && reported.IsZero() {
				reported = time.Now()
				if p[0].Code != instances.BatchStuck || p[0].Count != 3 || !strings.Contains(p[0].What, "had 2 of 5 attempts; the last error: panic: the receiver answered 503.") {
					t.Errorf("problems %+v", p)
				}
			}
		}
		if shown.IsZero() || reported.IsZero() || shown.Sub(began) > 5*time.Second || reported.Sub(shown) > 15*time.Second {
			t.Errorf("shown after %v, reported %v later", shown.Sub(began), reported.Sub(shown))
		}
		if got := m.call(t, host, "GET", "/api/batches/"+b.ID, ""); got.State != work.Done || got.Retrying != nil || len(m.Problems()) > 0 {
			t.Errorf("at the end %s, problems %+v", got.Body, m.Problems())
		}
	})
}
