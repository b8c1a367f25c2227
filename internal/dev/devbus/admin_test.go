package devbus_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	sb "github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/admin"

	"kennel/internal/dev/devbus"
)

// TestSlowAdministrator checks that an administrator who stops in the middle of
// a request delays no other client, and that the broker can be closed.
func TestSlowAdministrator(t *testing.T) {
	b := devbus.New(nil)
	body, sender := io.Pipe()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPut, "https://contoso.servicebus.windows.net/q", body)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "any")
	var administering sync.WaitGroup
	administering.Go(func() {
		if answer, err := b.AdminTransport().Do(r); err == nil {
			t.Errorf("half a request was answered with %s", answer.Status)
		}
	})
	if _, err := io.WriteString(sender, "<entry>"); err != nil { // the broker reads it, and waits for more
		t.Fatal(err)
	}
	others := make(chan error, 1)
	go func() {
		err := b.CreateQueue("other", nil)
		b.Close()
		others <- err
	}()
	select {
	case err := <-others:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(30 * time.Second):
		t.Error("the broker waits for the administrator")
	}
	sender.CloseWithError(io.ErrUnexpectedEOF)
	administering.Wait()
}

// TestAccessedAt checks that clients access an entity and administrators do
// not. A subscription also counts as accessed when it is created.
func TestAccessedAt(t *testing.T) {
	onTopic(t, nil, nil, func(f *fixture) {
		f.must(f.b.CreateQueue("q", nil), "create a queue")
		adm := f.administer()
		accessed := func() (queue, topic, subscription time.Time) {
			f.Helper()
			q, err := adm.GetQueueRuntimeProperties(f.Context(), "q", nil)
			f.must(err, "get the queue")
			t, err := adm.GetTopicRuntimeProperties(f.Context(), "t", nil)
			f.must(err, "get the topic")
			s, err := adm.GetSubscriptionRuntimeProperties(f.Context(), "t", "one", nil)
			f.must(err, "get the subscription")
			return q.AccessedAt, t.AccessedAt, s.AccessedAt
		}
		created := time.Now().UTC()
		time.Sleep(time.Minute)
		_, err := adm.UpdateQueue(f.Context(), "q", admin.QueueProperties{MaxDeliveryCount: to.Ptr[int32](3)}, nil)
		f.must(err, "update the queue")
		q, topic, s := accessed()
		equal(f, "an unused queue", q, time.Time{})
		equal(f, "an unused topic", topic, time.Time{})
		equal(f, "an unused subscription", s, created)

		f.send("q", text("x"))
		f.send("t", text("x"))
		q, topic, s = accessed()
		equal(f, "a queue", q, time.Now().UTC())
		equal(f, "a topic", topic, time.Now().UTC())
		equal(f, "a subscription that was not read", s, created)

		time.Sleep(time.Minute)
		f.receiveOne(f.subscriber("one", deletes))
		_, topic, s = accessed()
		equal(f, "the topic of a subscription that was read", topic, time.Now().UTC())
		equal(f, "a subscription that was read", s, time.Now().UTC())
	})
}

// TestPremium checks the limits of messages in a premium namespace.
func TestPremium(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := devbus.New(&devbus.Options{Premium: true})
		t.Cleanup(b.Close)
		f := &fixture{T: t, b: b}
		f.client = f.dial(quick)
		adm := f.administer()
		for name, limit := range map[string]*int64{"default": nil, "large": to.Ptr[int64](3072)} {
			q, err := adm.CreateQueue(f.Context(), name, &admin.CreateQueueOptions{Properties: &admin.QueueProperties{MaxMessageSizeInKilobytes: limit}})
			f.must(err, "create a queue")
			equal(f, "limit in KB", *q.MaxMessageSizeInKilobytes, map[string]int64{"default": 1024, "large": 3072}[name])
			size := int(*q.MaxMessageSizeInKilobytes) << 10
			s := f.sender(name)
			f.must(s.SendMessage(f.Context(), &sb.Message{Body: make([]byte, size-1000)}, nil), "send")
			equal(f, "bytes received", len(f.receiveOne(f.queueReceiver(name, deletes)).Body), size-1000)
			if err := s.SendMessage(f.Context(), &sb.Message{Body: make([]byte, size)}, nil); !errors.Is(err, sb.ErrMessageTooLarge) {
				t.Errorf("send a message above the limit to %s: got %v, want ErrMessageTooLarge", name, err)
			}
		}
	})
}

// TestMessageGrows checks that a message that grew beyond the limit of senders,
// because it was dead-lettered, is received.
func TestMessageGrows(t *testing.T) {
	onQueue(t, nil, func(f *fixture) {
		f.send("q", &sb.Message{Body: make([]byte, 255<<10)})
		r := f.receiver(nil)
		reason := strings.Repeat("x", 4000)
		f.must(r.DeadLetterMessage(f.Context(), f.receiveOne(r), &sb.DeadLetterOptions{Reason: &reason}), "dead-letter")
		ms, err := f.receiver(deadLetters).ReceiveMessages(f.within(time.Minute), 1, nil)
		if err != nil || len(ms) != 1 || *ms[0].DeadLetterReason != reason {
			t.Errorf("received %d messages, error %v, want one with the reason", len(ms), err)
		}
	})
}
