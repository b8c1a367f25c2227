package devbus_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	sb "github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"

	"kennel/internal/dev/devbus"
)

// onTopic has the test on a topic with two subscriptions.
func onTopic(t *testing.T, topic, subscription *devbus.Settings, test func(*testing.T, *devbus.Broker, *sb.Client)) {
	t.Helper()
	inBubble(t, nil, func(t *testing.T, b *devbus.Broker) {
		must(t, b.CreateTopic("t", topic), "create")
		must(t, b.CreateSubscription("t", "one", subscription), "create")
		must(t, b.CreateSubscription("t", "two", subscription), "create")
		test(t, b, dial(t, b, quick))
	})
}

// Each subscription has a copy of its own: what one does to it the other does
// not see.
func TestSubscriptionsAreIndependent(t *testing.T) {
	onTopic(t, nil, nil, func(t *testing.T, b *devbus.Broker, client *sb.Client) {
		s := sender(t, client, "t")
		must(t, s.SendMessage(t.Context(), &sb.Message{Body: []byte("x"), ApplicationProperties: map[string]any{"n": int64(1)}}, nil), "send")
		one, two := subscriber(t, client, "t", "one", nil), subscriber(t, client, "t", "two", nil)
		must(t, one.AbandonMessage(t.Context(), receive(t, one, 1)[0], &sb.AbandonMessageOptions{PropertiesToModify: map[string]any{"n": int64(2)}}), "abandon")
		must(t, one.DeadLetterMessage(t.Context(), receive(t, one, 1)[0], nil), "dead-letter")
		m := receive(t, two, 1)[0]
		if m.DeliveryCount != 1 || m.ApplicationProperties["n"] != int64(1) {
			t.Errorf("the other subscription got delivery %d with n=%v", m.DeliveryCount, m.ApplicationProperties["n"])
		}
		wantCounts(t, b, "t/Subscriptions/one", devbus.Counts{DeadLetters: 1})
		wantCounts(t, b, "t/Subscriptions/two", devbus.Counts{Locked: 1})
	})
}

func TestTopicSchedulesCancelsAndDetectsDuplicates(t *testing.T) {
	onTopic(t, &devbus.Settings{DuplicateWindow: time.Minute}, nil, func(t *testing.T, b *devbus.Broker, client *sb.Client) {
		s := sender(t, client, "t")
		at := time.Now().Add(time.Hour)
		numbers, err := s.ScheduleMessages(t.Context(), []*sb.Message{text("cancelled"), text("scheduled")}, at, nil)
		must(t, err, "schedule")
		wantCounts(t, b, "t", devbus.Counts{Scheduled: 2})
		must(t, s.CancelScheduledMessages(t.Context(), numbers[:1], nil), "cancel")
		for range 2 {
			must(t, s.SendMessage(t.Context(), &sb.Message{Body: []byte("once"), MessageID: to.Ptr("m1")}, nil), "send")
		}
		r := subscriber(t, client, "t", "two", &sb.ReceiverOptions{ReceiveMode: sb.ReceiveModeReceiveAndDelete})
		if got, want := fmt.Sprint(bodies(receive(t, r, 2))), "[once scheduled]"; got != want || !time.Now().Equal(at) {
			t.Errorf("got %s at %v, want %s at %v", got, time.Now(), want, at)
		}
		if got := b.Stats().Duplicates; got != 1 {
			t.Errorf("%d duplicates were dropped, want 1", got)
		}
	})
}

func TestTopicLimitsTimeToLiveAndSize(t *testing.T) {
	onTopic(t, &devbus.Settings{TimeToLive: time.Minute, MaxBytes: 10 << 10}, nil, func(t *testing.T, b *devbus.Broker, client *sb.Client) {
		s := sender(t, client, "t")
		n := 0
		for s.SendMessage(t.Context(), &sb.Message{Body: make([]byte, 1<<10), TimeToLive: to.Ptr(time.Hour)}, nil) == nil {
			n++
		}
		if n != 4 { // in two copies each
			t.Errorf("10 KB took %d messages of a little more than 1 KB in two copies, want 4", n)
		}
		time.Sleep(61 * time.Second)
		wantCounts(t, b, "t/Subscriptions/one", devbus.Counts{})
		must(t, s.SendMessage(t.Context(), text("x"), nil), "send when there is room again")
	})
}

// Without a subscription, messages go nowhere, and that is no error.
func TestTopicWithoutSubscriptions(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, b *devbus.Broker) {
		must(t, b.CreateTopic("t", nil), "create")
		client := dial(t, b, quick)
		must(t, sender(t, client, "t").SendMessage(t.Context(), text("x"), nil), "send")
		must(t, b.CreateSubscription("t", "late", nil), "create")
		receiveNone(t, subscriber(t, client, "t", "late", nil), time.Minute)
	})
}

func TestInspection(t *testing.T) {
	onQueue(t, nil, func(t *testing.T, b *devbus.Broker, client *sb.Client) {
		must(t, sender(t, client, "q").SendMessage(t.Context(), text("x"), nil), "send")
		for _, path := range []string{"nowhere", "q/nowhere"} {
			if _, err := b.Counts(path); !errors.Is(err, devbus.ErrNotFound) {
				t.Errorf("counting %s: got %v, want ErrNotFound", path, err)
			}
		}
		rt, err := administer(t, b).GetQueueRuntimeProperties(t.Context(), "q", nil)
		if err != nil || rt.ActiveMessageCount != 1 || rt.TotalMessageCount != 1 || rt.SizeInBytes == 0 {
			t.Errorf("got runtime properties %+v, error %v", rt, err)
		}
		must(t, b.Delete("q"), "delete")
		if err := b.Delete("q"); !errors.Is(err, devbus.ErrNotFound) {
			t.Errorf("deleting it again: got %v, want ErrNotFound", err)
		}
		s := b.Stats()
		if s.Connections != 1 || s.Stored != 1 || s.Attached == 0 || b.Connections() != 1 {
			t.Errorf("the stats are %+v", s)
		}
	})
}
