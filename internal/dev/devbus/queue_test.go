package devbus_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	sb "github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/admin"
	"github.com/Azure/go-amqp"

	"kennel/internal/dev/devbus"
)

// onQueue runs a test on the queue "q" with settings. It was created as "Q":
// paths ignore case.
func onQueue(t *testing.T, s *devbus.Settings, test func(*testing.T, *devbus.Broker, *sb.Client)) {
	t.Helper()
	inBubble(t, nil, func(t *testing.T, b *devbus.Broker) {
		must(t, b.CreateQueue("Q", s), "create")
		test(t, b, dial(t, b, quick))
	})
}

func TestLocks(t *testing.T) {
	onQueue(t, nil, func(t *testing.T, b *devbus.Broker, client *sb.Client) {
		must(t, sender(t, client, "q").SendMessage(t.Context(), text("x"), nil), "send")
		r := receiver(t, client, "q", nil)
		m := receive(t, r, 1)[0]
		if !m.LockedUntil.Equal(time.Now().Add(time.Minute)) {
			t.Errorf("locked until %v, want a minute from now", m.LockedUntil)
		}
		time.Sleep(59 * time.Second)
		wantCounts(t, b, "q", devbus.Counts{Locked: 1})
		must(t, r.RenewMessageLock(t.Context(), m, nil), "renew")
		time.Sleep(59 * time.Second)
		wantCounts(t, b, "q", devbus.Counts{Locked: 1})
		time.Sleep(2 * time.Second)
		wantCounts(t, b, "q", devbus.Counts{Ready: 1})
		if err := r.RenewMessageLock(t.Context(), m, nil); codeOf(err) != sb.CodeLockLost {
			t.Errorf("renewing a lost lock: got %v, want code %s", err, sb.CodeLockLost)
		}
	})
}

// The locks of a receiver that closes, or whose connection breaks, run on.
func TestLocksOutliveTheirReceiver(t *testing.T) {
	onQueue(t, nil, func(t *testing.T, b *devbus.Broker, client *sb.Client) {
		must(t, sender(t, client, "q").SendMessage(t.Context(), text("x"), nil), "send")
		first := receiver(t, client, "q", nil)
		m := receive(t, first, 1)[0]
		must(t, first.Close(t.Context()), "close")
		wantCounts(t, b, "q", devbus.Counts{Locked: 1})
		b.DropConnections()
		second := receiver(t, client, "q", nil)
		must(t, second.CompleteMessage(t.Context(), m, nil), "complete through another receiver")
		wantCounts(t, b, "q", devbus.Counts{})
	})
}

// Messages that fail too often go to the dead letters, where they stay until
// they are completed.
func TestMaxDeliveryCount(t *testing.T) {
	onQueue(t, &devbus.Settings{MaxDeliveryCount: 3}, func(t *testing.T, b *devbus.Broker, client *sb.Client) {
		must(t, sender(t, client, "q").SendMessage(t.Context(), text("poison"), nil), "send")
		r := receiver(t, client, "q", nil)
		for want := range uint32(2) {
			m := receive(t, r, 1)[0]
			if m.DeliveryCount != want+1 {
				t.Errorf("got delivery %d, want %d", m.DeliveryCount, want+1)
			}
			must(t, r.AbandonMessage(t.Context(), m, nil), "abandon")
		}
		receive(t, r, 1)
		time.Sleep(61 * time.Second) // the lock expires: a failure, too
		dead := receiver(t, client, "q", &sb.ReceiverOptions{SubQueue: sb.SubQueueDeadLetter})
		for range 4 {
			must(t, dead.AbandonMessage(t.Context(), receive(t, dead, 1)[0], nil), "abandon a dead letter")
		}
		wantCounts(t, b, "q", devbus.Counts{DeadLetters: 1})
		m := receive(t, dead, 1)[0]
		if *m.DeadLetterReason != "MaxDeliveryCountExceeded" {
			t.Errorf("dead-lettered because of %q", *m.DeadLetterReason)
		}
		must(t, dead.CompleteMessage(t.Context(), m, nil), "complete a dead letter")
		wantCounts(t, b, "q", devbus.Counts{})
	})
}

// A message is settled over the link it came on or, by its lock token alone,
// over the management link.
func TestSettlement(t *testing.T) {
	for _, byToken := range []bool{false, true} {
		onQueue(t, nil, func(t *testing.T, b *devbus.Broker, client *sb.Client) {
			handle := func(m *sb.ReceivedMessage) *sb.ReceivedMessage {
				if byToken {
					return &sb.ReceivedMessage{LockToken: m.LockToken}
				}
				return m
			}
			r := receiver(t, client, "q", nil)
			must(t, sender(t, client, "q").SendMessage(t.Context(), text("x"), nil), "send")
			must(t, r.AbandonMessage(t.Context(), handle(receive(t, r, 1)[0]), &sb.AbandonMessageOptions{
				PropertiesToModify: map[string]any{"tried": "once"},
			}), "abandon")
			m := receive(t, r, 1)[0]
			if m.DeliveryCount != 2 || m.ApplicationProperties["tried"] != "once" {
				t.Errorf("got delivery %d with properties %v", m.DeliveryCount, m.ApplicationProperties)
			}
			must(t, r.DeferMessage(t.Context(), handle(m), nil), "defer")
			wantCounts(t, b, "q", devbus.Counts{Deferred: 1})
			deferred, err := r.ReceiveDeferredMessages(t.Context(), []int64{*m.SequenceNumber}, nil)
			must(t, err, "receive deferred")
			must(t, r.DeadLetterMessage(t.Context(), handle(deferred[0]), &sb.DeadLetterOptions{
				Reason: to.Ptr("why"), ErrorDescription: to.Ptr("because"), PropertiesToModify: map[string]any{"by": "me"},
			}), "dead-letter")
			dead := receiver(t, client, "q", &sb.ReceiverOptions{SubQueue: sb.SubQueueDeadLetter})
			m = receive(t, dead, 1)[0]
			if *m.DeadLetterReason != "why" || *m.DeadLetterErrorDescription != "because" || m.ApplicationProperties["by"] != "me" {
				t.Errorf("got dead letter %+v", m)
			}
			must(t, dead.CompleteMessage(t.Context(), handle(m), nil), "complete")
			err = dead.CompleteMessage(t.Context(), &sb.ReceivedMessage{LockToken: m.LockToken}, nil)
			if codeOf(err) != sb.CodeLockLost {
				t.Errorf("completing twice: got %v, want code %s", err, sb.CodeLockLost)
			}
			wantCounts(t, b, "q", devbus.Counts{})
		})
	}
}

// Between calls the SDK releases what still arrives; that is no failure, and
// the message keeps its place.
func TestReleasedMessagesHaveNotFailed(t *testing.T) {
	onQueue(t, nil, func(t *testing.T, _ *devbus.Broker, client *sb.Client) {
		s, r := sender(t, client, "q"), receiver(t, client, "q", nil)
		receiveNone(t, r, time.Second) // leaves credit behind
		for _, body := range []string{"1", "2"} {
			must(t, s.SendMessage(t.Context(), text(body), nil), "send")
		}
		time.Sleep(time.Second)
		ms := receive(t, receiver(t, client, "q", nil), 2)
		if got, want := fmt.Sprint(bodies(ms)), "[1 2]"; got != want || ms[0].DeliveryCount != 1 {
			t.Errorf("got %s, delivery %d, want %s, delivery 1", got, ms[0].DeliveryCount, want)
		}
	})
}

func TestTimeToLive(t *testing.T) {
	for _, tt := range []struct {
		name       string
		entity     time.Duration
		message    *time.Duration
		deadLetter bool
	}{
		{"the message's", 0, to.Ptr(time.Minute), false},
		{"the queue's, for messages that have none", time.Minute, nil, false},
		{"the queue's, for messages that have more", time.Minute, to.Ptr(time.Hour), true},
		{"the message's, which is less than the queue's", time.Hour, to.Ptr(time.Minute), true},
	} {
		s := &devbus.Settings{TimeToLive: tt.entity, DeadLetterOnExpiry: tt.deadLetter}
		onQueue(t, s, func(t *testing.T, b *devbus.Broker, client *sb.Client) {
			t.Log(tt.name)
			must(t, sender(t, client, "q").SendMessage(t.Context(), &sb.Message{TimeToLive: tt.message}, nil), "send")
			time.Sleep(59 * time.Second)
			wantCounts(t, b, "q", devbus.Counts{Ready: 1})
			time.Sleep(2 * time.Second)
			if !tt.deadLetter {
				wantCounts(t, b, "q", devbus.Counts{})
				return
			}
			time.Sleep(10 * time.Hour) // dead letters do not expire
			m := receive(t, receiver(t, client, "q", &sb.ReceiverOptions{SubQueue: sb.SubQueueDeadLetter}), 1)[0]
			if *m.DeadLetterReason != "TTLExpiredException" {
				t.Errorf("dead-lettered because of %q", *m.DeadLetterReason)
			}
		})
	}
}

// While a message is locked its time cannot run out; afterwards it has.
func TestExpiryWaitsForTheLock(t *testing.T) {
	onQueue(t, nil, func(t *testing.T, b *devbus.Broker, client *sb.Client) {
		must(t, sender(t, client, "q").SendMessage(t.Context(), &sb.Message{TimeToLive: to.Ptr(10 * time.Second)}, nil), "send")
		r := receiver(t, client, "q", nil)
		m := receive(t, r, 1)[0]
		time.Sleep(30 * time.Second)
		wantCounts(t, b, "q", devbus.Counts{Locked: 1})
		must(t, r.AbandonMessage(t.Context(), m, nil), "abandon")
		wantCounts(t, b, "q", devbus.Counts{})
	})
}

func TestDeferredMessages(t *testing.T) {
	onQueue(t, nil, func(t *testing.T, b *devbus.Broker, client *sb.Client) {
		must(t, sender(t, client, "q").SendMessage(t.Context(), text("x"), nil), "send")
		r := receiver(t, client, "q", nil)
		m := receive(t, r, 1)[0]
		must(t, r.DeferMessage(t.Context(), m, nil), "defer")
		receiveNone(t, r, time.Hour)
		peeked, err := r.PeekMessages(t.Context(), 1, nil)
		if err != nil || peeked[0].State != sb.MessageStateDeferred {
			t.Errorf("peeked at %+v, error %v, want state deferred", peeked, err)
		}
		number := []int64{*m.SequenceNumber}
		ms, err := r.ReceiveDeferredMessages(t.Context(), number, nil)
		must(t, err, "receive deferred")
		if _, err := r.ReceiveDeferredMessages(t.Context(), number, nil); codeOf(err) != sb.CodeNotFound {
			t.Errorf("receiving it twice: got %v, want code %s", err, sb.CodeNotFound)
		}
		must(t, r.AbandonMessage(t.Context(), ms[0], nil), "abandon")
		wantCounts(t, b, "q", devbus.Counts{Deferred: 1}) // it stays deferred

		deletes := receiver(t, client, "q", &sb.ReceiverOptions{ReceiveMode: sb.ReceiveModeReceiveAndDelete})
		_, err = deletes.ReceiveDeferredMessages(t.Context(), number, nil)
		must(t, err, "receive deferred and delete")
		wantCounts(t, b, "q", devbus.Counts{})
		if ms, err := r.PeekMessages(t.Context(), 1, nil); len(ms) > 0 || err != nil {
			t.Errorf("peeked at %q, error %v in an empty queue", bodies(ms), err)
		}
	})
}

func TestScheduledMessages(t *testing.T) {
	onQueue(t, nil, func(t *testing.T, b *devbus.Broker, client *sb.Client) {
		s := sender(t, client, "q")
		r := receiver(t, client, "q", &sb.ReceiverOptions{ReceiveMode: sb.ReceiveModeReceiveAndDelete})
		at := time.Now().Add(time.Hour)
		numbers, err := s.ScheduleMessages(t.Context(), []*sb.Message{text("scheduled")}, at, nil)
		must(t, err, "schedule")
		must(t, s.SendMessage(t.Context(), &sb.Message{Body: []byte("sent with a time"), ScheduledEnqueueTime: &at}, nil), "send")
		must(t, s.SendMessage(t.Context(), text("now"), nil), "send")
		if got := bodies(receive(t, r, 1)); got[0] != "now" {
			t.Errorf("got %q first", got)
		}
		peeked, err := r.PeekMessages(t.Context(), 1, nil)
		must(t, err, "peek")
		if peeked[0].State != sb.MessageStateScheduled || *peeked[0].SequenceNumber != numbers[0] {
			t.Errorf("peeked at %+v", peeked[0])
		}
		ms := receive(t, r, 2)
		if got, want := fmt.Sprint(bodies(ms)), "[scheduled sent with a time]"; got != want || !time.Now().Equal(at) {
			t.Errorf("got %s at %v, want %s at %v", got, time.Now(), want, at)
		}
		if *ms[0].SequenceNumber <= numbers[0] || !ms[0].EnqueuedTime.Equal(at) {
			t.Errorf("enqueued as number %d at %v, want a new number at %v", *ms[0].SequenceNumber, ms[0].EnqueuedTime, at)
		}
		if err := s.CancelScheduledMessages(t.Context(), numbers, nil); codeOf(err) != sb.CodeNotFound {
			t.Errorf("cancelling what was delivered: got %v, want code %s", err, sb.CodeNotFound)
		}
	})
}

func TestDuplicateDetection(t *testing.T) {
	onQueue(t, &devbus.Settings{DuplicateWindow: time.Minute}, func(t *testing.T, b *devbus.Broker, client *sb.Client) {
		s := sender(t, client, "q")
		send := func(id string) {
			must(t, s.SendMessage(t.Context(), &sb.Message{MessageID: &id}, nil), "send %s", id)
		}
		send("a")
		send("a")
		send("b")
		wantCounts(t, b, "q", devbus.Counts{Ready: 2})

		at := time.Now().Add(time.Hour)
		numbers, err := s.ScheduleMessages(t.Context(), []*sb.Message{{MessageID: to.Ptr("b")}}, at, nil)
		must(t, err, "schedule")
		wantCounts(t, b, "q", devbus.Counts{Ready: 2})
		if numbers[0] != 2 {
			t.Errorf("scheduling a duplicate of message 2 returned %d", numbers[0])
		}
		must(t, s.SendAMQPAnnotatedMessage(t.Context(), &sb.AMQPAnnotatedMessage{
			Properties: &sb.AMQPAnnotatedMessageProperties{MessageID: uint64(1)},
		}, nil), "send 1")
		send("1") // a text, not a number
		wantCounts(t, b, "q", devbus.Counts{Ready: 4})

		receive(t, receiver(t, client, "q", &sb.ReceiverOptions{ReceiveMode: sb.ReceiveModeReceiveAndDelete}), 4)
		time.Sleep(30 * time.Second)
		send("a") // delivered or not makes no difference
		wantCounts(t, b, "q", devbus.Counts{})
		time.Sleep(31 * time.Second)
		send("a")
		wantCounts(t, b, "q", devbus.Counts{Ready: 1})
		if got := b.Stats().Duplicates; got != 3 {
			t.Errorf("%d duplicates were dropped, want 3", got)
		}
	})
}

func TestQuota(t *testing.T) {
	onQueue(t, &devbus.Settings{MaxBytes: 10 << 10}, func(t *testing.T, b *devbus.Broker, client *sb.Client) {
		s := sender(t, client, "q")
		full := func() bool {
			err := s.SendMessage(t.Context(), &sb.Message{Body: make([]byte, 1<<10)}, nil)
			if e, ok := errors.AsType[*amqp.Error](err); ok && e.Condition == amqp.ErrCondResourceLimitExceeded {
				return true
			}
			must(t, err, "send")
			return false
		}
		n := 0
		for !full() {
			n++
		}
		if n != 9 {
			t.Errorf("10 KB took %d messages of a little more than 1 KB, want 9", n)
		}
		r := receiver(t, client, "q", nil)
		must(t, r.CompleteMessage(t.Context(), receive(t, r, 1)[0], nil), "complete")
		if full() {
			t.Error("the queue is full although there is room again")
		}
	})
}

func TestDisabledEntities(t *testing.T) {
	onQueue(t, nil, func(t *testing.T, b *devbus.Broker, client *sb.Client) {
		adm := administer(t, b)
		old := sender(t, client, "q")
		must(t, old.SendMessage(t.Context(), text("x"), nil), "send")
		q, err := adm.GetQueue(t.Context(), "q", nil)
		must(t, err, "get")
		for _, tt := range []struct {
			status          string
			sends, receives bool
		}{
			{"Active", true, true}, {"SendDisabled", false, true}, {"ReceiveDisabled", true, false}, {"Disabled", false, false}, {"Active", true, true},
		} {
			*q.Status = admin.EntityStatus(tt.status)
			_, err := adm.UpdateQueue(t.Context(), "q", q.QueueProperties, nil)
			must(t, err, "set %s", tt.status)
			if tt.status == "SendDisabled" && old.SendMessage(t.Context(), text("x"), nil) == nil {
				t.Errorf("a sender from before can still send while %s", tt.status)
			}
			// New ones each time: the SDK does not revive one that was detached for this.
			err = sender(t, client, "q").SendMessage(t.Context(), text("x"), nil)
			if (err == nil) != tt.sends {
				t.Errorf("sending while %s: got %v", tt.status, err)
			}
			_, err = receiver(t, client, "q", nil).ReceiveMessages(within(t, time.Second), 1, nil)
			if empty := err == nil || errors.Is(err, context.DeadlineExceeded); empty != tt.receives {
				t.Errorf("receiving while %s: got %v", tt.status, err)
			}
		}
	})
}

// Receivers that all have credit get their share, too.
func TestReceiversShare(t *testing.T) {
	onQueue(t, nil, func(t *testing.T, b *devbus.Broker, client *sb.Client) {
		got := make(chan int, 2)
		for range 2 {
			r := receiver(t, client, "q", nil)
			go func() {
				ms, _ := r.ReceiveMessages(context.Background(), 10, &sb.ReceiveMessagesOptions{TimeAfterFirstMessage: time.Second})
				got <- len(ms)
			}()
		}
		time.Sleep(time.Second)
		s := sender(t, client, "q")
		for range 4 {
			must(t, s.SendMessage(t.Context(), text("x"), nil), "send")
		}
		if a, b := <-got, <-got; a != 2 || b != 2 {
			t.Errorf("of 4 messages, two receivers got %d and %d", a, b)
		}
	})
}

func TestManyMessagesAtOnce(t *testing.T) {
	onQueue(t, nil, func(t *testing.T, b *devbus.Broker, client *sb.Client) {
		s := sender(t, client, "q")
		const n = 12_000 // more than two windows of the SDK
		for i := 0; i < n; {
			batch, err := s.NewMessageBatch(t.Context(), nil)
			must(t, err, "new batch")
			for ; i < n && batch.AddMessage(text(fmt.Sprint(i)), nil) == nil; i++ {
			}
			must(t, s.SendMessageBatch(t.Context(), batch, nil), "send")
		}
		wantCounts(t, b, "q", devbus.Counts{Ready: n})
		r := receiver(t, client, "q", &sb.ReceiverOptions{ReceiveMode: sb.ReceiveModeReceiveAndDelete})
		for got := 0; got < n; {
			for _, m := range receive(t, r, min(5000, n-got)) {
				if string(m.Body) != fmt.Sprint(got) {
					t.Fatalf("message %d is %q", got, m.Body)
				}
				got++
			}
		}
	})
}
