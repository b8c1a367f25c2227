package devbus_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	sb "github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"

	"kennel/internal/dev/devbus"
)

// The benchmarks print figures, each beside its bar: what a throw-away
// prototype did on two cores. Each is the median of a few rounds, so that a
// noisy machine counts for less.
const (
	rounds   = 5
	perRound = 5000 // in each
)

// listen starts a bus with the queue "q" on this machine, as local runs do.
func listen(b *testing.B) *devbus.Local {
	b.Helper()
	bus, err := devbus.Listen(nil)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(bus.Close)
	if err := bus.CreateQueue("q", &devbus.Settings{MaxBytes: 1 << 40}); err != nil {
		b.Fatal(err)
	}
	return bus
}

func client(b *testing.B, bus *devbus.Local) *sb.Client {
	b.Helper()
	c, err := sb.NewClientFromConnectionString(bus.ConnectionString(), nil)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { c.Close(context.Background()) })
	return c
}

func rate(took time.Duration) float64 { return perRound / took.Seconds() }

func median(rates []float64) float64 {
	slices.Sort(rates)
	return rates[len(rates)/2]
}

func BenchmarkSend(b *testing.B) {
	bars := map[int]int{1: 13_600, 16: 31_000}
	for _, senders := range []int{1, 16} {
		b.Run(fmt.Sprintf("senders=%d", senders), func(b *testing.B) {
			s, err := client(b, listen(b)).NewSender("q", nil)
			if err != nil {
				b.Fatal(err)
			}
			m := &sb.Message{Body: make([]byte, 100)}
			if err := s.SendMessage(b.Context(), m, nil); err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				var rates []float64
				for range rounds {
					began := time.Now()
					var group sync.WaitGroup
					for i := range senders {
						group.Go(func() {
							for range (perRound + i) / senders {
								if err := s.SendMessage(b.Context(), m, nil); err != nil {
									b.Error(err)
									return
								}
							}
						})
					}
					group.Wait()
					rates = append(rates, rate(time.Since(began)))
				}
				b.Logf("figure: development bus, messages sent by %d at a time | %.0f/s | %d/s (prototype)", senders, median(rates), bars[senders])
			}
		})
	}
}

func BenchmarkReceiveComplete(b *testing.B) {
	c := client(b, listen(b))
	r, err := c.NewReceiverForQueue("q", nil)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		var rates []float64
		for range rounds {
			fill(b, c, "q", perRound)
			began := time.Now()
			for done := 0; done < perRound; {
				ms, err := r.ReceiveMessages(b.Context(), min(200, perRound-done), nil)
				if err != nil {
					b.Fatal(err)
				}
				complete(b, r, ms)
				done += len(ms)
			}
			rates = append(rates, rate(time.Since(began)))
		}
		b.Logf("figure: … messages received and completed | %.0f/s | 17200/s (prototype)", median(rates))
	}
}

// complete completes four messages at a time.
func complete(b *testing.B, r *sb.Receiver, ms []*sb.ReceivedMessage) {
	var group sync.WaitGroup
	for part := range 4 {
		group.Go(func() {
			for i := part; i < len(ms); i += 4 {
				if err := r.CompleteMessage(b.Context(), ms[i], nil); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	group.Wait()
}

// fill puts n messages into a queue.
func fill(b *testing.B, c *sb.Client, queue string, n int) {
	b.Helper()
	s, err := c.NewSender(queue, nil)
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close(b.Context())
	for sent := 0; sent < n; {
		batch, err := s.NewMessageBatch(b.Context(), nil)
		if err != nil {
			b.Fatal(err)
		}
		for sent < n && batch.AddMessage(&sb.Message{Body: make([]byte, 100)}, nil) == nil {
			sent++
		}
		if err := s.SendMessageBatch(b.Context(), batch, nil); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkFanOut sends to a topic, and waits until each of its 50 subscribers
// has the message. Each has a connection of its own, as an instance has.
func BenchmarkFanOut(b *testing.B) {
	const subscribers, signals = 50, 200
	bus := listen(b)
	bus.CreateTopic("t", nil)
	ctx, cancel := context.WithCancel(context.Background())
	heard := make(chan int, subscribers)
	var group sync.WaitGroup
	for i := range subscribers {
		name := fmt.Sprint("s", i)
		bus.CreateSubscription("t", name, nil)
		r, err := client(b, bus).NewReceiverForSubscription("t", name, &sb.ReceiverOptions{ReceiveMode: sb.ReceiveModeReceiveAndDelete})
		if err != nil {
			b.Fatal(err)
		}
		group.Go(func() {
			for ctx.Err() == nil {
				ms, _ := r.ReceiveMessages(ctx, 1, nil)
				heard <- len(ms)
			}
		})
	}
	s, err := client(b, bus).NewSender("t", nil)
	if err != nil {
		b.Fatal(err)
	}
	signal := func() (slowest time.Duration) {
		began := time.Now()
		if err := s.SendMessage(b.Context(), &sb.Message{Body: []byte("look")}, nil); err != nil {
			b.Fatal(err)
		}
		for left := subscribers; left > 0; {
			left -= <-heard
		}
		return time.Since(began)
	}
	signal() // everybody is connected now
	for b.Loop() {
		began := time.Now()
		var took []time.Duration
		for range signals {
			took = append(took, signal())
		}
		perSecond := signals * subscribers / time.Since(began).Seconds()
		slices.Sort(took)
		b.Logf("figure: … a signal to all of 50 subscribers | %.0f deliveries/s, p50 %.1f ms, p99 %.1f ms | p50 3.9 ms, p99 33 ms (prototype)",
			perSecond, ms(took[signals/2]), ms(took[signals*99/100]))
	}
	cancel()
	go func() {
		group.Wait()
		close(heard)
	}()
	for range heard {
	}
}

func ms(d time.Duration) float64 { return d.Seconds() * 1000 }
