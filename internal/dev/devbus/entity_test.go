package devbus_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	sb "github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/admin"

	"kennel/internal/dev/devbus"
)

// TestSubscriptionsAreIndependent checks that each subscription has its own
// copy of a message.
func TestSubscriptionsAreIndependent(t *testing.T) {
	onTopic(t, nil, nil, func(f *fixture) {
		f.send("t", &sb.Message{Body: []byte("x"), ApplicationProperties: map[string]any{"n": int64(1)}})
		one, two := f.subscriber("one", nil), f.subscriber("two", nil)
		f.must(one.AbandonMessage(f.Context(), f.receiveOne(one), &sb.AbandonMessageOptions{PropertiesToModify: map[string]any{"n": int64(2)}}), "abandon")
		f.must(one.DeadLetterMessage(f.Context(), f.receiveOne(one), nil), "dead-letter")
		m := f.receiveOne(two)
		equal(f, "sequence number in the topic", *m.EnqueuedSequenceNumber, 1)
		equal(f, "delivery", m.DeliveryCount, 1)
		equal(f, "property", m.ApplicationProperties["n"], any(int64(1)))
		f.counts("t/Subscriptions/one", devbus.Counts{DeadLetters: 1})
		f.counts("t/Subscriptions/two", devbus.Counts{Locked: 1})
	})
}

func TestTopicSchedulesCancelsAndDetectsDuplicates(t *testing.T) {
	onTopic(t, &devbus.Settings{DuplicateWindow: time.Minute}, nil, func(f *fixture) {
		s := f.sender("t")
		at := time.Now().Add(time.Hour)
		numbers, err := s.ScheduleMessages(f.Context(), []*sb.Message{text("cancelled"), text("scheduled")}, at, nil)
		f.must(err, "schedule")
		f.counts("t", devbus.Counts{Scheduled: 2})
		f.must(s.CancelScheduledMessages(f.Context(), numbers[:1], nil), "cancel")
		f.fails("cancel twice", s.CancelScheduledMessages(f.Context(), numbers[:1], nil), sb.CodeNotFound)
		once := &sb.Message{Body: []byte("once"), MessageID: to.Ptr("m1")}
		f.send("t", once, once)
		equal(f, "messages", bodies(f.receive(f.subscriber("two", deletes), 2)), "[once scheduled]")
		equal(f, "received late by", time.Since(at), 0)
		equal(f, "duplicates", f.b.Stats().Duplicates, 1)
	})
}

func TestTopicLimitsTimeToLiveAndSize(t *testing.T) {
	onTopic(t, &devbus.Settings{TimeToLive: time.Minute, MaxBytes: 10 << 10}, nil, func(f *fixture) {
		s, m := f.sender("t"), &sb.Message{Body: make([]byte, 1<<10), TimeToLive: to.Ptr(time.Hour)}
		for range 4 { // messages of a little more than 1 KB, in two copies
			f.must(s.SendMessage(f.Context(), m, nil), "send")
		}
		if s.SendMessage(f.Context(), m, nil) == nil {
			t.Error("a topic of 10 KB holds ten messages of more than 1 KB")
		}
		time.Sleep(61 * time.Second)
		f.counts("t/Subscriptions/one", devbus.Counts{})
		f.must(s.SendMessage(f.Context(), m, nil), "send after the messages expired")
	})
}

func TestInspection(t *testing.T) {
	onQueue(t, nil, func(f *fixture) {
		f.send("q", text("x"))
		rt, err := f.administer().GetQueueRuntimeProperties(f.Context(), "q", nil)
		if err != nil || rt.ActiveMessageCount != 1 || rt.TotalMessageCount != 1 || rt.SizeInBytes == 0 {
			t.Errorf("got runtime properties %+v, error %v", rt, err)
		}
		equal(f, "connections", f.b.Connections(), 1)
		f.must(f.b.Delete("q"), "delete")
		_, err = f.b.Counts("q")
		for _, err := range []error{err, f.b.Delete("q"), f.b.CreateSubscription("q", "s", nil)} {
			equal(f, "ErrNotFound of a deleted queue", errors.Is(err, devbus.ErrNotFound), true)
		}
	})
}

// TestMissingEntities checks that the token for an entity that does not exist
// is refused, which the SDK reports with an error of its own. The error names
// the URI of the entity.
func TestMissingEntities(t *testing.T) {
	onTopic(t, nil, nil, func(f *fixture) {
		receiving := func(r *sb.Receiver) error {
			_, err := r.ReceiveMessages(f.Context(), 1, nil)
			return err
		}
		_, accepting := f.client.AcceptNextSessionForQueue(f.Context(), "Sessions", nil)
		for entity, err := range map[string]error{
			"nope":                  f.sender("nope").SendMessage(f.Context(), text("x"), nil),
			"a/b":                   receiving(f.queueReceiver("a/b", nil)),
			"dead/$DeadLetterQueue": receiving(f.queueReceiver("dead", deadLetters)),
			"t/Subscriptions/s":     receiving(f.subscriber("s", nil)),
			"Sessions":              accepting,
		} {
			f.fails(entity, err, sb.CodeNotFound)
			want := "The messaging entity 'sb://contoso.servicebus.windows.net/" + entity + "' could not be found."
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: got %v, want %s", entity, err, want)
			}
		}
	})
}

func TestExpiredSignature(t *testing.T) {
	onQueue(t, nil, func(f *fixture) {
		signature := fmt.Sprintf("SharedAccessSignature sr=x&sig=x&se=%d&skn=k", time.Now().Add(-time.Minute).Unix())
		client, err := sb.NewClientFromConnectionString("Endpoint=sb://contoso.servicebus.windows.net/;SharedAccessSignature="+signature, &sb.ClientOptions{
			NewWebSocketConn: func(context.Context, sb.NewWebSocketConnArgs) (net.Conn, error) { return f.b.Dial(), nil },
		})
		f.must(err, "connect")
		defer client.Close(f.Context())
		f.client = client
		f.fails("send", f.sender("q").SendMessage(f.Context(), text("x"), nil), sb.CodeUnauthorizedAccess)
	})
}

// TestSubscriptionIsDeletedWhenIdle checks that a subscription that is idle for
// 5 minutes is deleted, although its topic is busy.
func TestSubscriptionIsDeletedWhenIdle(t *testing.T) {
	for _, tt := range []struct {
		name   string
		once   func(*fixture)
		minute func(*fixture, *admin.Client) error // called every minute
		lives  bool
	}{
		{name: "no receiver"},
		{name: "a receiver that waits", lives: true, once: func(f *fixture) {
			r := f.subscriber("s", deletes)
			go func() {
				for err := error(nil); err == nil; {
					_, err = r.ReceiveMessages(context.Background(), 5000, nil)
				}
			}()
		}},
		{name: "a receiver without credit", once: func(f *fixture) {
			_, err := f.subscriber("s", nil).PeekMessages(f.Context(), 1, nil)
			f.must(err, "peek")
		}},
		{name: "peeking", lives: true, minute: func(f *fixture, _ *admin.Client) error {
			r := f.subscriber("s", nil)
			defer r.Close(f.Context())
			_, err := r.PeekMessages(f.Context(), 1, nil)
			return err
		}},
		{name: "updates", lives: true, minute: func(f *fixture, a *admin.Client) error {
			_, err := a.UpdateSubscription(f.Context(), "t", "s", admin.SubscriptionProperties{AutoDeleteOnIdle: to.Ptr("PT5M")}, nil)
			return err
		}},
		{name: "reading its properties", minute: func(f *fixture, a *admin.Client) error {
			_, err := a.GetSubscriptionRuntimeProperties(f.Context(), "t", "s", nil)
			return err
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(f *fixture) {
				adm := f.administer()
				f.must(f.b.CreateTopic("t", nil), "create")
				f.must(f.b.CreateSubscription("t", "s", &devbus.Settings{AutoDeleteOnIdle: 5 * time.Minute}), "create")
				if tt.once != nil {
					tt.once(f)
				}
				s := f.sender("t")
				for range 30 {
					f.must(s.SendMessage(f.Context(), text("news"), nil), "send")
					time.Sleep(time.Minute)
					if tt.minute != nil {
						f.must(tt.minute(f, adm), "every minute")
					}
				}
				want := map[bool]string{true: "[t t/Subscriptions/s]", false: "[t]"}[tt.lives]
				equal(f, "entities after half an hour", fmt.Sprint(f.b.Entities()), want)
			})
		})
	}
}

func TestQueueIsDeletedWhenIdle(t *testing.T) {
	for name, tt := range map[string]struct {
		use   func(*fixture) error
		lives time.Duration
	}{
		"empty":     {func(*fixture) error { return nil }, 5 * time.Minute},
		"a message": {func(f *fixture) error { return f.sender("q").SendMessage(f.Context(), text("x"), nil) }, 5 * time.Minute},
		"a scheduled message": {func(f *fixture) error {
			_, err := f.sender("q").ScheduleMessages(f.Context(), []*sb.Message{text("x")}, time.Now().Add(time.Hour), nil)
			return err
		}, time.Hour + 5*time.Minute},
	} {
		onQueue(t, &devbus.Settings{AutoDeleteOnIdle: 5 * time.Minute}, func(f *fixture) {
			f.must(tt.use(f), name)
			time.Sleep(tt.lives - 10*time.Second)
			equal(f, name+", entities before", len(f.b.Entities()), 1)
			time.Sleep(5*time.Minute + 20*time.Second)
			equal(f, name+", entities after", len(f.b.Entities()), 0)
		})
	}
}

// TestTopicIsDeletedWhenIdle checks that a use of a subscription is a use of
// its topic.
func TestTopicIsDeletedWhenIdle(t *testing.T) {
	onTopic(t, &devbus.Settings{AutoDeleteOnIdle: 5 * time.Minute}, nil, func(f *fixture) {
		r := f.subscriber("one", nil)
		f.receiveNone(r, time.Hour)
		f.must(r.Close(f.Context()), "close")
		time.Sleep(4 * time.Minute)
		equal(f, "entities after 4 idle minutes", len(f.b.Entities()), 3)
		time.Sleep(2 * time.Minute)
		equal(f, "entities after 6 idle minutes", len(f.b.Entities()), 0)
	})
}
