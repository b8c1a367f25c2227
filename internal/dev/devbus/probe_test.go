package devbus_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	sb "github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/admin"

	"kennel/internal/dev/devbus"
)

// The probe is what an application does with the SDK. It runs in virtual time
// over a pipe, and in real time over TCP.

func TestProbeInVirtualTime(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, b *devbus.Broker) {
		probe(t, b, dial(t, b, quick), administer(t, b))
	})
}

func TestProbeOverTCP(t *testing.T) {
	b, client, adm := overTCP(t)
	probe(t, b, client, adm)
}

func probe(t *testing.T, b *devbus.Broker, client *sb.Client, adm *admin.Client) {
	ctx := within(t, time.Minute)
	probeAdministration(t, ctx, adm)
	s, r := sender(t, client, "orders"), receiver(t, client, "orders", nil)
	probeMessage(t, ctx, s, r)
	probeBatch(t, ctx, s, receiver(t, client, "orders", &sb.ReceiverOptions{ReceiveMode: sb.ReceiveModeReceiveAndDelete}))

	large := bytes.Repeat([]byte("0123456789"), 20<<10) // several frames
	must(t, s.SendMessage(ctx, &sb.Message{Body: large}, nil), "send a large message")
	m := receive(t, r, 1)[0]
	if !bytes.Equal(m.Body, large) {
		t.Errorf("got %d bytes that are not those sent", len(m.Body))
	}
	must(t, r.CompleteMessage(ctx, m, nil), "complete")
	receiveNone(t, r, 100*time.Millisecond)

	at := time.Now().Add(300 * time.Millisecond).Truncate(time.Millisecond) // as precise as AMQP is
	numbers, err := s.ScheduleMessages(ctx, []*sb.Message{text("cancelled"), text("scheduled")}, at, nil)
	must(t, err, "schedule")
	must(t, s.CancelScheduledMessages(ctx, numbers[:1], nil), "cancel")
	m = receive(t, r, 1)[0]
	if string(m.Body) != "scheduled" || time.Now().Before(at) {
		t.Errorf("got %q, %v early", m.Body, time.Until(at))
	}
	must(t, r.CompleteMessage(ctx, m, nil), "complete")
	wantCounts(t, b, "orders", devbus.Counts{})

	news := sender(t, client, "signals")
	must(t, news.SendMessage(ctx, text("to all"), nil), "publish")
	for _, name := range []string{"node1", "node2"} {
		r := subscriber(t, client, "signals", name, nil)
		m := receive(t, r, 1)[0]
		if string(m.Body) != "to all" || *m.EnqueuedSequenceNumber != 1 {
			t.Errorf("%s got %q, number %d of the topic", name, m.Body, *m.EnqueuedSequenceNumber)
		}
		must(t, r.CompleteMessage(ctx, m, nil), "complete")
	}
	must(t, client.Close(ctx), "close")

	_, err = adm.DeleteSubscription(ctx, "signals", "node2", nil)
	must(t, err, "delete a subscription")
	_, err = adm.DeleteTopic(ctx, "signals", nil)
	must(t, err, "delete a topic")
	_, err = adm.DeleteQueue(ctx, slashed, nil)
	must(t, err, "delete a queue")
	if got, want := fmt.Sprint(b.Entities()), "[orders]"; got != want {
		t.Errorf("left are %s, want %s", got, want)
	}
}

// slashed is the name of a queue with a path.
const slashed = "contoso/x-servicebus-transfer/0"

func probeAdministration(t *testing.T, ctx context.Context, adm *admin.Client) {
	t.Helper()
	created, err := adm.CreateQueue(ctx, "orders", &admin.CreateQueueOptions{Properties: &admin.QueueProperties{
		LockDuration: to.Ptr("PT30S"), MaxDeliveryCount: to.Ptr[int32](3), UserMetadata: to.Ptr("a <note> & more"),
	}})
	must(t, err, "create a queue")
	if q := created.QueueProperties; *q.LockDuration != "PT30S" || *q.MaxDeliveryCount != 3 || *q.UserMetadata != "a <note> & more" || *q.Status != admin.EntityStatusActive {
		t.Errorf("the created queue has %+v", q)
	}
	_, err = adm.CreateQueue(ctx, "Orders", nil)
	if e, ok := errors.AsType[*azcore.ResponseError](err); !ok || e.StatusCode != http.StatusConflict {
		t.Errorf("creating it again: got %v, want a conflict", err)
	}
	_, err = adm.CreateQueue(ctx, slashed, &admin.CreateQueueOptions{Properties: &admin.QueueProperties{MaxDeliveryCount: to.Ptr[int32](1<<31 - 1)}})
	must(t, err, "create a queue with slashes in its name")
	q, err := adm.GetQueue(ctx, slashed, nil)
	must(t, err, "get a queue")
	if q == nil || q.QueueName != slashed || *q.MaxDeliveryCount != 1<<31-1 {
		t.Errorf("got queue %+v", q)
	}
	if q, err := adm.GetQueue(ctx, "nowhere", nil); q != nil || err != nil {
		t.Errorf("a queue that does not exist: got %v and error %v, want neither", q, err)
	}
	if s, err := adm.GetSubscription(ctx, "nowhere", "none", nil); s != nil || err != nil {
		t.Errorf("a subscription that does not exist: got %v and error %v, want neither", s, err)
	}

	_, err = adm.CreateTopic(ctx, "signals", nil)
	must(t, err, "create a topic")
	for _, name := range []string{"node1", "node2"} {
		s, err := adm.CreateSubscription(ctx, "signals", name, &admin.CreateSubscriptionOptions{Properties: &admin.SubscriptionProperties{
			AutoDeleteOnIdle: to.Ptr("PT5M"), LockDuration: to.Ptr("PT5S"),
		}})
		must(t, err, "create a subscription")
		if *s.AutoDeleteOnIdle != "PT5M" || *s.LockDuration != "PT5S" {
			t.Errorf("the created subscription has %+v", s.SubscriptionProperties)
		}
	}
	var names []string
	for pager := adm.NewListQueuesPager(&admin.ListQueuesOptions{MaxPageSize: 1}); pager.More(); {
		page, err := pager.NextPage(ctx)
		must(t, err, "list queues")
		for _, q := range page.Queues {
			names = append(names, q.QueueName)
		}
	}
	topics, err := adm.NewListTopicsPager(nil).NextPage(ctx)
	must(t, err, "list topics")
	for _, topic := range topics.Topics {
		names = append(names, topic.TopicName)
	}
	subscriptions, err := adm.NewListSubscriptionsPager("signals", nil).NextPage(ctx)
	must(t, err, "list subscriptions")
	for _, s := range subscriptions.Subscriptions {
		names = append(names, s.SubscriptionName)
	}
	if got, want := fmt.Sprint(names), "["+slashed+" orders signals node1 node2]"; got != want {
		t.Errorf("listed %s, want %s", got, want)
	}
	rt, err := adm.GetTopicRuntimeProperties(ctx, "signals", nil)
	if err != nil || rt.SubscriptionCount != 2 {
		t.Errorf("got runtime properties %+v, error %v, want 2 subscriptions", rt, err)
	}
}

var moment = time.Date(2024, 2, 29, 12, 30, 15, 250e6, time.UTC)

func probeMessage(t *testing.T, ctx context.Context, s *sb.Sender, r *sb.Receiver) {
	t.Helper()
	properties := map[string]any{"n": int64(7), "s": "x", "b": true, "f": 1.5}
	must(t, s.SendMessage(ctx, &sb.Message{
		Body: []byte("hello"), MessageID: to.Ptr("m1"), Subject: to.Ptr("greeting"),
		ContentType: to.Ptr("text/plain"), CorrelationID: to.Ptr("c1"), TimeToLive: to.Ptr(time.Minute),
		PartitionKey: to.Ptr("p1"), ApplicationProperties: properties,
	}, nil), "send")
	m := receive(t, r, 1)[0]
	if string(m.Body) != "hello" || m.MessageID != "m1" || *m.Subject != "greeting" || *m.ContentType != "text/plain" ||
		*m.CorrelationID != "c1" || *m.TimeToLive != time.Minute || *m.PartitionKey != "p1" ||
		m.DeliveryCount != 1 || *m.SequenceNumber != 1 || m.State != sb.MessageStateActive || m.LockToken == [16]byte{} ||
		m.LockedUntil == nil || m.EnqueuedTime == nil || !maps.Equal(m.ApplicationProperties, properties) {
		t.Errorf("got message %+v", m)
	}
	must(t, r.CompleteMessage(ctx, m, nil), "complete")
}

func probeBatch(t *testing.T, ctx context.Context, s *sb.Sender, r *sb.Receiver) {
	t.Helper()
	batch, err := s.NewMessageBatch(ctx, nil)
	must(t, err, "new batch")
	for i := range 500 {
		must(t, batch.AddMessage(text(strconv.Itoa(i)), nil), "add %d", i)
	}
	must(t, s.SendMessageBatch(ctx, batch, nil), "send a batch")
	for i, m := range receive(t, r, 500) {
		if string(m.Body) != strconv.Itoa(i) {
			t.Fatalf("message %d is %q", i, m.Body)
		}
	}
}
