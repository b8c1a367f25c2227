package devbus_test

import (
	"bytes"
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
	"kennel/internal/storetest"
)

// TestOverTCP performs the basic operations of an application in real time,
// over TCP.
func TestOverTCP(t *testing.T) {
	b, err := devbus.Listen(nil)
	f := &fixture{T: t, b: b.Broker}
	f.must(err, "listen")
	defer b.Close()
	f.client, err = sb.NewClientFromConnectionString(b.ConnectionString(), &sb.ClientOptions{RetryOptions: quick})
	f.must(err, "connect")
	adm, ctx := f.administer(), f.Context()
	probeAdministration(f, adm)
	probeMessage(f, f.sender("orders"), f.queueReceiver("orders", nil))
	probeBatches(f, f.sender("orders"), f.queueReceiver("orders", deletes))
	f.counts("orders", devbus.Counts{})
	f.must(f.client.Close(ctx), "close")

	_, err = adm.DeleteSubscription(ctx, "t", "two", nil)
	f.must(err, "delete a subscription")
	_, err = adm.DeleteTopic(ctx, "t", nil)
	f.must(err, "delete a topic")
	_, err = adm.DeleteQueue(ctx, slashed, nil)
	f.must(err, "delete a queue")
	equal(f, "entities left", fmt.Sprint(f.b.Entities()), "[orders]")
}

// slashed is the name of a queue with a path.
const slashed = "contoso/x-servicebus-transfer/0"

func probeAdministration(f *fixture, adm *admin.Client) {
	ctx := f.Context()
	created, err := adm.CreateQueue(ctx, "orders", &admin.CreateQueueOptions{Properties: &admin.QueueProperties{
		LockDuration: to.Ptr("PT30S"), MaxDeliveryCount: to.Ptr[int32](3), UserMetadata: to.Ptr("a <text> & more"),
	}})
	f.must(err, "create a queue")
	if q := created.QueueProperties; *q.LockDuration != "PT30S" || *q.MaxDeliveryCount != 3 || *q.UserMetadata != "a <text> & more" || *q.Status != admin.EntityStatusActive {
		f.Errorf("the created queue has %+v", q)
	}
	_, err = adm.CreateQueue(ctx, "Orders", nil)
	if e, ok := errors.AsType[*azcore.ResponseError](err); !ok || e.StatusCode != http.StatusConflict {
		f.Errorf("create a queue twice: got %v, want a conflict", err)
	}
	_, err = adm.CreateQueue(ctx, slashed, &admin.CreateQueueOptions{Properties: &admin.QueueProperties{MaxDeliveryCount: to.Ptr[int32](1<<31 - 1)}})
	f.must(err, "create a queue with slashes in its name")
	q, err := adm.GetQueue(ctx, slashed, nil)
	if err != nil || q == nil || q.QueueName != slashed || *q.MaxDeliveryCount != 1<<31-1 {
		f.Errorf("got queue %+v, error %v", q, err)
	}
	q, err = adm.GetQueue(ctx, "missing", nil)
	s, err2 := adm.GetSubscription(ctx, "missing", "missing", nil)
	if q != nil || s != nil || err != nil || err2 != nil {
		f.Errorf("entities that do not exist: got %v, %v and errors %v, %v, want none", q, s, err, err2)
	}

	_, err = adm.CreateTopic(ctx, "t", nil)
	f.must(err, "create a topic")
	for _, name := range []string{"one", "two"} {
		s, err := adm.CreateSubscription(ctx, "t", name, &admin.CreateSubscriptionOptions{Properties: &admin.SubscriptionProperties{
			AutoDeleteOnIdle: to.Ptr("PT5M"), LockDuration: to.Ptr("PT5S"),
		}})
		if err != nil || *s.AutoDeleteOnIdle != "PT5M" || *s.LockDuration != "PT5S" {
			f.Errorf("the created subscription is %+v, error %v", s, err)
		}
	}
	var names []string
	for pager := adm.NewListQueuesPager(&admin.ListQueuesOptions{MaxPageSize: 1}); pager.More(); {
		page, err := pager.NextPage(ctx)
		f.must(err, "list queues")
		for _, q := range page.Queues {
			names = append(names, q.QueueName)
		}
	}
	topics, err := adm.NewListTopicsPager(nil).NextPage(ctx)
	f.must(err, "list topics")
	for _, topic := range topics.Topics {
		names = append(names, topic.TopicName)
	}
	subscriptions, err := adm.NewListSubscriptionsPager("t", nil).NextPage(ctx)
	f.must(err, "list subscriptions")
	for _, s := range subscriptions.Subscriptions {
		names = append(names, s.SubscriptionName)
	}
	equal(f, "listed", fmt.Sprint(names), "["+slashed+" orders t one two]")
	rt, err := adm.GetTopicRuntimeProperties(ctx, "t", nil)
	f.must(err, "get runtime properties")
	equal(f, "subscriptions", rt.SubscriptionCount, 2)
}

func probeMessage(f *fixture, s *sb.Sender, r *sb.Receiver) {
	body := bytes.Repeat([]byte("0123456789"), 20<<10) // several frames
	properties := map[string]any{"n": int64(7), "s": "x", "b": true, "f": 1.5}
	f.must(s.SendMessage(f.Context(), &sb.Message{
		Body: body, MessageID: to.Ptr("m1"), Subject: to.Ptr("greeting"), TimeToLive: to.Ptr(time.Minute),
		PartitionKey: to.Ptr("p1"), ApplicationProperties: properties,
	}, nil), "send")
	m := f.receiveOne(r)
	if !bytes.Equal(m.Body, body) || m.MessageID != "m1" || *m.Subject != "greeting" || *m.TimeToLive != time.Minute || *m.PartitionKey != "p1" ||
		m.DeliveryCount != 1 || *m.SequenceNumber != 1 || m.State != sb.MessageStateActive || m.LockToken == [16]byte{} ||
		m.LockedUntil == nil || m.EnqueuedTime == nil || !maps.Equal(m.ApplicationProperties, properties) {
		f.Errorf("got %d bytes in message %+v", len(m.Body), m.RawAMQPMessage.Properties)
	}
	f.complete(r, m)
	f.receiveNone(r, 100*time.Millisecond)
}

// probeBatches sends more messages than fit into a window of the SDK.
func probeBatches(f *fixture, s *sb.Sender, r *sb.Receiver) {
	n := storetest.Scale(6_000, 12_000)
	for i := 0; i < n; {
		batch, err := s.NewMessageBatch(f.Context(), nil)
		f.must(err, "new batch")
		for ; i < n && batch.AddMessage(text(strconv.Itoa(i)), nil) == nil; i++ {
		}
		f.must(s.SendMessageBatch(f.Context(), batch, nil), "send a batch")
	}
	for got := 0; got < n; {
		for _, m := range f.receive(r, min(5000, n-got)) {
			if string(m.Body) != strconv.Itoa(got) {
				f.Fatalf("message %d is %q", got, m.Body)
			}
			got++
		}
	}
}
