package devbus_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	sb "github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/admin"

	"kennel/internal/dev/devbus"
)

// A subscription that is to be deleted after 5 idle minutes, on a topic that
// is busy all the time, and what keeps it alive for half an hour.
func TestSubscriptionIsDeletedWhenIdle(t *testing.T) {
	nothing := func(*testing.T, *sb.Client, *admin.Client) {}
	for _, tt := range []struct {
		name  string
		keep  func(*testing.T, *sb.Client, *admin.Client) // called once, then every minute
		again bool
		lives bool
	}{
		{"no receiver", nothing, false, false},
		{"a receiver that waits", func(t *testing.T, c *sb.Client, _ *admin.Client) {
			r := subscriber(t, c, "t", "s", &sb.ReceiverOptions{ReceiveMode: sb.ReceiveModeReceiveAndDelete})
			go func() {
				for {
					if _, err := r.ReceiveMessages(context.Background(), 5000, nil); err != nil {
						return
					}
				}
			}()
		}, false, true},
		{"a receiver that is attached, without credit", func(t *testing.T, c *sb.Client, _ *admin.Client) {
			_, err := subscriber(t, c, "t", "s", nil).PeekMessages(t.Context(), 1, nil)
			must(t, err, "peek")
		}, false, false},
		{"peeking every minute", func(t *testing.T, c *sb.Client, _ *admin.Client) {
			r := subscriber(t, c, "t", "s", nil)
			_, err := r.PeekMessages(t.Context(), 1, nil)
			must(t, err, "peek")
			must(t, r.Close(t.Context()), "close")
		}, true, true},
		{"updates", func(t *testing.T, _ *sb.Client, a *admin.Client) {
			_, err := a.UpdateSubscription(t.Context(), "t", "s", admin.SubscriptionProperties{AutoDeleteOnIdle: to.Ptr("PT5M")}, nil)
			must(t, err, "update")
		}, true, true},
		{"an administrator who reads it", func(t *testing.T, _ *sb.Client, a *admin.Client) {
			_, err := a.GetSubscriptionRuntimeProperties(t.Context(), "t", "s", nil)
			must(t, err, "get")
		}, false, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, nil, func(t *testing.T, b *devbus.Broker) {
				adm := administer(t, b)
				must(t, b.CreateTopic("t", nil), "create")
				_, err := adm.CreateSubscription(t.Context(), "t", "s", &admin.CreateSubscriptionOptions{
					Properties: &admin.SubscriptionProperties{AutoDeleteOnIdle: to.Ptr("PT5M")},
				})
				must(t, err, "create")
				client := dial(t, b, quick)
				s := sender(t, client, "t")
				tt.keep(t, client, adm)
				for range 30 {
					must(t, s.SendMessage(t.Context(), text("news"), nil), "send")
					time.Sleep(time.Minute)
					if tt.again {
						tt.keep(t, client, adm)
					}
				}
				got := fmt.Sprint(b.Entities())
				if want := map[bool]string{true: "[t t/Subscriptions/s]", false: "[t]"}[tt.lives]; got != want {
					t.Errorf("after half an hour there are %s, want %s", got, want)
				}
			})
		})
	}
}

func TestQueueIsDeletedWhenIdle(t *testing.T) {
	for _, tt := range []struct {
		name  string
		use   func(*testing.T, *sb.Sender) error
		lives time.Duration
	}{
		{"empty", func(*testing.T, *sb.Sender) error { return nil }, 5 * time.Minute},
		{"a message", func(t *testing.T, s *sb.Sender) error {
			return s.SendMessage(t.Context(), text("x"), nil)
		}, 5 * time.Minute},
		{"a scheduled message", func(t *testing.T, s *sb.Sender) error {
			_, err := s.ScheduleMessages(t.Context(), []*sb.Message{text("x")}, time.Now().Add(time.Hour), nil)
			return err
		}, time.Hour + 5*time.Minute},
	} {
		onQueue(t, &devbus.Settings{AutoDeleteOnIdle: 5 * time.Minute}, func(t *testing.T, b *devbus.Broker, client *sb.Client) {
			must(t, tt.use(t, sender(t, client, "q")), "use")
			time.Sleep(tt.lives - 10*time.Second)
			if got := len(b.Entities()); got != 1 {
				t.Errorf("%s: the queue was deleted too early", tt.name)
			}
			time.Sleep(5*time.Minute + 20*time.Second)
			if got := len(b.Entities()); got != 0 {
				t.Errorf("%s: the queue still exists", tt.name)
			}
		})
	}
}

// A topic lives as long as any of its subscriptions is used.
func TestTopicIsDeletedWhenIdle(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, b *devbus.Broker) {
		must(t, b.CreateTopic("t", &devbus.Settings{AutoDeleteOnIdle: 5 * time.Minute}), "create")
		must(t, b.CreateSubscription("t", "s", nil), "create")
		client := dial(t, b, quick)
		r := subscriber(t, client, "t", "s", nil)
		receiveNone(t, r, time.Hour)
		must(t, r.Close(t.Context()), "close")
		time.Sleep(4 * time.Minute)
		if got := len(b.Entities()); got != 2 {
			t.Errorf("%d entities are left, want both", got)
		}
		time.Sleep(2 * time.Minute)
		if got := len(b.Entities()); got != 0 {
			t.Errorf("%d entities are left, want none", got)
		}
	})
}
