package servicebus

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"

	"kennel/internal/dev/devbus"
	"kennel/relay"
)

// BenchmarkDrain measures how fast a syphon moves a backlog home, beside a bare
// loop of the SDK that receives, sends and completes, with as many clients.
func BenchmarkDrain(b *testing.B) {
	const rounds, perQueue = 3, 500
	queues := relay.BacklogQueues("contoso", 10)
	primary, secondary := devbus.New(nil), devbus.New(nil)
	defer primary.Close()
	defer secondary.Close()
	must := func(err error) {
		b.Helper()
		if err != nil {
			b.Fatal(err)
		}
	}
	open := func(bus *devbus.Broker) *Relay {
		r, err := Namespace{ConnectionString: contoso}.OpenRelay(inProcess(bus))
		must(err)
		return r
	}
	p, s := open(primary), open(secondary)
	for i := range rounds {
		must(primary.CreateQueue(fmt.Sprint(orders, i), nil))
		must(primary.CreateQueue(fmt.Sprint("bare", i), nil))
	}
	_, err := relay.EnsureQueues(b.Context(), s, queues)
	must(err)

	// fill puts messages for an entity into each backlog queue.
	fill := func(entity string) {
		x := newSender(b, unreachable{}, s, queues, &relay.Options{Interval: atOnce})
		defer x.Close(context.Background())
		var sending sync.WaitGroup
		for range 16 {
			sending.Go(func() {
				for range len(queues) * perQueue / 16 {
					if _, err := x.Send(b.Context(), entity, text(string(make([]byte, 100)))); err != nil {
						b.Error(err)
						return
					}
				}
			})
		}
		sending.Wait()
	}
	const messages = 10 * perQueue / 16 * 16

	bare := func(entity, queue string) error {
		from, err := s.connector.newClient(noRetry)
		if err != nil {
			return err
		}
		defer from.close()
		to, err := p.connector.newClient(noRetry)
		if err != nil {
			return err
		}
		defer to.close()
		in, err := from.NewReceiverForQueue(queue, nil)
		if err != nil {
			return err
		}
		out, err := to.NewSender(entity, nil)
		if err != nil {
			return err
		}
		for {
			if c, _ := secondary.Counts(queue); c.Ready == 0 {
				return nil
			}
			batch, err := in.ReceiveMessages(b.Context(), 100, nil)
			if err != nil {
				return err
			}
			for _, m := range batch {
				if err := out.SendAMQPAnnotatedMessage(b.Context(), &azservicebus.AMQPAnnotatedMessage{Body: m.RawAMQPMessage.Body, Properties: m.RawAMQPMessage.Properties, ApplicationProperties: m.RawAMQPMessage.ApplicationProperties}, nil); err != nil {
					return err
				}
				if err := in.CompleteMessage(b.Context(), m, nil); err != nil {
					return err
				}
			}
		}
	}

	for b.Loop() {
		var rates, ratios []float64
		for i := range rounds {
			fill(fmt.Sprint("bare", i))
			began := time.Now()
			var moving sync.WaitGroup
			for _, queue := range queues {
				moving.Go(func() {
					if err := bare(fmt.Sprint("bare", i), queue); err != nil {
						b.Error(err)
					}
				})
			}
			moving.Wait()
			baseline := time.Since(began)

			fill(fmt.Sprint(orders, i))
			x := newSyphon(b, p, s, queues, nil)
			began = time.Now()
			result, err := x.Pass(b.Context())
			took := time.Since(began) - time.Second // which a pass waits for more
			must(err)
			must(x.Close(context.Background()))
			if result.Moved != messages {
				b.Fatalf("moved %+v, want %d", result, messages)
			}
			rates = append(rates, messages/took.Seconds())
			ratios = append(ratios, baseline.Seconds()/took.Seconds())
		}
		slices.Sort(rates)
		slices.Sort(ratios)
		b.Logf("figure: messages of a backlog moved home by a syphon (%d in 10 queues, in process) | %.0f/s | ≥ 1000/s", messages, rates[rounds/2])
		b.Logf("figure: the rate of that syphon, beside a bare loop of the SDK that receives, sends and completes | %.2f × | ≥ 0.5 ×", ratios[rounds/2])
	}
}

// unreachable is a namespace that cannot be connected to.
type unreachable struct{}

func (unreachable) Connect() (relay.Connection, error) {
	return nil, &relay.Error{Class: relay.Unavailable, Unsent: true, Err: errConnectionClosed}
}
