package kennel

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"kennel/internal/azure"
	"kennel/internal/parts"
	"kennel/internal/storetest"
	"kennel/queue"
)

// BenchmarkWorker compares the worker of a program with a bare loop over the same
// messages on storage: it receives batches of 32 until the queue is empty, and as
// many goroutines as the worker has delete. The ratio is the median of rounds
// that alternate. The worker's time begins with its OnStart and ends with its last deletion.
func BenchmarkWorker(b *testing.B) {
	const messages, rounds, concurrency = 240, 5, 16
	connection := storetest.OwnStorage(b).ConnectionString()
	queues, err := azure.Account{ConnectionString: connection}.OpenQueues(nil)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		var ratios, rates []float64
		for i := range rounds {
			var bare, ours time.Duration
			for turn := range 2 { // each of them is the first in half of the rounds
				sendMany(b, connection, messages)
				if (i+turn)%2 == 0 {
					bare = drainBare(b, queues, messages, concurrency)
				} else {
					ours = drainByWorker(b, connection, messages, concurrency)
				}
			}
			ratios = append(ratios, float64(bare)/float64(ours))
			rates = append(rates, messages/ours.Seconds())
		}
		slices.Sort(ratios)
		slices.Sort(rates)
		b.Logf("figure: messages of a program done by a worker on storage (%.0f/s here) | %.2f × the rate of a bare loop | ≥ 0.95 ×", rates[rounds/2], ratios[rounds/2])
	}
}

func sendMany(b *testing.B, connection string, messages int) {
	var q *Queue[shopOrder]
	sender := func(a *App) error {
		q = NewQueue(a, "orders", &QueueOptions[shopOrder]{SendOnly: true})
		return nil
	}
	runs(b, connection, sender, func(ctx context.Context) {
		sent, err := q.SendAll(ctx, func(yield func(Message[shopOrder]) bool) {
			for i := range messages {
				if !yield(Message[shopOrder]{Body: shopOrder{N: i}}) {
					return
				}
			}
		})
		if err != nil || len(sent) != messages {
			b.Fatal(len(sent), err)
		}
	})
}

// deletions are the requests of a worker, of which the last one that deletes a
// message ends the measurement.
type deletions struct {
	http.Transport
	left  atomic.Int64
	began time.Time
	took  time.Duration
	stop  func()
}

// RoundTrip implements [http.RoundTripper].
func (d *deletions) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := d.Transport.RoundTrip(r)
	if err == nil && r.Method == http.MethodDelete && strings.Contains(r.URL.Path, "/orders/messages/") && d.left.Add(-1) == 0 {
		d.took = time.Since(d.began)
		d.stop()
	}
	return answer, err
}

func drainByWorker(b *testing.B, connection string, messages, concurrency int) time.Duration {
	ctx, stop := context.WithTimeout(b.Context(), 2*time.Minute)
	defer stop()
	d := &deletions{stop: stop}
	d.MaxIdleConnsPerHost = 100
	defer d.CloseIdleConnections()
	d.left.Store(int64(messages))
	worker := func(a *App) error {
		a.OnStart(func(context.Context) (func(context.Context) error, error) { d.began = time.Now(); return nil, nil })
		NewQueue[shopOrder](a, "orders", nil).Handle(func(context.Context, shopOrder) error { return nil }, &HandleOptions[shopOrder]{Concurrency: concurrency})
		return nil
	}
	var output strings.Builder
	if code := execute(ctx, "shop", worker, []string{"worker", "--listen", "127.0.0.1:0"}, parts.Outside{
		Environ: []string{"AzureWebJobsStorage=" + connection}, Stdout: &output, Stderr: &output, Transport: &http.Client{Transport: d},
	}); code != 0 || d.left.Load() > 0 {
		b.Fatal(fmt.Sprint("code ", code, ", ", d.left.Load(), " messages left: ", &output))
	}
	return d.took
}

func drainBare(b *testing.B, queues *azure.Queues, messages, concurrency int) time.Duration {
	began := time.Now()
	received := make(chan queue.Message, 2*queue.MaxReceive)
	var deleting sync.WaitGroup
	for range concurrency {
		deleting.Go(func() {
			for m := range received {
				if err := queues.Delete(b.Context(), "orders", m); err != nil {
					b.Error(err)
				}
			}
		})
	}
	for left := messages; left > 0; {
		batch, err := queues.Receive(b.Context(), "orders", queue.MaxReceive, time.Minute)
		if err != nil || len(batch) == 0 {
			b.Fatalf("%d messages are left, %v", left, err)
		}
		for _, m := range batch {
			received <- m
		}
		left -= len(batch)
	}
	close(received)
	deleting.Wait()
	return time.Since(began)
}
