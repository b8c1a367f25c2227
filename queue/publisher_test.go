package queue_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"kennel/internal/memory"
	"kennel/queue"
)

// errLost is an answer that did not arrive.
var errLost = errors.New("connection reset")

func newPublisher(t testing.TB, store queue.Putter, o *queue.PublisherOptions) *queue.Publisher {
	t.Helper()
	p, err := queue.NewPublisher(store, o)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestPublish(t *testing.T) {
	fails := func(n int64, f memory.Fault) func(memory.Call) memory.Fault {
		return func(c memory.Call) memory.Fault {
			if c.N <= n {
				return f
			}
			return memory.Fault{}
		}
	}
	for _, tt := range []struct {
		name      string
		fault     func(memory.Call) memory.Fault
		body      string
		unclear   bool
		err       error
		puts      int64
		published int // messages that exist afterwards
	}{
		{name: "put", puts: 1, published: 1},
		{name: "busy", fault: fails(9, memory.Fault{Err: memory.ErrBusy, Lost: true}), puts: 10, published: 1},
		{name: "busy for too long", fault: fails(10, memory.Fault{Err: memory.ErrBusy, Lost: true}), puts: 10, err: memory.ErrBusy, unclear: true},
		{name: "answer lost", fault: fails(1, memory.Fault{Err: errLost}), puts: 2, published: 2},
		{name: "no answer", fault: fails(1, memory.Fault{Lost: true}), puts: 2, published: 1},
		{name: "refused", fault: fails(9, memory.Fault{Err: queue.ErrRefused, Lost: true}), puts: 1, err: queue.ErrRefused},
		{name: "limit", body: "\x00", puts: 1, err: queue.ErrLimit},
		{name: "refused after a lost answer", fault: func(c memory.Call) memory.Fault {
			return memory.Fault{Err: []error{errLost, queue.ErrRefused}[c.N-1], Lost: c.N == 2}
		}, puts: 2, unclear: true, published: 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				queues := memory.NewQueues(&memory.Options{Fault: tt.fault, OnMisuse: func(problem string) { t.Error(problem) }})
				p := newPublisher(t, queues, nil)
				err := p.Publish(t.Context(), "work", tt.body+"hello", 0)
				failed := tt.err != nil || tt.unclear
				if (err != nil) != failed || tt.err != nil && !errors.Is(err, tt.err) || errors.Is(err, queue.ErrUnclear) != tt.unclear {
					t.Errorf("published: %v, want %v, unclear: %v", err, tt.err, tt.unclear)
				}
				if tt.unclear && errors.Is(err, queue.ErrRefused) {
					t.Errorf("%v claims that nothing was changed", err)
				}
				if n := p.State().Puts; n != tt.puts {
					t.Errorf("%d puts, want %d", n, tt.puts)
				}
				if n := len(queues.All("work")); n != tt.published {
					t.Errorf("%d messages, want %d", n, tt.published)
				}
			})
		})
	}
}

// Puts are bounded, and a caller that waits for its turn can give up.
func TestPublishIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var under, peak atomic.Int64
		queues := memory.NewQueues(&memory.Options{Fault: func(memory.Call) memory.Fault {
			if n := under.Add(1); n > peak.Load() {
				peak.Store(n)
			}
			time.AfterFunc(time.Second-1, func() { under.Add(-1) })
			return memory.Fault{Delay: time.Second}
		}})
		p := newPublisher(t, queues, queue.PublisherOptions{}.WithParallel(3))
		ctx, cancel := context.WithTimeout(t.Context(), 2500*time.Millisecond)
		defer cancel()
		var publishing sync.WaitGroup
		var sent atomic.Int64
		for range 10 {
			publishing.Go(func() {
				switch err := p.Publish(ctx, "work", "hello", 0); {
				case err == nil:
					sent.Add(1)
				case !errors.Is(err, context.DeadlineExceeded):
					t.Error(err)
				}
			})
		}
		publishing.Wait()
		queues.Wait()
		if peak.Load() != 3 || sent.Load() != 6 {
			t.Errorf("%d puts at the same time, %d published, want 3 and 6", peak.Load(), sent.Load())
		}
	})
}

// signalLog records the signals of a topic.
type signalLog struct {
	up func()

	mu sync.Mutex
	at []string
}

func (*signalLog) Down(error) {}
func (h *signalLog) Up()      { h.up() }

func (h *signalLog) Received(s queue.Signal) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.at = append(h.at, fmt.Sprint(s.Queue, " ", []string{"work", "awake"}[s.Kind], " ", sinceBubble().Round(time.Millisecond)))
}

// sinceBubble is the time since a synctest bubble began.
func sinceBubble() time.Duration {
	return time.Since(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC))
}

// receiving returns the signals that are received until the test ends.
func receiving(t *testing.T, signals queue.Signals) *signalLog {
	up := make(chan struct{})
	h := &signalLog{up: sync.OnceFunc(func() { close(up) })}
	go signals.Listen(t.Context(), h)
	<-up
	return h
}

func (h *signalLog) check(t *testing.T, want ...string) {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	if fmt.Sprint(h.at) != fmt.Sprint(want) {
		t.Errorf("signals %v, want %v", h.at, want)
	}
}

// A publisher sends one signal per queue and second, and the last one after the
// last put. A stop sends what is left.
func TestSignalsOfPublisher(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		signals := memory.NewQueueSignals(nil)
		received := receiving(t, signals)
		p := newPublisher(t, memory.NewQueues(nil), &queue.PublisherOptions{Signals: signals})
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() {
			if err := p.Run(ctx); err != nil {
				t.Error(err)
			}
		})
		publish := func(at time.Duration, name string) {
			t.Helper()
			time.Sleep(at - sinceBubble())
			if err := p.Publish(t.Context(), name, "hello", 0); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		publish(100*time.Millisecond, "one")
		publish(200*time.Millisecond, "two")
		publish(300*time.Millisecond, "one")
		publish(400*time.Millisecond, "one")
		publish(10*time.Second, "one")
		publish(10100*time.Millisecond, "one")
		stop()
		running.Wait()
		synctest.Wait()
		if err := p.Run(ctx); err == nil {
			t.Error("Run can be called twice")
		}
		// Its own signal and the spread move the others by up to 1.5 s.
		received.mu.Lock()
		defer received.mu.Unlock()
		if len(received.at) != 5 || p.State().Signals != 5 {
			t.Errorf("signals %v, want five", received.at)
		}
	})
}

// While a listener announces that it is awake, publishers do not signal; when it
// stops, they do.
func TestAwakeListenerHushesPublishers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		signals := memory.NewQueueSignals(nil)
		received := receiving(t, signals)
		p := newPublisher(t, memory.NewQueues(nil), &queue.PublisherOptions{Signals: signals})
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go p.Run(ctx)
		synctest.Wait()
		for i := range 5 {
			if err := signals.Publish(ctx, queue.Signal{Queue: "work", Kind: queue.Awake}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(450 * time.Millisecond)
			if err := p.Publish(ctx, "work", fmt.Sprint(i), 0); err != nil {
				t.Fatal(err)
			}
			if i < 4 {
				time.Sleep(450 * time.Millisecond)
			}
		}
		// The last message may have come too late for a listener that announces
		// now and falls asleep.
		if err := signals.Publish(ctx, queue.Signal{Queue: "work", Kind: queue.Awake}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		received.check(t, "work awake 0s", "work awake 900ms", "work awake 1.8s", "work awake 2.7s", "work awake 3.6s", "work awake 4.05s")
		time.Sleep(2 * time.Second)
		if n := p.State().Signals; n != 1 {
			t.Errorf("%d signals after the listener was silent, want 1", n)
		}
	})
}

// A signal that fails is sent again.
func TestSignalAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		signals := memory.NewQueueSignals(nil)
		p := newPublisher(t, memory.NewQueues(nil), &queue.PublisherOptions{Signals: signals})
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go p.Run(ctx)
		signals.Break()
		if err := p.Publish(ctx, "work", "hello", 0); err != nil {
			t.Error(err)
		}
		time.Sleep(10 * time.Second)
		signals.Mend()
		time.Sleep(10 * time.Second)
		if n := p.State().Signals; n != 1 {
			t.Errorf("%d signals, want 1", n)
		}
	})
}

// silent are signals whose bus does not respond.
type silent struct{ *memory.QueueSignals }

func (silent) Publish(ctx context.Context, _ queue.Signal) error {
	<-ctx.Done()
	return ctx.Err()
}

// A stop waits two seconds at most for signals, also if the bus does not
// respond.
func TestPublisherStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := memory.NewQueueSignals(nil)
		broken.Break()
		for name, signals := range map[string]queue.Signals{"silent": silent{broken}, "broken": broken} {
			p := newPublisher(t, memory.NewQueues(nil), &queue.PublisherOptions{Signals: signals})
			ctx, stop := context.WithCancel(t.Context())
			if err := p.Publish(ctx, "work", "hello", 0); err != nil {
				t.Error(err)
			}
			ended := make(chan error, 1)
			go func() { ended <- p.Run(ctx) }()
			synctest.Wait()
			began := time.Now()
			stop()
			if err, took := <-ended, time.Since(began); err != nil || took > 2*time.Second {
				t.Errorf("%s: ended after %v with %v, want at most 2s without an error", name, took, err)
			}
		}
	})
}

func TestPublisherOptions(t *testing.T) {
	if _, err := queue.NewPublisher(nil, nil); err == nil {
		t.Error("a publisher without a store")
	}
}
