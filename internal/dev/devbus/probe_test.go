package devbus_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
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

// The probe goes once through everything an application does with the SDK, in
// steps that build on each other. The same steps run in virtual time over a
// pipe, and in real time over TCP.

func TestProbeInVirtualTime(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, b *devbus.Broker) {
		client := dial(t, b, quick)
		probe(t, b, client, administer(t, b), func() { time.Sleep(time.Second) })
	})
}

func TestProbeOverTCP(t *testing.T) {
	b, client, adm := overTCP(t)
	probe(t, b, client, adm, func() {}) // it passes by itself
}

func probe(t *testing.T, b *devbus.Broker, client *sb.Client, adm *admin.Client, passTime func()) {
	const queue = "orders"
	p := &prober{b: b, client: client, adm: adm, passTime: passTime}
	for _, step := range []struct {
		name string
		do   func(*testing.T, context.Context)
	}{
		{"create a queue", p.createQueue},
		{"create it again", p.createAgain},
		{"a queue with slashes in its name", p.slashes},
		{"get a queue that is not there", p.getNothing},
		{"create a topic with two subscriptions", p.createTopic},
		{"list queues", p.listQueues},
		{"list subscriptions", p.listSubscriptions},
		{"send", p.send},
		{"receive and complete", p.receiveAndComplete},
		{"receive from an empty queue", p.receiveEmpty},
		{"abandon", p.abandon},
		{"dead-letter", p.deadLetter},
		{"renew a lock", p.renew},
		{"a lock runs out", p.lockRunsOut},
		{"a batch, received and deleted", p.batch},
		{"a message of several frames", p.large},
		{"peek", p.peek},
		{"schedule and cancel", p.schedule},
		{"defer", p.deferMessage},
		{"settle by lock token alone", p.settleByToken},
		{"fan out", p.fanOut},
		{"delete", p.deleteAll},
		{"close", p.close},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		if p.sender == nil {
			p.sender = sender(t, client, queue)
			p.receiver = receiver(t, client, queue, nil)
		}
		step.do(t, ctx)
		cancel()
		if t.Failed() {
			t.Fatalf("failed at step %q", step.name)
		}
	}
}

type prober struct {
	b        *devbus.Broker
	client   *sb.Client
	adm      *admin.Client
	passTime func()
	sender   *sb.Sender
	receiver *sb.Receiver
}

func (p *prober) createQueue(t *testing.T, ctx context.Context) {
	r, err := p.adm.CreateQueue(ctx, "orders", &admin.CreateQueueOptions{Properties: &admin.QueueProperties{
		LockDuration: to.Ptr("PT30S"), MaxDeliveryCount: to.Ptr[int32](3), UserMetadata: to.Ptr("a <note> & more"),
	}})
	must(t, err, "create")
	if *r.LockDuration != "PT30S" || *r.MaxDeliveryCount != 3 || *r.UserMetadata != "a <note> & more" || *r.Status != admin.EntityStatusActive {
		t.Errorf("the created queue has %+v", r.QueueProperties)
	}
}

func (p *prober) createAgain(t *testing.T, ctx context.Context) {
	_, err := p.adm.CreateQueue(ctx, "Orders", nil)
	if e, ok := errors.AsType[*azcore.ResponseError](err); !ok || e.StatusCode != http.StatusConflict {
		t.Errorf("got %v, want a conflict", err)
	}
}

func (p *prober) slashes(t *testing.T, ctx context.Context) {
	const name = "contoso/x-servicebus-transfer/0"
	_, err := p.adm.CreateQueue(ctx, name, &admin.CreateQueueOptions{Properties: &admin.QueueProperties{MaxDeliveryCount: to.Ptr[int32](1<<31 - 1)}})
	must(t, err, "create")
	q, err := p.adm.GetQueue(ctx, name, nil)
	must(t, err, "get")
	if q == nil || q.QueueName != name || *q.MaxDeliveryCount != 1<<31-1 {
		t.Errorf("got queue %+v", q)
	}
	s := sender(t, p.client, name)
	defer s.Close(ctx)
	must(t, s.SendMessage(ctx, text("backlog"), nil), "send")
	rt, err := p.adm.GetQueueRuntimeProperties(ctx, name, nil)
	must(t, err, "get runtime properties")
	if rt.ActiveMessageCount != 1 || rt.TotalMessageCount != 1 || rt.SizeInBytes == 0 {
		t.Errorf("got runtime properties %+v", rt.QueueRuntimeProperties)
	}
}

func (p *prober) getNothing(t *testing.T, ctx context.Context) {
	if q, err := p.adm.GetQueue(ctx, "nowhere", nil); q != nil || err != nil {
		t.Errorf("got %v and error %v, want neither", q, err)
	}
	if s, err := p.adm.GetSubscription(ctx, "nowhere", "none", nil); s != nil || err != nil {
		t.Errorf("got %v and error %v, want neither", s, err)
	}
}

func (p *prober) createTopic(t *testing.T, ctx context.Context) {
	_, err := p.adm.CreateTopic(ctx, "signals", nil)
	must(t, err, "create topic")
	for _, name := range []string{"node1", "node2"} {
		s, err := p.adm.CreateSubscription(ctx, "signals", name, &admin.CreateSubscriptionOptions{Properties: &admin.SubscriptionProperties{
			AutoDeleteOnIdle: to.Ptr("PT5M"), LockDuration: to.Ptr("PT5S"),
		}})
		must(t, err, "create subscription")
		if *s.AutoDeleteOnIdle != "PT5M" || *s.LockDuration != "PT5S" {
			t.Errorf("the created subscription has %+v", s.SubscriptionProperties)
		}
	}
}

func (p *prober) listQueues(t *testing.T, ctx context.Context) {
	var names []string
	for pager := p.adm.NewListQueuesPager(&admin.ListQueuesOptions{MaxPageSize: 1}); pager.More(); {
		page, err := pager.NextPage(ctx)
		must(t, err, "next page")
		for _, q := range page.Queues {
			names = append(names, q.QueueName)
		}
	}
	if got, want := fmt.Sprint(names), "[contoso/x-servicebus-transfer/0 orders]"; got != want {
		t.Errorf("listed %s, want %s", got, want)
	}
}

func (p *prober) listSubscriptions(t *testing.T, ctx context.Context) {
	var names []string
	for pager := p.adm.NewListSubscriptionsPager("signals", nil); pager.More(); {
		page, err := pager.NextPage(ctx)
		must(t, err, "next page")
		for _, s := range page.Subscriptions {
			names = append(names, s.SubscriptionName)
		}
	}
	if got, want := fmt.Sprint(names), "[node1 node2]"; got != want {
		t.Errorf("listed %s, want %s", got, want)
	}
	topics, err := p.adm.NewListTopicsPager(nil).NextPage(ctx)
	must(t, err, "list topics")
	if len(topics.Topics) != 1 || topics.Topics[0].TopicName != "signals" {
		t.Errorf("listed topics %+v, want signals", topics.Topics)
	}
	rt, err := p.adm.GetTopicRuntimeProperties(ctx, "signals", nil)
	must(t, err, "get runtime properties")
	if rt.SubscriptionCount != 2 {
		t.Errorf("the topic has %d subscriptions, want 2", rt.SubscriptionCount)
	}
}

var moment = time.Date(2024, 2, 29, 12, 30, 15, 250e6, time.UTC)

func (p *prober) send(t *testing.T, ctx context.Context) {
	must(t, p.sender.SendMessage(ctx, &sb.Message{
		Body: []byte("hello"), MessageID: to.Ptr("m1"), Subject: to.Ptr("greeting"),
		ContentType: to.Ptr("text/plain"), CorrelationID: to.Ptr("c1"), TimeToLive: to.Ptr(time.Minute),
		PartitionKey:          to.Ptr("p1"),
		ApplicationProperties: map[string]any{"n": int64(7), "s": "x", "b": true, "f": 1.5, "t": moment},
	}, nil), "send")
}

func (p *prober) receiveAndComplete(t *testing.T, ctx context.Context) {
	m := receive(t, p.receiver, 1)[0]
	if string(m.Body) != "hello" || m.MessageID != "m1" || *m.Subject != "greeting" || *m.ContentType != "text/plain" ||
		*m.CorrelationID != "c1" || *m.TimeToLive != time.Minute || *m.PartitionKey != "p1" {
		t.Errorf("got message %+v", m)
	}
	if m.DeliveryCount != 1 || *m.SequenceNumber != 1 || m.State != sb.MessageStateActive || m.LockToken == [16]byte{} || m.LockedUntil == nil || m.EnqueuedTime == nil {
		t.Errorf("got message %+v", m)
	}
	for name, want := range map[string]any{"n": int64(7), "s": "x", "b": true, "f": 1.5} {
		if got := m.ApplicationProperties[name]; got != want {
			t.Errorf("property %s is %T %[2]v, want %T %[3]v", name, got, want)
		}
	}
	if got := m.ApplicationProperties["t"].(time.Time); !got.Equal(moment) {
		t.Errorf("property t is %v, want %v", got, moment)
	}
	must(t, p.receiver.CompleteMessage(ctx, m, nil), "complete")
	wantCounts(t, p.b, "orders", devbus.Counts{})
}

func (p *prober) receiveEmpty(t *testing.T, _ context.Context) {
	receiveNone(t, p.receiver, 300*time.Millisecond)
}

func (p *prober) abandon(t *testing.T, ctx context.Context) {
	must(t, p.sender.SendMessage(ctx, text("again"), nil), "send")
	must(t, p.receiver.AbandonMessage(ctx, receive(t, p.receiver, 1)[0], &sb.AbandonMessageOptions{
		PropertiesToModify: map[string]any{"tried": "once"},
	}), "abandon")
	m := receive(t, p.receiver, 1)[0]
	if m.DeliveryCount != 2 || m.ApplicationProperties["tried"] != "once" {
		t.Errorf("got delivery %d with properties %v", m.DeliveryCount, m.ApplicationProperties)
	}
	must(t, p.receiver.CompleteMessage(ctx, m, nil), "complete")
}

func (p *prober) deadLetter(t *testing.T, ctx context.Context) {
	must(t, p.sender.SendMessage(ctx, text("dead"), nil), "send")
	must(t, p.receiver.DeadLetterMessage(ctx, receive(t, p.receiver, 1)[0], &sb.DeadLetterOptions{
		Reason: to.Ptr("why"), ErrorDescription: to.Ptr("because"), PropertiesToModify: map[string]any{"by": "me"},
	}), "dead-letter")
	wantCounts(t, p.b, "orders", devbus.Counts{DeadLetters: 1})
	dead := receiver(t, p.client, "orders", &sb.ReceiverOptions{SubQueue: sb.SubQueueDeadLetter})
	defer dead.Close(ctx)
	m := receive(t, dead, 1)[0]
	if *m.DeadLetterReason != "why" || *m.DeadLetterErrorDescription != "because" || m.ApplicationProperties["by"] != "me" || *m.DeadLetterSource != "orders" {
		t.Errorf("got message %+v", m)
	}
	must(t, dead.CompleteMessage(ctx, m, nil), "complete")
}

func (p *prober) renew(t *testing.T, ctx context.Context) {
	must(t, p.sender.SendMessage(ctx, text("renewed"), nil), "send")
	m := receive(t, p.receiver, 1)[0]
	for before := *m.LockedUntil; !m.LockedUntil.After(before); { // times have milliseconds
		p.passTime()
		must(t, p.receiver.RenewMessageLock(ctx, m, nil), "renew")
	}
	must(t, p.receiver.CompleteMessage(ctx, m, nil), "complete")
}

func (p *prober) lockRunsOut(t *testing.T, ctx context.Context) {
	must(t, p.b.CreateQueue("hasty", &devbus.Settings{LockDuration: 200 * time.Millisecond}), "create")
	s := sender(t, p.client, "hasty")
	r := receiver(t, p.client, "hasty", nil)
	defer s.Close(ctx)
	defer r.Close(ctx)
	must(t, s.SendMessage(ctx, text("late"), nil), "send")
	first := receive(t, r, 1)[0]
	second := receive(t, r, 1)[0] // comes when the lock has run out
	if second.DeliveryCount != 2 {
		t.Errorf("got delivery %d, want 2", second.DeliveryCount)
	}
	if err := r.CompleteMessage(ctx, first, nil); codeOf(err) != sb.CodeLockLost {
		t.Errorf("completing without a lock: got %v, want code %s", err, sb.CodeLockLost)
	}
	must(t, r.CompleteMessage(ctx, second, nil), "complete")
}

func (p *prober) batch(t *testing.T, ctx context.Context) {
	batch, err := p.sender.NewMessageBatch(ctx, nil)
	must(t, err, "new batch")
	for i := range 500 {
		must(t, batch.AddMessage(text(strconv.Itoa(i)), nil), "add %d", i)
	}
	must(t, p.sender.SendMessageBatch(ctx, batch, nil), "send")
	r := receiver(t, p.client, "orders", &sb.ReceiverOptions{ReceiveMode: sb.ReceiveModeReceiveAndDelete})
	defer r.Close(ctx)
	for i, m := range receive(t, r, 500) {
		if string(m.Body) != strconv.Itoa(i) {
			t.Fatalf("message %d is %q", i, m.Body)
		}
	}
	wantCounts(t, p.b, "orders", devbus.Counts{})
}

func (p *prober) large(t *testing.T, ctx context.Context) {
	large := make([]byte, 200<<10)
	for i := range large {
		large[i] = byte(i * 7)
	}
	must(t, p.sender.SendMessage(ctx, &sb.Message{Body: large}, nil), "send")
	m := receive(t, p.receiver, 1)[0]
	if !bytes.Equal(m.Body, large) {
		t.Errorf("got %d bytes that are not those sent", len(m.Body))
	}
	must(t, p.receiver.CompleteMessage(ctx, m, nil), "complete")
}

func (p *prober) peek(t *testing.T, ctx context.Context) {
	must(t, p.sender.SendMessage(ctx, text("seen"), nil), "send")
	ms, err := p.receiver.PeekMessages(ctx, 5, nil)
	must(t, err, "peek")
	if len(ms) != 1 || string(ms[0].Body) != "seen" {
		t.Errorf("peeked at %q", bodies(ms))
	}
	must(t, p.receiver.CompleteMessage(ctx, receive(t, p.receiver, 1)[0], nil), "complete")
	if ms, err := p.receiver.PeekMessages(ctx, 5, nil); len(ms) != 0 || err != nil {
		t.Errorf("peeked at %q with error %v in an empty queue", bodies(ms), err)
	}
}

func (p *prober) schedule(t *testing.T, ctx context.Context) {
	at := time.Now().Add(time.Second).Truncate(time.Millisecond) // as precise as AMQP is
	numbers, err := p.sender.ScheduleMessages(ctx, []*sb.Message{text("cancelled"), text("scheduled")}, at, nil)
	must(t, err, "schedule")
	wantCounts(t, p.b, "orders", devbus.Counts{Scheduled: 2})
	must(t, p.sender.CancelScheduledMessages(ctx, numbers[:1], nil), "cancel")
	m := receive(t, p.receiver, 1)[0]
	if string(m.Body) != "scheduled" || time.Now().Before(at) {
		t.Errorf("got %q, %v early", m.Body, time.Until(at))
	}
	must(t, p.receiver.CompleteMessage(ctx, m, nil), "complete")
}

func (p *prober) deferMessage(t *testing.T, ctx context.Context) {
	must(t, p.sender.SendMessage(ctx, text("later"), nil), "send")
	m := receive(t, p.receiver, 1)[0]
	must(t, p.receiver.DeferMessage(ctx, m, nil), "defer")
	wantCounts(t, p.b, "orders", devbus.Counts{Deferred: 1})
	ms, err := p.receiver.ReceiveDeferredMessages(ctx, []int64{*m.SequenceNumber}, nil)
	must(t, err, "receive deferred")
	if len(ms) != 1 || string(ms[0].Body) != "later" {
		t.Fatalf("got deferred messages %q", bodies(ms))
	}
	must(t, p.receiver.CompleteMessage(ctx, ms[0], nil), "complete")
	wantCounts(t, p.b, "orders", devbus.Counts{})
}

func (p *prober) settleByToken(t *testing.T, ctx context.Context) {
	must(t, p.sender.SendMessage(ctx, text("token"), nil), "send")
	m := receive(t, p.receiver, 1)[0]
	must(t, p.receiver.CompleteMessage(ctx, &sb.ReceivedMessage{LockToken: m.LockToken}, nil), "complete")
	err := p.receiver.CompleteMessage(ctx, &sb.ReceivedMessage{LockToken: m.LockToken}, nil)
	if codeOf(err) != sb.CodeLockLost {
		t.Errorf("completing twice: got %v, want code %s", err, sb.CodeLockLost)
	}
}

func (p *prober) fanOut(t *testing.T, ctx context.Context) {
	s := sender(t, p.client, "signals")
	defer s.Close(ctx)
	must(t, s.SendMessage(ctx, text("to all"), nil), "send")
	for _, name := range []string{"node1", "node2"} {
		r := subscriber(t, p.client, "signals", name, nil)
		m := receive(t, r, 1)[0]
		if string(m.Body) != "to all" || *m.EnqueuedSequenceNumber != 1 {
			t.Errorf("%s got %q, number %d of the topic", name, m.Body, *m.EnqueuedSequenceNumber)
		}
		must(t, r.CompleteMessage(ctx, m, nil), "complete")
		r.Close(ctx)
	}
}

func (p *prober) deleteAll(t *testing.T, ctx context.Context) {
	_, err := p.adm.DeleteSubscription(ctx, "signals", "node2", nil)
	must(t, err, "delete subscription")
	_, err = p.adm.DeleteTopic(ctx, "signals", nil)
	must(t, err, "delete topic")
	_, err = p.adm.DeleteQueue(ctx, "contoso/x-servicebus-transfer/0", nil)
	must(t, err, "delete queue")
	if got, want := fmt.Sprint(p.b.Entities()), "[hasty orders]"; got != want {
		t.Errorf("left are %s, want %s", got, want)
	}
}

func (p *prober) close(t *testing.T, ctx context.Context) {
	must(t, p.client.Close(ctx), "close")
}
