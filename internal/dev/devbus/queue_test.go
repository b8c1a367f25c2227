package devbus_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	sb "github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/admin"
	"github.com/Azure/go-amqp"

	"kennel/internal/dev/devbus"
)

// onQueue has the test on a queue with settings.
func onQueue(t *testing.T, s *devbus.Settings, test func(*testing.T, *devbus.Broker, *sb.Client)) {
	t.Helper()
	inBubble(t, nil, func(t *testing.T, b *devbus.Broker) {
		must(t, b.CreateQueue("q", s), "create")
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
		time.Sleep(61 * time.Second) // the lock runs out: a failure, too
		m := receive(t, receiver(t, client, "q", &sb.ReceiverOptions{SubQueue: sb.SubQueueDeadLetter}), 1)[0]
		if *m.DeadLetterReason != "MaxDeliveryCountExceeded" {
			t.Errorf("dead-lettered because of %q", *m.DeadLetterReason)
		}
		wantCounts(t, b, "q", devbus.Counts{DeadLetters: 1})
	})
}

// What is dead stays dead: it can be handed out again and again, and goes
// nowhere from there.
func TestDeadLettersStay(t *testing.T) {
	onQueue(t, &devbus.Settings{MaxDeliveryCount: 1}, func(t *testing.T, b *devbus.Broker, client *sb.Client) {
		must(t, sender(t, client, "q").SendMessage(t.Context(), text("x"), nil), "send")
		r := receiver(t, client, "q", nil)
		must(t, r.AbandonMessage(t.Context(), receive(t, r, 1)[0], nil), "abandon")
		dead := receiver(t, client, "q", &sb.ReceiverOptions{SubQueue: sb.SubQueueDeadLetter})
		for range 3 {
			must(t, dead.AbandonMessage(t.Context(), receive(t, dead, 1)[0], nil), "abandon")
		}
		m := receive(t, dead, 1)[0]
		must(t, dead.DeadLetterMessage(t.Context(), m, &sb.DeadLetterOptions{Reason: to.Ptr("again")}), "dead-letter")
		m = receive(t, dead, 1)[0]
		if *m.DeadLetterReason != "again" || m.DeliveryCount != 5 {
			t.Errorf("got delivery %d, dead because of %q, want delivery 5 because of again", m.DeliveryCount, *m.DeadLetterReason)
		}
		must(t, dead.CompleteMessage(t.Context(), m, nil), "complete")
		wantCounts(t, b, "q", devbus.Counts{})
	})
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
		lives      time.Duration // 0: for ever
	}{
		{"the message's", 0, to.Ptr(time.Minute), false, time.Minute},
		{"the queue's, for messages that have none", time.Minute, nil, false, time.Minute},
		{"the queue's, for messages that have more", time.Minute, to.Ptr(time.Hour), true, time.Minute},
		{"the message's, which is less than the queue's", time.Hour, to.Ptr(time.Minute), true, time.Minute},
		{"none", 0, nil, true, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := &devbus.Settings{TimeToLive: tt.entity, DeadLetterOnExpiry: tt.deadLetter}
			onQueue(t, s, func(t *testing.T, b *devbus.Broker, client *sb.Client) {
				must(t, sender(t, client, "q").SendMessage(t.Context(), &sb.Message{TimeToLive: tt.message}, nil), "send")
				if tt.lives == 0 {
					time.Sleep(10 * time.Hour)
					wantCounts(t, b, "q", devbus.Counts{Ready: 1})
					return
				}
				time.Sleep(tt.lives - time.Second)
				wantCounts(t, b, "q", devbus.Counts{Ready: 1})
				time.Sleep(2 * time.Second)
				if !tt.deadLetter {
					wantCounts(t, b, "q", devbus.Counts{})
					return
				}
				wantCounts(t, b, "q", devbus.Counts{DeadLetters: 1})
				time.Sleep(10 * time.Hour) // dead letters live for ever
				m := receive(t, receiver(t, client, "q", &sb.ReceiverOptions{SubQueue: sb.SubQueueDeadLetter}), 1)[0]
				if *m.DeadLetterReason != "TTLExpiredException" {
					t.Errorf("dead-lettered because of %q", *m.DeadLetterReason)
				}
			})
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
		must(t, err, "peek")
		if peeked[0].State != sb.MessageStateDeferred {
			t.Errorf("peeked at state %v, want deferred", peeked[0].State)
		}
		number := []int64{*m.SequenceNumber}
		ms, err := r.ReceiveDeferredMessages(t.Context(), number, nil)
		must(t, err, "receive deferred")
		if _, err := r.ReceiveDeferredMessages(t.Context(), number, nil); codeOf(err) != sb.CodeNotFound {
			t.Errorf("receiving it twice: got %v, want code %s", err, sb.CodeNotFound)
		}
		must(t, r.AbandonMessage(t.Context(), ms[0], nil), "abandon")
		wantCounts(t, b, "q", devbus.Counts{Deferred: 1}) // deferred it stays

		gone := receiver(t, client, "q", &sb.ReceiverOptions{ReceiveMode: sb.ReceiveModeReceiveAndDelete})
		_, err = gone.ReceiveDeferredMessages(t.Context(), number, nil)
		must(t, err, "receive deferred and delete")
		wantCounts(t, b, "q", devbus.Counts{})
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

func TestCompetingReceiversTakeTurns(t *testing.T) {
	onQueue(t, nil, func(t *testing.T, _ *devbus.Broker, client *sb.Client) {
		const n = 4
		got := make(chan string, n)
		for i := range n {
			r := receiver(t, client, "q", nil)
			go func() {
				ms, err := r.ReceiveMessages(context.Background(), 1, nil)
				if err == nil {
					got <- fmt.Sprint(i, string(ms[0].Body))
				}
			}()
			time.Sleep(time.Second) // so that they wait in this order
		}
		s := sender(t, client, "q")
		for _, body := range []string{"a", "b", "c", "d"} {
			must(t, s.SendMessage(t.Context(), text(body), nil), "send")
		}
		var all []string
		for range n {
			all = append(all, <-got)
		}
		slices.Sort(all)
		if got, want := fmt.Sprint(all), "[0a 1b 2c 3d]"; got != want {
			t.Errorf("got %s, want %s", got, want)
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

func TestPathsIgnoreCase(t *testing.T) {
	onQueue(t, nil, func(t *testing.T, _ *devbus.Broker, client *sb.Client) {
		must(t, sender(t, client, "Q").SendMessage(t.Context(), text("x"), nil), "send")
		receive(t, receiver(t, client, "q", nil), 1)
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
