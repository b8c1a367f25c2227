package servicebus

import (
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"

	"kennel/gate"
	"kennel/internal/control"
	"kennel/internal/dev/devbus"
	"kennel/queue"
)

// queueRecorder is a handler of queue signals that records its calls.
type queueRecorder struct {
	recorder
	signals []queue.Signal // guarded by mu
}

func (r *queueRecorder) Received(s queue.Signal) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.signals = append(r.signals, s)
}

func (r *queueRecorder) all() []queue.Signal {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.signals)
}

// TestQueueSignals: gates and queues of a process share a subscription, each
// receives its own signals, and both receive what cannot be read. The
// subscription ends with the last of them.
func TestQueueSignals(t *testing.T) {
	withBus(t, func(t *testing.T, b *devbus.Broker) {
		s := openSignals(t, inProcess(b))
		ofGates, stopGates := listenUp(t, s)
		ofQueues := &queueRecorder{}
		var listening sync.WaitGroup
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		listening.Go(func() {
			if err := s.Queues().Listen(ctx, ofQueues); err != nil {
				t.Error(err)
			}
		})
		ofPauses := &pauseRecorder{}
		listening.Go(func() {
			if err := s.Control().Listen(ctx, ofPauses); err != nil {
				t.Error(err)
			}
		})
		await(t, 10*time.Millisecond, "up, as the connection exists", func() bool { return ofQueues.isUp() && ofPauses.ups.Load() > 0 })
		if names := subscriptions(b); len(names) != 1 {
			t.Errorf("subscriptions %q, want one of the process", names)
		}

		// From another process, as every signal.
		other := openSignals(t, inProcess(b))
		work, awake := queue.Signal{Queue: "work-0"}, queue.Signal{Queue: "work-0", Kind: queue.Awake}
		for _, signal := range []queue.Signal{work, awake} {
			if err := other.Queues().Publish(t.Context(), signal); err != nil {
				t.Fatal(err)
			}
		}
		if err := other.Control().Publish(t.Context(), control.Signal{}); err != nil {
			t.Fatal(err)
		}
		mustPublish(t, other)
		_, send := openRaw(t, b)
		send(&azservicebus.Message{Body: []byte("junk")})
		await(t, time.Second, "received", ofGates.hasReceived(2))
		if got, want := ofGates.read().received, []gate.Signal{release, {}}; !slices.Equal(got, want) {
			t.Errorf("gates received %+v, want %+v", got, want)
		}
		if got, want := ofQueues.all(), []queue.Signal{work, awake, {}}; !slices.Equal(got, want) {
			t.Errorf("queues received %+v, want %+v", got, want)
		}

		if n := ofPauses.received.Load(); n != 2 { // its own, and the one that cannot be read
			t.Errorf("pauses received %d signals, want 2", n)
		}

		b.DropConnections()
		await(t, time.Minute, "up again", func() bool {
			return ofQueues.read().ups == 2 && ofGates.read().ups == 2
		})

		stopGates()
		if err := other.Queues().Publish(t.Context(), work); err != nil {
			t.Fatal(err)
		}
		await(t, time.Second, "received by the one that remains", func() bool { return len(ofQueues.all()) == 4 })
		stop()
		listening.Wait()
		if names := subscriptions(b); len(names) != 0 {
			t.Errorf("subscriptions %q, want none after both have stopped", names)
		}
	})
}

// pauseRecorder counts signals of pauses.
type pauseRecorder struct{ ups, received atomic.Int64 }

func (r *pauseRecorder) Up()                     { r.ups.Add(1) }
func (r *pauseRecorder) Down(error)              {}
func (r *pauseRecorder) Received(control.Signal) { r.received.Add(1) }

// The longest signal of a queue is read back.
func TestQueueMessage(t *testing.T) {
	long := strings.Repeat("q", 63)
	m := message{Version: messageVersion, Queue: long, Kind: kindAwake}
	body := newMessage(m).Body
	if want := `{"v":1,"queue":"` + long + `","kind":"awake"}`; string(body) != want {
		t.Errorf("the format has changed: %s", body)
	}
	if got := decode(body); got != m {
		t.Errorf("read back %+v, want %+v", got, m)
	}
}
