package devbus_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	sb "github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/admin"
	"github.com/Azure/go-amqp"

	"kennel/internal/dev/devbus"
)

// TestLocks checks that a lock lasts until it expires, even if its receiver is
// closed.
func TestLocks(t *testing.T) {
	onQueue(t, nil, func(f *fixture) {
		f.send("q", text("x"))
		r := f.receiver(nil)
		m := f.receiveOne(r)
		equal(f, "locked for", time.Until(*m.LockedUntil), time.Minute)
		time.Sleep(59 * time.Second)
		f.must(r.RenewMessageLock(f.Context(), m, nil), "renew")
		time.Sleep(59 * time.Second)
		f.counts("q", devbus.Counts{Locked: 1})
		time.Sleep(2 * time.Second)
		f.counts("q", devbus.Counts{Ready: 1})
		f.fails("renewing a lost lock", r.RenewMessageLock(f.Context(), m, nil), sb.CodeLockLost)

		m = f.receiveOne(r)
		f.must(r.Close(f.Context()), "close")
		f.b.DropConnections()
		f.counts("q", devbus.Counts{Locked: 1})
		f.complete(f.receiver(nil), m)
		f.counts("q", devbus.Counts{})
	})
}

// TestMaxDeliveryCount checks that a message that fails too often becomes a
// dead letter, and stays one until it is completed. The failures of a dead
// letter are not counted.
func TestMaxDeliveryCount(t *testing.T) {
	onQueue(t, &devbus.Settings{MaxDeliveryCount: 3}, func(f *fixture) {
		f.send("q", text("poison"))
		r, dead := f.receiver(nil), f.receiver(deadLetters)
		for delivery := range uint32(2) {
			m := f.receiveOne(r)
			equal(f, "delivery", m.DeliveryCount, delivery+1)
			f.must(r.AbandonMessage(f.Context(), m, nil), "abandon")
		}
		f.receiveOne(r)
		time.Sleep(61 * time.Second) // the expiry of the lock is a failure, too
		for range 4 {
			m := f.receiveOne(dead)
			equal(f, "delivery of a dead letter", m.DeliveryCount, 4)
			f.must(dead.AbandonMessage(f.Context(), m, nil), "abandon a dead letter")
		}
		f.counts("q", devbus.Counts{DeadLetters: 1})
		m := f.receiveOne(dead)
		equal(f, "reason", *m.DeadLetterReason, "MaxDeliveryCountExceeded")
		f.complete(dead, m)
		f.counts("q", devbus.Counts{})
	})
}

// TestSettlement settles messages over the link that delivered them, and by
// lock token over the management link.
func TestSettlement(t *testing.T) {
	for _, byToken := range []bool{false, true} {
		onQueue(t, nil, func(f *fixture) {
			handle := func(m *sb.ReceivedMessage) *sb.ReceivedMessage {
				if byToken {
					return &sb.ReceivedMessage{LockToken: m.LockToken}
				}
				return m
			}
			r, dead := f.receiver(nil), f.receiver(deadLetters)
			f.send("q", text("x"))
			f.must(r.AbandonMessage(f.Context(), handle(f.receiveOne(r)), &sb.AbandonMessageOptions{
				PropertiesToModify: map[string]any{"tried": "once"},
			}), "abandon")
			m := f.receiveOne(r)
			equal(f, "delivery", m.DeliveryCount, 2)
			equal(f, "property", m.ApplicationProperties["tried"], "once")
			f.must(r.DeferMessage(f.Context(), handle(m), nil), "defer")
			f.counts("q", devbus.Counts{Deferred: 1})
			deferred, err := r.ReceiveDeferredMessages(f.Context(), []int64{*m.SequenceNumber}, nil)
			f.must(err, "receive deferred")
			equal(f, "delivery", deferred[0].DeliveryCount, 3)
			f.must(r.DeadLetterMessage(f.Context(), handle(deferred[0]), &sb.DeadLetterOptions{
				Reason: to.Ptr("why"), ErrorDescription: to.Ptr("because"), PropertiesToModify: map[string]any{"by": "me"},
			}), "dead-letter")
			m = f.receiveOne(dead)
			equal(f, "reason", *m.DeadLetterReason, "why")
			equal(f, "description", *m.DeadLetterErrorDescription, "because")
			equal(f, "property", m.ApplicationProperties["by"], "me")
			equal(f, "delivery of a dead letter", m.DeliveryCount, 3)
			if m.DeadLetterSource != nil {
				t.Errorf("the dead letter has source %s, although nothing forwarded it", *m.DeadLetterSource)
			}
			if err := dead.DeadLetterMessage(f.Context(), handle(m), nil); err == nil {
				t.Error("dead-lettered a dead letter")
			}
			f.counts("q", devbus.Counts{DeadLetters: 1})
			time.Sleep(61 * time.Second) // for the SDK, the message is settled
			m = f.receiveOne(dead)
			f.complete(dead, handle(m))
			err = dead.CompleteMessage(f.Context(), &sb.ReceivedMessage{LockToken: m.LockToken}, nil)
			f.fails("completing twice", err, sb.CodeLockLost)
			f.counts("q", devbus.Counts{})
		})
	}
}

// Between calls, the SDK releases messages that still arrive. A release is not
// a failure, and the message keeps its place.
func TestReleasedMessagesHaveNotFailed(t *testing.T) {
	onQueue(t, nil, func(f *fixture) {
		f.receiveNone(f.receiver(nil), time.Second) // leaves credit on the link
		f.send("q", text("1"), text("2"))
		time.Sleep(time.Second)
		ms := f.receive(f.receiver(nil), 2)
		equal(f, "messages", bodies(ms), "[1 2]")
		equal(f, "delivery", ms[0].DeliveryCount, 1)
	})
}

// TestAbandonedMessagesKeepTheirPlaces abandons messages in random order.
func TestAbandonedMessagesKeepTheirPlaces(t *testing.T) {
	onQueue(t, &devbus.Settings{MaxDeliveryCount: 1000}, func(f *fixture) {
		random := rand.New(rand.NewPCG(1, 2)) // the same in every run
		sent := slices.Repeat([]*sb.Message{text("x")}, 50)
		f.send("q", sent...)
		r := f.receiver(nil)
		for left := len(sent); left > 0; left -= 10 {
			ms := f.receive(r, left)
			if !slices.IsSortedFunc(ms, func(a, b *sb.ReceivedMessage) int { return int(*a.SequenceNumber - *b.SequenceNumber) }) {
				f.Fatalf("received %d messages out of order", left)
			}
			random.Shuffle(left, func(i, j int) { ms[i], ms[j] = ms[j], ms[i] })
			f.complete(r, ms[:10]...)
			for _, m := range ms[10:] {
				f.must(r.AbandonMessage(f.Context(), m, nil), "abandon")
			}
		}
		f.counts("q", devbus.Counts{})
	})
}

// TestTimeToLive checks that a message expires, if necessary after its lock
// ends.
func TestTimeToLive(t *testing.T) {
	for name, tt := range map[string]struct {
		entity     time.Duration
		message    *time.Duration
		deadLetter bool
	}{
		"the message's":                                 {0, to.Ptr(time.Minute), false},
		"the queue's, for messages without one":         {time.Minute, nil, false},
		"the queue's, which is less than the message's": {time.Minute, to.Ptr(time.Hour), true},
		"the message's, which is less than the queue's": {time.Hour, to.Ptr(time.Minute), true},
	} {
		onQueue(t, &devbus.Settings{TimeToLive: tt.entity, DeadLetterOnExpiry: tt.deadLetter, LockDuration: 5 * time.Minute}, func(f *fixture) {
			f.Log(name)
			f.send("q", &sb.Message{TimeToLive: tt.message}, &sb.Message{TimeToLive: tt.message})
			r := f.receiver(nil)
			locked := f.receiveOne(r)
			time.Sleep(59 * time.Second)
			f.counts("q", devbus.Counts{Ready: 1, Locked: 1})
			dead := map[bool]int{true: 1}[tt.deadLetter]
			time.Sleep(2 * time.Second)
			f.counts("q", devbus.Counts{Locked: 1, DeadLetters: dead})
			f.must(r.AbandonMessage(f.Context(), locked, nil), "abandon")
			time.Sleep(time.Hour) // dead letters do not expire
			f.counts("q", devbus.Counts{DeadLetters: 2 * dead})
			for _, m := range f.receive(f.receiver(deadLetters), 2*dead) {
				equal(f, "reason", *m.DeadLetterReason, "TTLExpiredException")
			}
		})
	}
}

// TestDeferredMessages checks that a deferred message waits for its receiver,
// even after it expired. Each deferral counts as a failure.
func TestDeferredMessages(t *testing.T) {
	onQueue(t, &devbus.Settings{MaxDeliveryCount: 5}, func(f *fixture) {
		f.send("q", text("x"))
		r := f.receiver(nil)
		m := f.receiveOne(r)
		f.must(r.DeferMessage(f.Context(), m, nil), "defer")
		f.receiveNone(r, time.Hour)
		peeked, err := r.PeekMessages(f.Context(), 1, nil)
		f.must(err, "peek")
		equal(f, "state", peeked[0].State, sb.MessageStateDeferred)
		number := []int64{*m.SequenceNumber}
		ms, err := r.ReceiveDeferredMessages(f.Context(), number, nil)
		f.must(err, "receive deferred")
		equal(f, "state", ms[0].State, sb.MessageStateDeferred)
		equal(f, "delivery", ms[0].DeliveryCount, 2)
		peeked, err = r.PeekMessages(f.Context(), 1, &sb.PeekMessagesOptions{FromSequenceNumber: &number[0]})
		f.must(err, "peek")
		equal(f, "state while it is locked", peeked[0].State, sb.MessageStateDeferred)
		_, err = r.ReceiveDeferredMessages(f.Context(), number, nil)
		f.fails("receive it twice", err, sb.CodeNotFound)
		f.must(r.AbandonMessage(f.Context(), ms[0], nil), "abandon")
		f.counts("q", devbus.Counts{Deferred: 1}) // an abandoned message stays deferred
		ms, err = r.ReceiveDeferredMessages(f.Context(), number, nil)
		f.must(err, "receive deferred")
		equal(f, "delivery", ms[0].DeliveryCount, 3)
		f.must(r.DeferMessage(f.Context(), ms[0], nil), "defer again")

		_, err = f.receiver(deletes).ReceiveDeferredMessages(f.Context(), number, nil)
		f.must(err, "receive deferred and delete")
		f.counts("q", devbus.Counts{})
		peeked, err = r.PeekMessages(f.Context(), 1, nil)
		f.must(err, "peek in an empty queue")
		equal(f, "messages", bodies(peeked), "[]")
	})
}

func TestDeferredMessagesExpireOnRequest(t *testing.T) {
	for dead := range 2 {
		onQueue(t, &devbus.Settings{DeadLetterOnExpiry: dead == 1}, func(f *fixture) {
			f.send("q", &sb.Message{TimeToLive: to.Ptr(time.Minute)}, &sb.Message{TimeToLive: to.Ptr(time.Minute)})
			r := f.receiver(nil)
			ms := f.receive(r, 2)
			number := []int64{*ms[0].SequenceNumber}
			f.must(r.DeferMessage(f.Context(), ms[0], nil), "defer")
			deferred, err := r.ReceiveDeferredMessages(f.Context(), number, nil)
			f.must(err, "receive deferred")
			time.Sleep(2 * time.Minute) // the lock of the first ends as well
			f.counts("q", devbus.Counts{Deferred: 1, DeadLetters: dead})
			f.fails("completing a message whose lock expired", r.CompleteMessage(f.Context(), deferred[0], nil), sb.CodeLockLost)
			_, err = r.ReceiveDeferredMessages(f.Context(), number, nil)
			f.fails("receiving an expired message", err, sb.CodeNotFound)
			f.counts("q", devbus.Counts{DeadLetters: 2 * dead})
		})
	}
}

func TestScheduledMessages(t *testing.T) {
	onQueue(t, nil, func(f *fixture) {
		s, r := f.sender("q"), f.receiver(deletes)
		at := time.Now().Add(time.Hour)
		numbers, err := s.ScheduleMessages(f.Context(), []*sb.Message{text("scheduled")}, at, nil)
		f.must(err, "schedule")
		f.send("q", &sb.Message{Body: []byte("sent with a time"), ScheduledEnqueueTime: &at}, text("now"))
		equal(f, "first", bodies(f.receive(r, 1)), "[now]")
		peeked, err := r.PeekMessages(f.Context(), 1, nil)
		f.must(err, "peek")
		equal(f, "state", peeked[0].State, sb.MessageStateScheduled)
		equal(f, "number", *peeked[0].SequenceNumber, numbers[0])
		ms := f.receive(r, 2)
		equal(f, "messages", bodies(ms), "[scheduled sent with a time]")
		equal(f, "received late by", time.Since(at), 0)
		if *ms[0].SequenceNumber <= numbers[0] || !ms[0].EnqueuedTime.Equal(at) {
			f.Errorf("enqueued as number %d at %v, want a new number at %v", *ms[0].SequenceNumber, ms[0].EnqueuedTime, at)
		}
		f.fails("cancel a delivered message", s.CancelScheduledMessages(f.Context(), numbers, nil), sb.CodeNotFound)
	})
}

// TestScheduledTogether checks that messages for the same instant arrive in the
// order in which they were sent. It runs in real time, in which no two readings
// of the clock are equal.
func TestScheduledTogether(t *testing.T) {
	b := devbus.New(nil)
	defer b.Close()
	f := &fixture{T: t, b: b}
	f.must(b.CreateQueue("q", nil), "create")
	f.client = f.dial(quick)
	at := time.Now().Add(300 * time.Millisecond)
	s, want := f.sender("q"), []string{}
	for i := range 20 {
		want = append(want, strconv.Itoa(i))
		_, err := s.ScheduleMessages(f.Context(), []*sb.Message{text(want[i])}, at, nil)
		f.must(err, "schedule")
	}
	equal(f, "messages", bodies(f.receive(f.receiver(deletes), 20)), fmt.Sprint(want))
}

func TestDuplicateDetection(t *testing.T) {
	onQueue(t, &devbus.Settings{DuplicateWindow: time.Minute}, func(f *fixture) {
		s := f.sender("q")
		id := func(id string) *sb.Message { return &sb.Message{MessageID: &id} }
		f.send("q", id("a"), id("a"), id("b"))
		f.counts("q", devbus.Counts{Ready: 2})
		numbers, err := s.ScheduleMessages(f.Context(), []*sb.Message{id("b")}, time.Now().Add(time.Hour), nil)
		f.must(err, "schedule a duplicate")
		equal(f, "number", numbers[0], 2)
		f.must(s.SendAMQPAnnotatedMessage(f.Context(), &sb.AMQPAnnotatedMessage{
			Properties: &sb.AMQPAnnotatedMessageProperties{MessageID: uint64(1)},
		}, nil), "send the id 1, a number")
		f.send("q", id("1")) // a string
		f.counts("q", devbus.Counts{Ready: 4})

		f.receive(f.receiver(deletes), 4)
		time.Sleep(30 * time.Second)
		f.send("q", id("a")) // a duplicate, although the first was delivered
		f.counts("q", devbus.Counts{})
		time.Sleep(31 * time.Second)
		f.send("q", id("a"))
		f.counts("q", devbus.Counts{Ready: 1})
		equal(f, "duplicates", f.b.Stats().Duplicates, 3)
	})
}

func TestQuota(t *testing.T) {
	onQueue(t, &devbus.Settings{MaxBytes: 10 << 10}, func(f *fixture) {
		s, m := f.sender("q"), &sb.Message{Body: make([]byte, 1<<10)}
		for range 9 { // messages of a little more than 1 KB
			f.must(s.SendMessage(f.Context(), m, nil), "send")
		}
		equal(f, "condition", conditionOf(s.SendMessage(f.Context(), m, nil)), amqp.ErrCondResourceLimitExceeded)
		r := f.receiver(nil)
		locked := f.receiveOne(r)
		f.must(r.DeadLetterMessage(f.Context(), locked, nil), "dead-letter")
		equal(f, "condition with a dead letter", conditionOf(s.SendMessage(f.Context(), m, nil)), amqp.ErrCondResourceLimitExceeded)
		f.complete(r, f.receiveOne(r))
		f.must(s.SendMessage(f.Context(), m, nil), "send after a message was completed")
	})
}

func TestDisabledEntities(t *testing.T) {
	onQueue(t, nil, func(f *fixture) {
		adm, old := f.administer(), f.sender("q")
		f.must(old.SendMessage(f.Context(), text("x"), nil), "send")
		q, err := adm.GetQueue(f.Context(), "q", nil)
		f.must(err, "get")
		for _, tt := range []struct {
			status          string
			sends, receives bool
		}{
			{"Active", true, true}, {"SendDisabled", false, true}, {"ReceiveDisabled", true, false}, {"Disabled", false, false}, {"Active", true, true},
		} {
			*q.Status = admin.EntityStatus(tt.status)
			_, err := adm.UpdateQueue(f.Context(), "q", q.QueueProperties, nil)
			f.must(err, "set "+tt.status)
			if tt.status == "SendDisabled" && old.SendMessage(f.Context(), text("x"), nil) == nil {
				f.Errorf("an old sender can still send while %s", tt.status)
			}
			// The SDK does not reattach a link that was detached because its
			// entity is disabled, so use new senders and receivers.
			err = f.sender("q").SendMessage(f.Context(), text("x"), nil)
			equal(f, "sends while "+tt.status, err == nil, tt.sends)
			_, err = f.receiver(nil).ReceiveMessages(f.within(time.Second), 1, nil)
			equal(f, "receives while "+tt.status, err == nil || errors.Is(err, context.DeadlineExceeded), tt.receives)
		}
	})
}

// TestReceiversShare checks that receivers with credit take turns.
func TestReceiversShare(t *testing.T) {
	onQueue(t, nil, func(f *fixture) {
		got := make(chan int, 2)
		for range 2 {
			r := f.receiver(nil)
			go func() {
				ms, _ := r.ReceiveMessages(context.Background(), 10, &sb.ReceiveMessagesOptions{TimeAfterFirstMessage: time.Second})
				got <- len(ms)
			}()
		}
		time.Sleep(time.Second)
		f.send("q", text("1"), text("2"), text("3"), text("4"))
		equal(f, "one of two receivers", <-got, 2)
		equal(f, "the other", <-got, 2)
	})
}
