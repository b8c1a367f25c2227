package devbus_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	sb "github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/go-amqp"

	"kennel/internal/dev/devbus"
)

// accept accepts a session of the queue "q", or the next one if id is "".
func accept(t *testing.T, client *sb.Client, id string) *sb.SessionReceiver {
	t.Helper()
	var r *sb.SessionReceiver
	var err error
	if id == "" {
		r, err = client.AcceptNextSessionForQueue(t.Context(), "q", nil)
	} else {
		r, err = client.AcceptSessionForQueue(t.Context(), "q", id, nil)
	}
	must(t, err, "accept session %q", id)
	return r
}

// conditionOf is the condition of an error that the SDK does not wrap.
func conditionOf(err error) amqp.ErrCond {
	if e, ok := errors.AsType[*amqp.Error](err); ok {
		return e.Condition
	}
	return ""
}

func inSession(id, body string) *sb.Message {
	return &sb.Message{Body: []byte(body), SessionID: to.Ptr(id)}
}

// grouped runs a test on a queue with sessions that already holds messages.
func grouped(t *testing.T, test func(*testing.T, *devbus.Broker, *sb.Client, *sb.Sender), messages ...*sb.Message) {
	t.Helper()
	inBubble(t, nil, func(t *testing.T, b *devbus.Broker) {
		must(t, b.CreateQueue("q", &devbus.Settings{RequiresSession: true}), "create")
		client := dial(t, b, quick)
		s := sender(t, client, "q")
		for _, m := range messages {
			must(t, s.SendMessage(t.Context(), m, nil), "send")
		}
		test(t, b, client, s)
	})
}

func TestSessionIsReceivedInOrderByOne(t *testing.T) {
	grouped(t, func(t *testing.T, b *devbus.Broker, client *sb.Client, _ *sb.Sender) {
		a := accept(t, client, "a")
		if got := a.LockedUntil(); !got.Equal(time.Now().Add(time.Minute)) {
			t.Errorf("locked until %v, want a minute from now", got)
		}
		_, err := client.AcceptSessionForQueue(t.Context(), "q", "a", nil)
		if conditionOf(err) != "com.microsoft:session-cannot-be-locked" {
			t.Errorf("accepting it again: got %v, want session-cannot-be-locked", err)
		}
		ms := receive(t, a, 2)
		if got, want := fmt.Sprint(bodies(ms)), "[a1 a2]"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		receiveNone(t, a, time.Second) // b1 is of another session
		for _, m := range ms {
			must(t, a.CompleteMessage(t.Context(), m, nil), "complete")
		}
		wantCounts(t, b, "q", devbus.Counts{Ready: 1})
	}, inSession("a", "a1"), inSession("b", "b1"), inSession("a", "a2"))
}

// The next session is the one whose messages wait longest. Without one, the
// client waits for the next message.
func TestNextSession(t *testing.T) {
	grouped(t, func(t *testing.T, _ *devbus.Broker, client *sb.Client, s *sb.Sender) {
		for _, want := range []string{"z", "a"} {
			if got := accept(t, client, "").SessionID(); got != want {
				t.Errorf("got session %q, want %q", got, want)
			}
		}
		start := time.Now()
		_, err := client.AcceptNextSessionForQueue(within(t, 10*time.Second), "q", nil)
		if waited := time.Since(start); codeOf(err) != sb.CodeTimeout || waited < 9*time.Second || waited >= 10*time.Second {
			t.Errorf("got %v after %v, want code %s a little before the client's 10s", err, waited, sb.CodeTimeout)
		}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		if _, err := client.AcceptNextSessionForQueue(ctx, "q", nil); err == nil {
			t.Error("accepted a session of an empty queue")
		}
		// The session goes to the client that waits, not to those that gave up.
		start = time.Now()
		time.AfterFunc(20*time.Second, func() { s.SendMessage(context.Background(), inSession("late", "l1"), nil) })
		if got := accept(t, client, "").SessionID(); got != "late" || time.Since(start) != 20*time.Second {
			t.Errorf("got session %q after %v, want late after 20s", got, time.Since(start))
		}
	}, inSession("z", "z1"), inSession("a", "a1"))
}

func TestSessionLockExpires(t *testing.T) {
	grouped(t, func(t *testing.T, _ *devbus.Broker, client *sb.Client, _ *sb.Sender) {
		first := accept(t, client, "a")
		m := receive(t, first, 1)[0]
		for range 2 {
			time.Sleep(50 * time.Second)
			must(t, first.RenewSessionLock(t.Context(), nil), "renew")
			if got := first.LockedUntil(); !got.Equal(time.Now().Add(time.Minute)) {
				t.Errorf("renewed until %v, want a minute from now", got)
			}
		}
		time.Sleep(61 * time.Second)
		second := accept(t, client, "a")
		again := receive(t, second, 1)[0]
		if again.DeliveryCount != 2 {
			t.Errorf("got delivery %d, want 2: the first was not settled in time", again.DeliveryCount)
		}
		if err := first.CompleteMessage(t.Context(), m, nil); err == nil {
			t.Error("completed a message of a session whose lock was lost")
		}
		must(t, second.CompleteMessage(t.Context(), again, nil), "complete")
	}, inSession("a", "a1"))
}

// A session that is closed is free at once, with its messages and its state.
func TestClosedSession(t *testing.T) {
	grouped(t, func(t *testing.T, _ *devbus.Broker, client *sb.Client, _ *sb.Sender) {
		first := accept(t, client, "a")
		wantState := func(s *sb.SessionReceiver, want string) {
			t.Helper()
			if got, err := s.GetSessionState(t.Context(), nil); string(got) != want || err != nil {
				t.Errorf("got state %q and error %v, want %q", got, err, want)
			}
		}
		wantState(first, "")
		must(t, first.SetSessionState(t.Context(), []byte("step 1"), nil), "set state")
		receive(t, first, 2)
		must(t, first.Close(t.Context()), "close")

		second := accept(t, client, "a")
		ms := receive(t, second, 2)
		if got, want := fmt.Sprint(bodies(ms)), "[a1 a2]"; got != want || ms[0].DeliveryCount != 1 {
			t.Errorf("got %s, delivery %d, want %s, delivery 1: closing is no failure", got, ms[0].DeliveryCount, want)
		}
		wantState(second, "step 1")
		must(t, second.SetSessionState(t.Context(), nil, nil), "clear state")
		wantState(second, "")
	}, inSession("a", "a1"), inSession("a", "a2"))
}

func TestSessionsAreListed(t *testing.T) {
	grouped(t, func(t *testing.T, _ *devbus.Broker, client *sb.Client, s *sb.Sender) {
		list := func(o *sb.ListSessionsOptions) string {
			var ids []string
			for pager := client.NewListSessionsForQueuePager("q", o); pager.More(); {
				page, err := pager.NextPage(t.Context())
				must(t, err, "next page")
				ids = append(ids, page.Sessions...)
			}
			return fmt.Sprint(ids)
		}
		if got := list(nil); got != "[]" {
			t.Errorf("an empty queue lists %s", got)
		}
		for i := range 150 { // more than a page
			must(t, s.SendMessage(t.Context(), inSession(fmt.Sprintf("s%03d", i), "x"), nil), "send")
		}
		r := accept(t, client, "stateful")
		time.Sleep(time.Hour)
		must(t, r.SetSessionState(t.Context(), []byte("x"), nil), "set state")
		if got := list(nil); len(got) != len("[]")+150*5+len("stateful") {
			t.Errorf("listed %s", got)
		}
		if got := list(&sb.ListSessionsOptions{SessionStateUpdatedAfter: to.Ptr(time.Now().Add(-time.Minute))}); got != "[stateful]" {
			t.Errorf("listed %s as updated in the last minute, want [stateful]", got)
		}
	})
}

func TestSessionsAreInsistedOn(t *testing.T) {
	grouped(t, func(t *testing.T, b *devbus.Broker, client *sb.Client, s *sb.Sender) {
		if err := s.SendMessage(t.Context(), text("no session"), nil); conditionOf(err) != amqp.ErrCondNotAllowed {
			t.Errorf("sending without a session: got %v, want not-allowed", err)
		}
		_, err := receiver(t, client, "q", nil).ReceiveMessages(within(t, time.Second), 1, nil)
		if conditionOf(err) != amqp.ErrCondNotAllowed {
			t.Errorf("receiving without a session: got %v, want not-allowed", err)
		}
		must(t, b.CreateQueue("plain", nil), "create")
		_, err = client.AcceptSessionForQueue(t.Context(), "plain", "a", nil)
		if conditionOf(err) != amqp.ErrCondNotAllowed {
			t.Errorf("a session of a queue without: got %v, want not-allowed", err)
		}
	})
}

func TestDeferredMessagesOfASession(t *testing.T) {
	grouped(t, func(t *testing.T, b *devbus.Broker, client *sb.Client, _ *sb.Sender) {
		a := accept(t, client, "a")
		m := receive(t, a, 1)[0]
		must(t, a.DeferMessage(t.Context(), m, nil), "defer")
		if ms, err := accept(t, client, "b").ReceiveDeferredMessages(t.Context(), []int64{*m.SequenceNumber}, nil); err == nil {
			t.Errorf("another session's holder got %q", bodies(ms))
		}
		ms, err := a.ReceiveDeferredMessages(t.Context(), []int64{*m.SequenceNumber}, nil)
		must(t, err, "receive deferred")
		must(t, a.CompleteMessage(t.Context(), ms[0], nil), "complete")
		wantCounts(t, b, "q", devbus.Counts{})
	}, inSession("a", "a1"))
}

// A subscription with sessions cannot refuse what its topic took.
func TestMessageWithoutSessionIsDeadLetteredBySubscription(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, b *devbus.Broker) {
		must(t, b.CreateTopic("t", nil), "create")
		must(t, b.CreateSubscription("t", "s", &devbus.Settings{RequiresSession: true}), "create")
		client := dial(t, b, quick)
		must(t, sender(t, client, "t").SendMessage(t.Context(), text("x"), nil), "send")
		dead := subscriber(t, client, "t", "s", &sb.ReceiverOptions{SubQueue: sb.SubQueueDeadLetter})
		if m := receive(t, dead, 1)[0]; *m.DeadLetterReason != "Session ID is null" {
			t.Errorf("dead-lettered because of %q", *m.DeadLetterReason)
		}
	})
}
