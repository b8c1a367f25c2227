package queue_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"kennel/internal/memory"
	"kennel/internal/storetest"
	"kennel/queue"
)

// An idle queue is polled rarely: while signals are received a few times an
// hour, and without them at the maximum interval.
func TestIdle(t *testing.T) {
	for _, tt := range []struct {
		name    string
		push    bool
		maxIdle time.Duration
		limit   int64 // receives an hour
		counts  int64 // likewise
	}{
		{"push", true, 30 * time.Second, 6, 6},
		{"no push, at most 30 s", false, 30 * time.Second, 150, 150},
		{"no push, at most 60 s", false, time.Minute, 75, 75},
		{"no push, at most 1 s", false, time.Second, 4500, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			queues := newQueues(t, distant)
			o := &queue.ListenerOptions{MaxIdle: tt.maxIdle, Lease: 30 * time.Second}
			if tt.push {
				o.Signals = memory.NewQueueSignals(nil)
			}
			put(t, queues, "work", "hello")
			l := listen(t, queues, nothing, o)
			time.Sleep(2 * time.Minute)
			var worst, counts int64
			for range storetest.Scale(3, 10) {
				before := l.state()
				time.Sleep(time.Hour)
				worst = max(worst, l.state().Receives-before.Receives)
				counts = max(counts, l.state().Requests["count"]-before.Requests["count"])
			}
			l.end()
			t.Logf("figure: receives an hour of an idle queue, %s | %d | ≤ %d", tt.name, worst, tt.limit)
			t.Logf("figure: counts an hour of an idle queue, %s | %d | ≤ %d", tt.name, counts, tt.counts)
			if counts > tt.counts {
				t.Errorf("%s: %d counts an hour, want up to %d", tt.name, counts, tt.counts)
			}
			if worst > tt.limit || worst < tt.limit/3 {
				t.Errorf("%s: %d receives an hour, want up to %d", tt.name, worst, tt.limit)
			}
		})
	}
}

// A message for a listener that is idle for ten minutes is begun after the
// signal's way and the time of two requests.
func TestWakeUp(t *testing.T) {
	for _, delivery := range []time.Duration{0, 5 * time.Millisecond, 50 * time.Millisecond, time.Second} {
		synctest.Test(t, func(t *testing.T) {
			signals := memory.NewQueueSignals(&memory.QueueSignalOptions{
				Fault: func(int, queue.Signal) memory.SignalFault { return memory.SignalFault{Delay: delivery} },
			})
			queues := newQueues(t, distant)
			var begun atomic.Int64
			l := listen(t, queues, func(context.Context, queue.Delivery[string]) error {
				begun.Store(time.Now().UnixNano())
				return nil
			}, &queue.ListenerOptions{Signals: signals})
			p := newPublisher(t, queues, &queue.PublisherOptions{Signals: signals})
			ctx, stop := context.WithCancel(context.Background())
			var publishing sync.WaitGroup
			publishing.Go(func() { p.Run(ctx) })
			var worst time.Duration
			for range 5 {
				time.Sleep(9 * time.Minute)
				polls := l.state().Receives
				time.Sleep(time.Minute)
				if s := l.state(); s.Receives > polls+1 {
					t.Errorf("%+v, want no polling", s)
				}
				if err := p.Publish(t.Context(), "work", "hello", 0); err != nil {
					t.Fatal(err)
				}
				published := time.Now()
				await(t, time.Minute, drained(queues, "work"))
				worst = max(worst, time.Unix(0, begun.Load()).Sub(published))
			}
			l.end()
			stop()
			publishing.Wait()
			if limit := delivery + 2*requestTakes; worst > limit {
				t.Errorf("begun %v after the put, want at most %v", worst, limit)
			}
			t.Logf("figure: wake-up after 10 idle minutes, requests of %v, signals of %v | %v | ≤ %v", requestTakes, delivery, worst, delivery+2*requestTakes)
		})
	}
}

// Many messages for an idle listener get all hands within a second. When the
// queue is empty again, one poller or none is left.
func TestBurst(t *testing.T) {
	const hands = 64
	messages := storetest.Scale(1000, 10_000)
	synctest.Test(t, func(t *testing.T) {
		signals := memory.NewQueueSignals(nil)
		queues := newQueues(t, distant)
		l := listen(t, queues, takes(50*time.Millisecond), queue.ListenerOptions{Signals: signals, Hands: hands}.WithLimits(0, hands))
		p := newPublisher(t, queues, queue.PublisherOptions{Signals: signals}.WithParallel(messages))
		ctx, stop := context.WithCancel(context.Background())
		var publishing sync.WaitGroup
		publishing.Go(func() { p.Run(ctx) })
		time.Sleep(10 * time.Minute)
		for _, body := range items(messages) {
			publishing.Go(func() {
				if err := p.Publish(ctx, "work", body, 0); err != nil {
					t.Error(err)
				}
			})
		}
		begun := time.Now()
		await(t, time.Minute, func() bool { return l.state().Hands == hands })
		wide := time.Since(begun)
		await(t, 10*time.Minute, func() bool { return l.state().EmptyReceives > 0 && drained(queues, "work")() })
		took := time.Since(begun)
		time.Sleep(2 * time.Second) // four steps of backing off, 0.1 to 0.8 s, also if the last messages were late
		polls := l.state().Receives
		time.Sleep(200 * time.Millisecond)
		if s := l.state(); s.Receives > polls+1 {
			t.Errorf("%+v, %d receives before: more than one poller of an empty queue", s, polls)
		}
		time.Sleep(10 * time.Second)
		s := l.state()
		time.Sleep(30 * time.Second)
		if s.Receives > polls+8 || l.state().Receives != s.Receives {
			t.Errorf("%+v, %d receives before, want asleep soon", l.state(), polls)
		}
		l.end()
		stop()
		publishing.Wait()
		t.Logf("figure: burst of messages into an idle listener: all %d hands at work after (%d messages) | %v | ≤ 1s", hands, messages, wide)
		if wide > time.Second {
			t.Errorf("all hands were at work after %v", wide)
		}
		if ideal := time.Duration(messages) * 50 * time.Millisecond / hands; took > ideal*11/10+time.Second {
			t.Errorf("%d messages took %v, ideally %v", messages, took, ideal)
		}
	})
}

// 1,000 waiting messages cost at most 2.04 requests each, with the put.
func TestRequestsPerMessage(t *testing.T) {
	const messages = 1000
	synctest.Test(t, func(t *testing.T) {
		queues := newQueues(t, distant)
		p := newPublisher(t, queues, nil)
		var publishing sync.WaitGroup
		for _, body := range items(messages) {
			publishing.Go(func() {
				if err := p.Publish(t.Context(), "work", body, 0); err != nil {
					t.Error(err)
				}
			})
		}
		publishing.Wait()
		l := listen(t, queues, takes(10*time.Millisecond), nil)
		await(t, time.Minute, drained(queues, "work"))
		l.end()
		sent := p.State().Puts
		for _, n := range l.state().Requests {
			sent += n
		}
		if sent != queues.Calls() {
			t.Errorf("State reports %d requests, the store received %d", sent, queues.Calls())
		}
		t.Logf("figure: requests per message, put included, 1,000 waiting, in memory | %.3f | ≤ 2.04", float64(sent)/messages)
		if float64(sent)/messages > 2.04 {
			t.Errorf("%d requests: %v", sent, l.state())
		}
	})
}

// Work that shares a resource gets no more hands than it can use, at the same
// rate.
func TestHandsByThroughput(t *testing.T) {
	storetest.OnlyInProve(t)
	const useful, hands = 8, 64
	synctest.Test(t, func(t *testing.T) {
		queues := newQueues(t, func(c memory.Call) memory.Fault {
			if c.Op == "Put" {
				return memory.Fault{}
			}
			return distant(c)
		})
		resource := make(chan struct{}, useful)
		l := listen(t, queues, func(context.Context, queue.Delivery[string]) error {
			resource <- struct{}{}
			time.Sleep(50 * time.Millisecond)
			<-resource
			return nil
		}, &queue.ListenerOptions{Hands: hands})
		var before int64
		var widest int
		for second := range 240 {
			put(t, queues, "work", items(useful*20+10)...)
			time.Sleep(time.Second)
			if second == 120 {
				before = l.state().Done
			}
			if second > 120 {
				widest = max(widest, l.state().Hands)
			}
		}
		rate := float64(l.state().Done-before) / 119
		l.end()
		t.Logf("figure: hands of 64 in use where 8 suffice, after two minutes | ≤ %d, %.0f %% of the rate | ≤ 20, ≥ 95 %%", widest, 100*rate/(useful*20))
		if widest > 20 || rate < 0.95*useful*20 {
			t.Errorf("%d hands, %.0f messages a second", widest, rate)
		}
	})
}
