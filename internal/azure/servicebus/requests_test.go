package servicebus

import (
	"maps"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"

	"kennel/internal/azure/requests"
	"kennel/internal/dev/devbus"
	"kennel/queue"
)

// operations returns how many operations of Service Bus were counted, by name.
// It fails if any are for another job or service.
func operations(t *testing.T, c *requests.Counter) map[string]int64 {
	t.Helper()
	counts := make(map[string]int64)
	for l, n := range c.All() {
		if l.Service != "bus" || l.Job != "signals" {
			t.Errorf("counted %+v, want bus and signals", l)
		}
		counts[l.Operation] += n
	}
	return counts
}

// TestRequests: a message counts once when it is sent and once in each process
// that receives it, also one that cannot be read; and each probe of an idle
// subscription counts. What was not sent does not count.
func TestRequests(t *testing.T) {
	withBus(t, func(t *testing.T, b *devbus.Broker) {
		counting := func() (*Signals, *requests.Counter) {
			o := inProcess(b)
			o.Requests = &requests.Counter{}
			return openSignals(t, o), o.Requests
		}
		sender, ofSender := counting()
		one, ofOne := counting()
		two, ofTwo := counting()
		first, _ := listenUp(t, one)
		second, _ := listenUp(t, two)
		mustPublish(t, sender)
		if err := sender.Queues().Publish(t.Context(), queue.Signal{Queue: "work-0"}); err != nil {
			t.Fatal(err)
		}
		_, send := openRaw(t, b)
		send(&azservicebus.Message{Body: []byte("junk")})
		await(t, time.Second, "received", func() bool { return first.hasReceived(2)() && second.hasReceived(2)() })
		if got, want := operations(t, ofSender), (map[string]int64{"send": 2}); !maps.Equal(got, want) {
			t.Errorf("the sender counted %v, want %v", got, want)
		}
		for _, c := range []*requests.Counter{ofOne, ofTwo} {
			if got, want := operations(t, c), (map[string]int64{"deliver": 3, "peek": 2}); !maps.Equal(got, want) {
				t.Errorf("a listener counted %v, want %v", got, want)
			}
		}
		time.Sleep(time.Hour)
		if got := operations(t, ofOne); got["peek"] < 120 || got["peek"] > 122 || got["deliver"] != 3 {
			t.Errorf("after an idle hour %v, want 120 peeks more", got)
		}
		b.Fail(devbus.Fault{Kind: devbus.Reject})
		if err := sender.Publish(t.Context(), release); err == nil {
			t.Fatal("published while the bus is cut off")
		}
		if got := operations(t, ofSender); got["send"] != 2 {
			t.Errorf("counted %v, want no send that failed", got)
		}
	})
}
