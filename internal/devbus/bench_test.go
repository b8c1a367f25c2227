package devbus_test

import (
	"context"
	"fmt"
	"net"
	"sync"
	"testing"

	sb "github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"

	"kennel/internal/devbus"
)

// benchClient is a client over TCP on this machine: what local runs use.
func benchClient(b *testing.B, bus *devbus.Broker) *sb.Client {
	b.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- bus.Serve(ctx, ln) }()
	client, err := sb.NewClientFromConnectionString(
		fmt.Sprintf("Endpoint=sb://%s;SharedAccessKeyName=k;SharedAccessKey=c2VjcmV0;UseDevelopmentEmulator=true", ln.Addr()), nil)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		client.Close(context.Background())
		cancel()
		<-served
	})
	return client
}

func perSecond(b *testing.B, messages int, unit string) {
	b.ReportMetric(float64(messages)/b.Elapsed().Seconds(), unit)
	b.ReportMetric(0, "ns/op")
}

func BenchmarkSend(b *testing.B) {
	for _, senders := range []int{1, 16} {
		b.Run(fmt.Sprintf("senders=%d", senders), func(b *testing.B) {
			bus := devbus.New(nil)
			defer bus.Close()
			bus.CreateQueue("q", &devbus.Settings{MaxBytes: 1 << 40})
			s, err := benchClient(b, bus).NewSender("q", nil)
			if err != nil {
				b.Fatal(err)
			}
			m := &sb.Message{Body: make([]byte, 100)}
			if err := s.SendMessage(b.Context(), m, nil); err != nil {
				b.Fatal(err)
			}
			b.ResetTimer()
			var group sync.WaitGroup
			for i := range senders {
				group.Go(func() {
					for range (b.N + i) / senders {
						if err := s.SendMessage(b.Context(), m, nil); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			group.Wait()
			perSecond(b, b.N, "sends/s")
		})
	}
}

func BenchmarkReceiveComplete(b *testing.B) {
	bus := devbus.New(nil)
	defer bus.Close()
	bus.CreateQueue("q", &devbus.Settings{MaxBytes: 1 << 40})
	client := benchClient(b, bus)
	fill(b, client, "q", b.N)
	r, err := client.NewReceiverForQueue("q", nil)
	if err != nil {
		b.Fatal(err)
	}
	b.ResetTimer()
	for done := 0; done < b.N; {
		ms, err := r.ReceiveMessages(b.Context(), min(200, b.N-done), nil)
		if err != nil {
			b.Fatal(err)
		}
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
		done += len(ms)
	}
	perSecond(b, b.N, "completes/s")
}

// fill puts n messages into a queue.
func fill(b *testing.B, client *sb.Client, queue string, n int) {
	b.Helper()
	s, err := client.NewSender(queue, nil)
	if err != nil {
		b.Fatal(err)
	}
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
// has the message.
func BenchmarkFanOut(b *testing.B) {
	const subscribers = 50
	bus := devbus.New(nil)
	defer bus.Close()
	bus.CreateTopic("t", nil)
	client := benchClient(b, bus)
	ctx, cancel := context.WithCancel(context.Background())
	heard := make(chan int, subscribers)
	var group sync.WaitGroup
	for i := range subscribers {
		name := fmt.Sprint("s", i)
		bus.CreateSubscription("t", name, nil)
		r, err := client.NewReceiverForSubscription("t", name, &sb.ReceiverOptions{ReceiveMode: sb.ReceiveModeReceiveAndDelete})
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
	s, err := client.NewSender("t", nil)
	if err != nil {
		b.Fatal(err)
	}
	signal := func() {
		if err := s.SendMessage(b.Context(), &sb.Message{Body: []byte("look")}, nil); err != nil {
			b.Fatal(err)
		}
		for left := subscribers; left > 0; {
			left -= <-heard
		}
	}
	signal() // everybody is connected now
	b.ResetTimer()
	for range b.N {
		signal()
	}
	b.StopTimer()
	b.ReportMetric(float64(b.N*subscribers)/b.Elapsed().Seconds(), "deliveries/s")
	cancel()
	go func() {
		group.Wait()
		close(heard)
	}()
	for range heard {
	}
}
