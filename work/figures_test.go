package work_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"kennel/internal/memory"
	"kennel/queue"
	"kennel/work"
)

// TestRequests counts the requests of a batch, from its submission to its
// report, and compares them with those that the batch reports.
func TestRequests(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		perParcel, items int
		pad              int // so that so many fill a parcel
		maxQueued        float64
		maxAll           float64
	}{
		{100, 4_000, small, 0.03, 0.07},
		{50, 2_000, 750, 0.05, 0.14},
	} {
		synctest.Test(t, func(t *testing.T) {
			var queued atomic.Int64 // requests for the messages of parcels
			w := newWorld(t, 0, func(store string) func(memory.Call) memory.Fault {
				return func(call memory.Call) memory.Fault {
					if store == "queues" && call.Key != work.ResultsQueue {
						queued.Add(1)
					}
					return memory.Fault{}
				}
			})
			p := w.start(nil, nil)
			o := &order{name: "n", items: someItems("i", tt.items, tt.pad)}
			b, _, err := o.submit(t.Context(), p)
			if err != nil {
				t.Fatal(err)
			}
			if each := float64(tt.items) / float64(b.Parcels); math.Abs(each-float64(tt.perParcel)) > 2 {
				t.Errorf("%.1f items a parcel, want %d", each, tt.perParcel)
			}
			ctx, stop := context.WithCancel(t.Context())
			var running sync.WaitGroup
			running.Go(func() { p.host(64, nil).run(ctx) })
			w.await(t.Context(), time.Hour)
			stop()
			running.Wait()
			calls := w.calls()
			w.check([]*order{o}, 0)
			if b, err = p.Get(t.Context(), b.ID); err != nil {
				t.Fatal(err)
			}
			all, each := float64(calls)/float64(tt.items), float64(queued.Load())/float64(tt.items)
			t.Logf("figure: requests per item from submission to report, %d items a parcel | %.3f | ≤ %.2f", tt.perParcel, all, tt.maxAll)
			t.Logf("figure: requests per item for the messages of parcels, %d items a parcel | %.3f | ≤ %.2f", tt.perParcel, each, tt.maxQueued)
			off := math.Abs(float64(b.StorageOperations)/float64(calls) - 1)
			t.Logf("figure: requests of a batch that it reports, %d items a parcel (%d of %d) | %.1f %% off | ≤ 1 %%", tt.perParcel, b.StorageOperations, calls, 100*off)
			if all > tt.maxAll || each > tt.maxQueued || off > 0.01 {
				t.Errorf("%.3f and %.3f requests per item, and %.2f %% off", all, each, 100*off)
			}
		})
	}
}

// BenchmarkBatch compares the whole pipeline, in memory, with a loop that
// decodes the items, processes them and adds them up. The ratio is the median of
// alternating rounds.
func BenchmarkBatch(b *testing.B) {
	const items, rounds = 20_000, 9
	o := &order{name: "n", items: someItems("i", items, small)}
	body := o.body()
	for b.Loop() {
		var ratios, rates []float64
		for range rounds {
			bare := seconds(func() { processBare(b, body) })
			ours := seconds(func() { processBatch(b, body, items) })
			ratios, rates = append(ratios, bare/ours), append(rates, items/ours)
		}
		slices.Sort(ratios)
		slices.Sort(rates)
		b.Logf("figure: items submitted, processed and reported, in memory (%.0f/s here) | %.2f × the rate of a bare loop | ≥ 0.25 ×", rates[rounds/2], ratios[rounds/2])
	}
}

func seconds(do func()) float64 {
	began := time.Now()
	do()
	return time.Since(began).Seconds()
}

// processBare processes items without a batch.
func processBare(t testing.TB, body []byte) {
	p := &sums{quiet: true}
	report := p.NewReport("bare")
	lines := bufio.NewScanner(bytes.NewReader(body))
	for lines.Scan() {
		var head struct {
			ID string `json:"id"`
		}
		err := json.Unmarshal(lines.Bytes(), &head)
		if err == nil {
			err = p.Validate(lines.Bytes())
		}
		var result json.RawMessage
		if err == nil {
			result, err = p.Process(t.Context(), work.Item{ID: head.ID, Data: lines.Bytes()})
		}
		if err == nil {
			err = report.Add(work.Result{ID: head.ID, Outcome: work.ItemDone, Result: result})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, err := report.JSON(); err != nil {
		t.Fatal(err)
	}
}

// processBatch submits a batch and works until it is done.
func processBatch(t testing.TB, body []byte, items int) {
	queues := memory.NewQueues(nil)
	batches, _ := open(t, stores{
		rows: memory.NewTable(nil), staging: memory.NewContainer(nil), reports: memory.NewContainer(nil),
		claimRows: memory.NewTable(nil), claimBlobs: memory.NewContainer(nil), queues: queues, peeker: queues,
	}, &sums{quiet: true}, nil)
	submitted, _, err := batches.Submit(t.Context(), work.Submission{Processor: processor, Body: bytes.NewReader(body)})
	if err != nil {
		t.Fatal(err)
	}
	workOff(t, batches, queues, 16)
	if done, err := batches.Get(t.Context(), submitted.ID); err != nil || done.State != work.Done || done.Done != items {
		t.Fatalf("batch %+v, %v", done, err)
	}
}

// workOff works on all messages until no queue has any.
func workOff(t testing.TB, b *work.Batches, queues queue.Receiver, hands int) {
	for left := true; left; {
		left = false
		for _, name := range queueNames(maxPartitions) {
			messages, err := queues.Receive(t.Context(), name, 32, time.Minute)
			if err != nil {
				t.Fatal(err)
			}
			left = left || len(messages) > 0
			slots := make(chan struct{}, hands)
			var running sync.WaitGroup
			for _, m := range messages {
				slots <- struct{}{}
				running.Go(func() {
					defer func() { <-slots }()
					message := work.Message{Text: m.Body, Share: 1 / float64(len(messages))}
					var err error
					if name == work.ResultsQueue {
						err = b.Collect(t.Context(), message)
					} else {
						err = b.Process(t.Context(), name, message)
					}
					if err == nil {
						err = queues.Delete(t.Context(), name, m)
					}
					if err == nil {
						err = b.Forget(t.Context(), m.Body)
					}
					if err != nil {
						t.Error(err)
					}
				})
			}
			running.Wait()
		}
	}
}
