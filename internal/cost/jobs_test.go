package cost_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"kennel/channels"
	"kennel/gate"
	"kennel/ids"
	"kennel/internal/cost"
	"kennel/internal/cost/bill"
	"kennel/internal/instances"
	"kennel/internal/memory"
	"kennel/internal/storetest"
	"kennel/queue"
)

// TestNumbers compares the model of order numbers with the requests of a
// generator, and of two that draw in turns.
func TestNumbers(t *testing.T) {
	storetest.OnlyInProve(t)
	var worst float64
	for _, tt := range []struct {
		name       string
		generators int
		numbers    int
		lease      int           // numbers of a call
		pause      time.Duration // after a thousand numbers
	}{
		{"one generator", 1, 300_000, 1, 0},
		{"two in turns", 2, 300_000, 1, 0},
		{"twenty in turns", 20, 20_000_000, 100, time.Second}, // more than a mark has in its history
	} {
		synctest.Test(t, func(t *testing.T) {
			var counted counter
			store := sequences{memory.NewSequences(nil), &counted}
			var generators []*ids.Generator
			reported := make(map[int]ids.Reported) // by each generator, at once
			for me := range tt.generators {
				others := func(context.Context) (map[string][]ids.Reported, error) {
					counted.add("table", "query")
					var all []ids.Reported
					for other, r := range reported {
						if other != me {
							all = append(all, r)
						}
					}
					return map[string][]ids.Reported{"orders": all}, nil
				}
				g, err := ids.New(store, "orders", &ids.Options{MaxRangeSize: 1000, Reported: others})
				if err != nil {
					t.Fatal(err)
				}
				generators = append(generators, g)
			}
			for i := range tt.numbers / 1000 {
				for range 1000 / tt.lease {
					if _, err := generators[i%len(generators)].Lease(t.Context(), tt.lease); err != nil {
						t.Fatal(err)
					}
				}
				synctest.Wait()
				s := generators[i%len(generators)].Stats()
				reported[i%len(generators)] = ids.Reported{Writer: s.Writer, Serial: s.Serial, From: s.From, End: s.End, Used: s.Used}
				time.Sleep(tt.pause)
			}
			for _, g := range generators {
				if err := g.Close(t.Context()); err != nil {
					t.Error(err)
				}
			}
			n := cost.Numbers{Numbers: float64(tt.numbers), Range: 1000, Starts: float64(tt.generators), New: 1, Shared: tt.generators > 1}
			worst = max(worst, check(t, tt.name, counted.take(), n.Lines()))
		})
	}
	t.Logf("figure: predicted requests for order numbers, off those counted | %.2f %% | ≤ 1 %%", 100*worst)
}

// TestDeletions compares the model of deletions with the requests of some.
func TestDeletions(t *testing.T) {
	var worst float64
	for _, n := range []int{0, 1, 2, 99, 100, 101, storetest.Scale(1001, 2500)} {
		synctest.Test(t, func(t *testing.T) {
			var counted counter
			c, err := channels.New(rows{memory.NewTable(nil), &counted}, rows{memory.NewTable(nil), &counted},
				outbox{memory.NewOutbox(memory.NewQueues(nil), "cleanup"), &counted}, nil)
			if err != nil {
				t.Fatal(err)
			}
			ctx := t.Context()
			if _, _, err := c.Create(ctx, "news", "ann"); err != nil {
				t.Fatal(err)
			}
			for range n {
				if _, err := c.Post(ctx, "news", channels.Draft{UserID: "ann", Title: "a title", Text: "x"}); err != nil {
					t.Fatal(err)
				}
			}
			counted.take()
			if d, err := c.Delete(ctx, "news", ""); err != nil || d.State != channels.Done {
				t.Fatal(d, err)
			}
			worst = max(worst, check(t, fmt.Sprint(n, " blogs"), counted.take(), cost.Deletion{Rows: float64(n)}.Lines()))
		})
	}
	t.Logf("figure: predicted requests of deletions of channels, off those counted | %.2f %% | ≤ 1 %%", 100*worst)
}

// listen runs a listener of one queue.
func listen(t *testing.T, store queue.Store, push bool, idlePoll time.Duration) (l *queue.Listener[string], signals *memory.QueueSignals, stop func()) {
	t.Helper()
	o := &queue.ListenerOptions{Lease: 30 * time.Second, MaxIdle: idlePoll} // as a worker has it
	if push {
		signals = memory.NewQueueSignals(nil)
		o.Signals = signals
	}
	l, err := queue.NewListener(store, []string{"work"}, queue.Text{}, func(context.Context, queue.Delivery[string]) error { return nil }, o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := l.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	return l, signals, func() { cancel(); running.Wait() }
}

// TestMessages compares the model of messages with the requests of a listener
// that finds many.
func TestMessages(t *testing.T) {
	var worst float64
	for _, n := range []int{1_000, 10_000}[:storetest.Scale(1, 2)] {
		synctest.Test(t, func(t *testing.T) {
			var counted counter
			store := queues{memory.NewQueues(&memory.Options{Fault: (&memory.Line{RoundTrip: 20 * time.Millisecond}).Fault}), &counted}
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			var putting sync.WaitGroup
			for i := range n {
				putting.Go(func() {
					if _, err := store.Put(ctx, "work", fmt.Sprint("item ", i), 0); err != nil {
						t.Error(err)
					}
				})
			}
			putting.Wait()
			l, _, stop := listen(t, store, false, 0)
			for l.State()[0].Done < int64(n) {
				time.Sleep(10 * time.Millisecond)
			}
			stop()
			s := l.State()[0]
			m := cost.Messages{Messages: float64(n), PerReceive: float64(n) / float64(s.Receives-s.EmptyReceives)}
			worst = max(worst, check(t, fmt.Sprint(n, " messages"), counted.take(), m.Lines("work")))
		})
	}
	t.Logf("figure: predicted requests of a listener, off those counted | %.2f %% | ≤ 1 %%", 100*worst)
}

// TestIdle compares the model of idle queues with the requests of listeners. The
// times between these are random, so it takes many.
func TestIdle(t *testing.T) {
	storetest.OnlyInProve(t)
	var worst float64
	for _, tt := range []struct {
		push     bool
		idlePoll time.Duration
		hours    float64
	}{
		{true, 30 * time.Second, 240}, {false, 30 * time.Second, 24}, {false, 10 * time.Second, 24}, {false, time.Minute, 48}, {false, time.Second, 2},
	} {
		synctest.Test(t, func(t *testing.T) {
			var counted counter
			_, _, stop := listen(t, queues{memory.NewQueues(nil), &counted}, tt.push, tt.idlePoll)
			time.Sleep(time.Hour)
			counted.take()
			time.Sleep(time.Duration(tt.hours * float64(time.Hour)))
			predicted := cost.Idle("work", tt.push, tt.idlePoll.Seconds())
			for i := range predicted {
				predicted[i].Count *= tt.hours
			}
			worst = max(worst, check(t, fmt.Sprintf("idle, %+v", tt), counted.take(), predicted))
			stop()
		})
	}
	t.Logf("figure: predicted requests to an idle queue, off those counted | %.2f %% | ≤ 1 %%", 100*worst)
}

func TestWake(t *testing.T) {
	const wakes = 200
	synctest.Test(t, func(t *testing.T) {
		var counted counter
		_, signals, stop := listen(t, queues{memory.NewQueues(nil), &counted}, true, 0)
		time.Sleep(5 * time.Minute)
		counted.take()
		for range wakes {
			if err := signals.Publish(t.Context(), queue.Signal{Queue: "work", Kind: queue.Work}); err != nil {
				t.Error(err)
			}
			time.Sleep(5 * time.Minute)
		}
		predicted := cost.Wake("work")
		for i := range predicted {
			predicted[i].Count *= wakes
		}
		check(t, "woken in vain", counted.take(), predicted)
		stop()
	})
}

// TestReports compares the model of the instance table with the requests of a
// process in a day.
func TestReports(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var counted counter
		self := instances.NewSelf(instances.Process{Instance: "p"}, func() []instances.Problem { return nil }, func(*instances.Report) {})
		r := instances.NewReporter(self, rows{memory.NewTable(nil), &counted}, slog.New(slog.DiscardHandler))
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() {
			if err := r.Run(ctx); err != nil {
				t.Error(err)
			}
		})
		time.Sleep(24 * time.Hour)
		cancel()
		running.Wait()
		predicted := cost.Report()
		for i := range predicted {
			predicted[i].Count *= 24
		}
		check(t, "reports", counted.take(), predicted)
	})
}

// TestLedger compares the model of the ledger with the requests of an idle
// process, of one that works and of one that works much.
func TestLedger(t *testing.T) {
	storetest.OnlyInProve(t)
	for _, perMinute := range []int64{0, 60, 1200} {
		synctest.Test(t, func(t *testing.T) {
			time.Sleep(3 * 24 * time.Hour) // on the first two days of a month, the one before is read, too
			var counted counter
			began := time.Now()
			counts := func() bill.Counts {
				n := int64(time.Since(began).Seconds()) * perMinute / 60
				return bill.Counts{Operations: map[bill.Operation]int64{{Service: "queue", Name: "put"}: n}}
			}
			l := bill.NewLedger(rows{memory.NewTable(nil), &counted}, bill.Process{Name: "p"}, counts, slog.New(slog.DiscardHandler))
			ctx, cancel := context.WithCancel(t.Context())
			var running sync.WaitGroup
			running.Go(func() {
				if err := l.Run(ctx); err != nil {
					t.Error(err)
				}
			})
			const hours = 200
			time.Sleep(hours * time.Hour)
			cancel()
			running.Wait()
			predicted := cost.Ledger(float64(60 * perMinute))
			for i := range predicted {
				predicted[i].Count *= hours
			}
			check(t, fmt.Sprint("ledger, operations a minute ", perMinute), counted.take(), predicted)
		})
	}
}

// TestWatch compares the model of gates with the reads of a process with a
// waiter.
func TestWatch(t *testing.T) {
	for push, hours := range map[bool]time.Duration{true: 48, false: 6} {
		synctest.Test(t, func(t *testing.T) {
			var counted counter
			o := &gate.Options{}
			if push {
				o.Signals = memory.NewSignals(nil)
			}
			gates, err := gate.New(flags{memory.NewValues(nil), &counted}, o)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			var running sync.WaitGroup
			running.Go(func() { gates.Run(ctx) })
			end := time.Now().Add(hours * time.Hour)
			for time.Now().Before(end) {
				if w, err := gates.Wait(ctx, "hounds", 0, gate.MaxWait); err != nil || w.Passed {
					t.Fatal(w, err)
				}
			}
			predicted := cost.Watch(push)
			for i := range predicted {
				predicted[i].Count *= float64(hours)
			}
			check(t, fmt.Sprint("a waiter, push ", push), counted.take(), predicted)
			cancel()
			running.Wait()
		})
	}
}
