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

// The benchmarks print each figure with its bar: the result of an earlier
// prototype on two cores.
const rounds, perRound = 5, 5000

// median runs a round several times and returns the median rate, which reduces
// the effect of other load on the machine.
func median(round func()) float64 {
	var rates []float64
	for range rounds {
		began := time.Now()
		round()
		rates = append(rates, perRound/time.Since(began).Seconds())
	}
	slices.Sort(rates)
	return rates[rounds/2]
}

func check(b *testing.B, err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// inParallel calls do n times in parallel.
func inParallel(b *testing.B, n int, do func(i int) error) {
	var group sync.WaitGroup
	for i := range n {
		group.Go(func() {
			if err := do(i); err != nil {
				b.Error(err)
			}
		})
	}
	group.Wait()
}

// listen starts a bus with the queue "q" and the topic "t" on this machine, as
// local runs do. It returns a function that connects a client.
func listen(b *testing.B) (*devbus.Local, func() *sb.Client) {
	bus, err := devbus.Listen(nil)
	check(b, err)
	b.Cleanup(bus.Close)
	bus.CreateQueue("q", &devbus.Settings{MaxBytes: 1 << 40})
	bus.CreateTopic("t", nil)
	return bus, func() *sb.Client {
		c, err := sb.NewClientFromConnectionString(bus.ConnectionString(), nil)
		check(b, err)
		b.Cleanup(func() { c.Close(context.Background()) })
		return c
	}
}

func BenchmarkSend(b *testing.B) {
	for _, tt := range []struct{ senders, bar int }{{1, 13_600}, {16, 31_000}} {
		b.Run(fmt.Sprintf("senders=%d", tt.senders), func(b *testing.B) {
			_, connect := listen(b)
			s, err := connect().NewSender("q", nil)
			check(b, err)
			m := &sb.Message{Body: make([]byte, 100)}
			check(b, s.SendMessage(b.Context(), m, nil))
			for b.Loop() {
				rate := median(func() {
					inParallel(b, tt.senders, func(i int) (err error) {
						for n := (perRound + i) / tt.senders; n > 0 && err == nil; n-- {
							err = s.SendMessage(b.Context(), m, nil)
						}
						return err
					})
				})
				b.Logf("figure: development bus, messages sent by %d at a time | %.0f/s | %d/s (prototype)", tt.senders, rate, tt.bar)
			}
		})
	}
}

func BenchmarkReceiveComplete(b *testing.B) {
	_, connect := listen(b)
	c := connect()
	r, err := c.NewReceiverForQueue("q", nil)
	check(b, err)
	for b.Loop() {
		fill(b, c, rounds*perRound)
		rate := median(func() {
			for done := 0; done < perRound; {
				ms, err := r.ReceiveMessages(b.Context(), min(200, perRound-done), nil)
				check(b, err)
				inParallel(b, 4, func(part int) (err error) {
					for i := part; i < len(ms) && err == nil; i += 4 {
						err = r.CompleteMessage(b.Context(), ms[i], nil)
					}
					return err
				})
				done += len(ms)
			}
		})
		b.Logf("figure: development bus, messages received and completed | %.0f/s | 17200/s (prototype)", rate)
	}
}

// fill puts n messages into the queue.
func fill(b *testing.B, c *sb.Client, n int) {
	s, err := c.NewSender("q", nil)
	check(b, err)
	for range n / 1000 {
		batch, err := s.NewMessageBatch(b.Context(), nil)
		check(b, err)
		for range 1000 {
			check(b, batch.AddMessage(&sb.Message{Body: make([]byte, 100)}, nil))
		}
		check(b, s.SendMessageBatch(b.Context(), batch, nil))
	}
}

// BenchmarkFanOut sends to a topic, and waits until each of its 50 subscribers
// has the message. Each subscriber has its own connection, as an instance has.
func BenchmarkFanOut(b *testing.B) {
	const subscribers, signals = 50, 200
	bus, connect := listen(b)
	ctx, cancel := context.WithCancel(context.Background())
	received := make(chan int, subscribers)
	var group sync.WaitGroup
	for i := range subscribers {
		name := fmt.Sprint("s", i)
		bus.CreateSubscription("t", name, nil)
		r, err := connect().NewReceiverForSubscription("t", name, deletes)
		check(b, err)
		group.Go(func() {
			for ctx.Err() == nil {
				ms, _ := r.ReceiveMessages(ctx, 1, nil)
				received <- len(ms)
			}
		})
	}
	s, err := connect().NewSender("t", nil)
	check(b, err)
	signal := func() (slowest time.Duration) {
		began := time.Now()
		check(b, s.SendMessage(b.Context(), &sb.Message{Body: []byte("signal")}, nil))
		for left := subscribers; left > 0; {
			left -= <-received
		}
		return time.Since(began)
	}
	signal() // connects all subscribers
	for b.Loop() {
		began := time.Now()
		var took []time.Duration
		for range signals {
			took = append(took, signal())
		}
		perSecond := signals * subscribers / time.Since(began).Seconds()
		slices.Sort(took)
		b.Logf("figure: development bus, a signal to all of 50 subscribers | %.0f deliveries/s, p50 %.1f ms, p99 %.1f ms | p50 3.9 ms, p99 33 ms (prototype)",
			perSecond, took[signals/2].Seconds()*1000, took[signals*99/100].Seconds()*1000)
	}
	cancel()
	go func() {
		group.Wait()
		close(received)
	}()
	for range received {
	}
}
