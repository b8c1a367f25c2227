package parts

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"kennel/internal/apptest"
	"kennel/internal/memory"
	"kennel/queue"
	"kennel/work"
	"kennel/work/processors"
)

// crowded is a processor that takes a while, and counts of how many parcels, that
// is, messages, it processes items at the same time.
type crowded struct {
	processors.Billing
	mu   sync.Mutex
	now  map[int]int // items by parcel
	most int
}

func (c *crowded) Process(ctx context.Context, item work.Item) (json.RawMessage, error) {
	const itemsOfParcel = 100
	n, err := strconv.Atoi(strings.TrimLeft(item.ID, "abcdefghijklmnopqrstuvwxyz-"))
	if err != nil {
		return nil, err
	}
	parcel := n / itemsOfParcel
	c.mu.Lock()
	c.now[parcel]++
	c.most = max(c.most, len(c.now))
	c.mu.Unlock()
	select {
	case <-time.After(2 * time.Second):
	case <-ctx.Done():
	}
	c.mu.Lock()
	if c.now[parcel]--; c.now[parcel] == 0 {
		delete(c.now, parcel)
	}
	c.mu.Unlock()
	return c.Billing.Process(ctx, item)
}

// take returns the maximum since the last call.
func (c *crowded) take() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	most := c.most
	c.most = len(c.now)
	return most
}

// TestWorkersTakeHands: workers process no more messages of a queue at the same
// time than the rules allow, from the first one on. Changed rules have their
// effect within six minutes, and hold while they cannot be read. The workers
// read them with what they read anyway: the blob once at their start, and then
// once a minute in the one that checks.
func TestWorkersTakeHands(t *testing.T) {
	const workers, effect = 2, 6 * time.Minute
	synctest.Test(t, func(t *testing.T) {
		queues, rows := memory.NewQueues(nil), memory.NewTable(nil)
		slow := &memory.Line{RoundTrip: 500 * time.Millisecond} // the queues answer first
		blobs := memory.NewContainer(&memory.Options{Fault: slow.Fault})
		rules := func(text string) {
			if err := blobs.Put(t.Context(), "rules.json", []byte(text)); err != nil {
				t.Fatal(err)
			}
		}
		rules(`{"version":1,"depth":[{"from":0,"hands":2}]}`)
		processor := &crowded{now: make(map[int]int)}
		first := newMemoryBatches(t, queues, nil, "KENNEL_PARTITIONS=1")
		first.processors["billing"] = processor
		opened, err := first.open()
		if err != nil {
			t.Fatal(err)
		}
		send := func() {
			if _, _, err := opened.batches.Submit(t.Context(), work.Submission{Processor: "billing", Body: strings.NewReader(apptest.Items(18_000))}); err != nil {
				t.Fatal(err)
			}
		}
		send()
		var running []*fakeWorker
		for i := range workers {
			b := first
			if i > 0 {
				b = newMemoryBatches(t, queues, nil, "KENNEL_PARTITIONS=1")
				publisher, err := queue.NewPublisher(queues, nil)
				if err != nil {
					t.Fatal(err)
				}
				b.open = b.once(func() (*openBatches, error) {
					return &openBatches{opened.batches, opened.claims, publisher, opened.queues}, nil
				})
			}
			running = append(running, newFakeWorkerOn(t, queues, memory.NewTable(nil), nil, b, scaleStores{rows, blobs}, "KENNEL_PARTITIONS=1"))
		}
		time.Sleep(3 * time.Minute)
		if n := processor.take(); n != 2*workers {
			t.Errorf("%d messages at work, want %d", n, 2*workers)
		}
		rules(`{"version":1,"depth":[{"from":0,"hands":5}]}`)
		time.Sleep(effect)
		if n := processor.take(); n != 5*workers {
			t.Errorf("%d messages at work, want %d", n, 5*workers)
		}
		reads := blobs.CallsOf("Get")
		rules(`{"version":1,"depth":[{"from":0,"hands":1}]}`)
		send()
		time.Sleep(effect + time.Minute) // until what was begun has ended
		processor.take()
		rules(`{"version":1,"depth":[{"from":0,"hands":0}]}`) // invalid: the last ones hold
		time.Sleep(effect)
		if n := processor.take(); n != workers {
			t.Errorf("%d messages at work, want %d", n, workers)
		}
		if n := blobs.CallsOf("Get") - reads; n > int64((2*effect+time.Minute)/time.Minute)+1 {
			t.Errorf("%d reads of the rules by %d workers in %v, want one a minute", n, workers, 2*effect+time.Minute)
		}
		for _, f := range running {
			f.end(t)
		}
	})
}
