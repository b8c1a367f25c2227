package azure

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"kennel/internal/faultproxy"
	"kennel/internal/storetest"
	"kennel/queue"
)

// TestListenerRequests compares the requests that the publisher and the listener
// report with those that a proxy counts, and with the limit for 1,000 waiting
// messages.
func TestListenerRequests(t *testing.T) {
	t.Parallel()
	messages := storetest.Scale(128, 1000)
	proxy, account := throughProxy(t)
	queues := opened(t, account.OpenQueues, nil)
	name := storetest.Name()
	// The queue exists before, so that no put has to create it.
	m, err := queues.Put(t.Context(), name, "first", 0)
	if err == nil {
		err = queues.Delete(t.Context(), name, m)
	}
	if err != nil {
		t.Fatal(err)
	}
	before := countQueueRequests(proxy)

	p, err := queue.NewPublisher(queues, nil)
	if err != nil {
		t.Fatal(err)
	}
	publishAll(t, p, name, messages)
	l := drain(t, queues, name, messages)
	reported := p.State().Puts
	for _, n := range l.State()[0].Requests {
		reported += n
	}
	if counted := countQueueRequests(proxy) - before; counted != reported {
		t.Errorf("reported %d requests, the proxy counted %d: %v", reported, counted, l.State())
	}
	perMessage := float64(reported) / float64(messages)
	t.Logf("figure: requests per message, put included, on storage (%d waiting) | %.3f | ≤ 2.04", messages, perMessage)
	if perMessage > 2.04+8/float64(messages)-0.008 { // a few requests find the queue empty
		t.Errorf("%.3f requests per message: %v", perMessage, l.State())
	}
}

func countQueueRequests(proxy *faultproxy.Proxy) (n int64) {
	for _, count := range proxy.Requests.All() {
		n += count
	}
	return n
}

func publishAll(t testing.TB, p *queue.Publisher, name string, messages int) {
	t.Helper()
	var publishing sync.WaitGroup
	for i := range messages {
		publishing.Go(func() {
			if err := p.Publish(t.Context(), name, fmt.Sprint("item ", i), 0); err != nil {
				t.Error(err)
			}
		})
	}
	publishing.Wait()
}

// drain runs a listener until it has done this many messages.
func drain(t testing.TB, queues *Queues, name string, messages int) *queue.Listener[string] {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	var left atomic.Int64
	left.Store(int64(messages))
	l, err := queue.NewListener(queues, []string{name}, queue.Text{}, func(context.Context, queue.Delivery[string]) error {
		if left.Add(-1) == 0 {
			stop()
		}
		return nil
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Run(ctx); err != nil {
		t.Fatal(err)
	}
	if s := l.State()[0]; s.Done != int64(messages) {
		t.Fatalf("%+v, want %d done", s, messages)
	}
	return l
}

// BenchmarkListener compares the listener with a bare loop on an Azurite of its
// own, which no other test has filled: its time for a request grows with all
// messages of the account. The bare loop receives batches of 32 until the queue
// is empty, and deletes with as many goroutines as the listener. The ratio is
// the median of rounds that alternate.
func BenchmarkListener(b *testing.B) {
	const messages, rounds = 480, 9
	queues := opened(b, Account{ConnectionString: storetest.OwnStorage(b).ConnectionString()}.OpenQueues, nil)
	p, err := queue.NewPublisher(queues, nil)
	if err != nil {
		b.Fatal(err)
	}
	timed := func(consume func(name string)) time.Duration {
		name := storetest.Name()
		publishAll(b, p, name, messages)
		begun := time.Now()
		consume(name)
		return time.Since(begun)
	}
	for b.Loop() {
		var ratios, rates []float64
		for i := range rounds {
			var bare, ours time.Duration
			for turn := range 2 { // each of them is the first in half of the rounds
				if (i+turn)%2 == 0 {
					bare = timed(func(name string) { drainBare(b, queues, name, messages) })
				} else {
					ours = timed(func(name string) { drain(b, queues, name, messages) })
				}
			}
			ratios = append(ratios, float64(bare)/float64(ours))
			rates = append(rates, messages/ours.Seconds())
		}
		b.Logf("figure: messages received and deleted on Azurite (%.0f/s here) | %.2f × the rate of a bare loop | ≥ 0.95 ×", median(rates), median(ratios))
	}
}

// drainBare receives and deletes with the same store, without renewals, retries
// and limits.
func drainBare(b *testing.B, queues *Queues, name string, messages int) {
	received := make(chan queue.Message, 64)
	var deleting sync.WaitGroup
	for range 16 {
		deleting.Go(func() {
			for m := range received {
				if err := queues.Delete(b.Context(), name, m); err != nil {
					b.Error(err)
				}
			}
		})
	}
	total := 0
	for {
		batch, err := queues.Receive(b.Context(), name, queue.MaxReceive, time.Minute)
		if err != nil {
			b.Fatal(err)
		}
		for _, m := range batch {
			received <- m
		}
		if total += len(batch); len(batch) == 0 {
			break
		}
	}
	close(received)
	deleting.Wait()
	if total != messages {
		b.Errorf("received %d messages, want %d", total, messages)
	}
}
