package devbus_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	sb "github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/go-amqp"

	"kennel/internal/dev/devbus"
)

func inSession(id, body string) *sb.Message {
	return &sb.Message{Body: []byte(body), SessionID: to.Ptr(id)}
}

// onGroups runs a test on the queue "q", which has sessions and these messages.
func onGroups(t *testing.T, test func(*fixture), messages ...*sb.Message) {
	t.Helper()
	onQueue(t, &devbus.Settings{RequiresSession: true}, func(f *fixture) {
		f.send("q", messages...)
		test(f)
	})
}

// accept accepts a session, or the next one if id is "".
func (f *fixture) accept(id string) *sb.SessionReceiver {
	f.Helper()
	var r *sb.SessionReceiver
	var err error
	if id == "" {
		r, err = f.client.AcceptNextSessionForQueue(f.Context(), "q", nil)
	} else {
		r, err = f.client.AcceptSessionForQueue(f.Context(), "q", id, nil)
	}
	f.must(err, "accept session "+id)
	return r
}

func TestSessionIsReceivedInOrderByOne(t *testing.T) {
	onGroups(t, func(f *fixture) {
		a := f.accept("a")
		equal(f, "locked for", time.Until(a.LockedUntil()), time.Minute)
		_, err := f.client.AcceptSessionForQueue(f.Context(), "q", "a", nil)
		equal(f, "accept it again", conditionOf(err), "com.microsoft:session-cannot-be-locked")
		ms := f.receive(a, 2)
		equal(f, "messages", bodies(ms), "[a1 a2]")
		f.receiveNone(a, time.Second) // b1 belongs to another session
		f.complete(a, ms...)
		f.counts("q", devbus.Counts{Ready: 1})
	}, inSession("a", "a1"), inSession("b", "b1"), inSession("a", "a2"))
}

// TestNextSession checks that the next session is the one whose messages have
// waited longest. If there is none, the client waits for the next message.
func TestNextSession(t *testing.T) {
	onGroups(t, func(f *fixture) {
		equal(f, "first", f.accept("").SessionID(), "z")
		equal(f, "second", f.accept("").SessionID(), "a")
		start := time.Now()
		_, err := f.client.AcceptNextSessionForQueue(f.within(10*time.Second), "q", nil)
		f.fails("without messages", err, sb.CodeTimeout)
		if waited := time.Since(start); waited < 9*time.Second || waited >= 10*time.Second {
			t.Errorf("the broker timed out after %v, want a little less than the client's 10s", waited)
		}
		ctx, cancel := context.WithCancel(f.Context())
		time.AfterFunc(time.Second, cancel)
		if _, err := f.client.AcceptNextSessionForQueue(ctx, "q", nil); err == nil {
			t.Error("accepted a session of an empty queue")
		}
		// The client that still waits gets the session.
		start = time.Now()
		sent := make(chan struct{})
		time.AfterFunc(20*time.Second, func() {
			defer close(sent)
			f.send("q", inSession("late", "l1"))
		})
		equal(f, "third", f.accept("").SessionID(), "late")
		equal(f, "accepted after", time.Since(start), 20*time.Second)
		<-sent // the session can be there before the answer to its message
	}, inSession("z", "z1"), inSession("a", "a1"))
}

func TestSessionLockExpires(t *testing.T) {
	onGroups(t, func(f *fixture) {
		first := f.accept("a")
		m := f.receiveOne(first)
		for range 2 {
			time.Sleep(50 * time.Second)
			f.must(first.RenewSessionLock(f.Context(), nil), "renew")
			equal(f, "renewed for", time.Until(first.LockedUntil()), time.Minute)
		}
		time.Sleep(61 * time.Second)
		second := f.accept("a")
		again := f.receiveOne(second)
		equal(f, "delivery after the first was not settled", again.DeliveryCount, 2)
		if err := first.CompleteMessage(f.Context(), m, nil); err == nil {
			t.Error("completed a message of a session whose lock was lost")
		}
		f.complete(second, again)
	}, inSession("a", "a1"))
}

// TestClosedSession checks that a closed session can be accepted immediately,
// and keeps its messages and its state.
func TestClosedSession(t *testing.T) {
	onGroups(t, func(f *fixture) {
		wantState := func(s *sb.SessionReceiver, want string) {
			t.Helper()
			got, err := s.GetSessionState(f.Context(), nil)
			f.must(err, "get state")
			equal(f, "state", string(got), want)
		}
		first := f.accept("a")
		wantState(first, "")
		f.must(first.SetSessionState(f.Context(), []byte("step 1"), nil), "set state")
		f.receive(first, 2)
		f.must(first.Close(f.Context()), "close")

		second := f.accept("a")
		ms := f.receive(second, 2)
		equal(f, "messages", bodies(ms), "[a1 a2]")
		equal(f, "delivery after the session was closed", ms[0].DeliveryCount, 1)
		wantState(second, "step 1")
		f.must(second.SetSessionState(f.Context(), nil, nil), "clear state")
		wantState(second, "")
	}, inSession("a", "a1"), inSession("a", "a2"))
}

func TestSessionsAreListed(t *testing.T) {
	onGroups(t, func(f *fixture) {
		list := func(o *sb.ListSessionsOptions) (ids []string) {
			for pager := f.client.NewListSessionsForQueuePager("q", o); pager.More(); {
				page, err := pager.NextPage(f.Context())
				f.must(err, "next page")
				ids = append(ids, page.Sessions...)
			}
			return ids
		}
		equal(f, "sessions of an empty queue", len(list(nil)), 0)
		many := make([]*sb.Message, 150) // more than a page
		for i := range many {
			many[i] = inSession(fmt.Sprint(i), "x")
		}
		f.send("q", many...)
		r := f.accept("stateful")
		time.Sleep(time.Hour)
		f.must(r.SetSessionState(f.Context(), []byte("x"), nil), "set state")
		equal(f, "sessions", len(list(nil)), 151)
		updated := list(&sb.ListSessionsOptions{SessionStateUpdatedAfter: to.Ptr(time.Now().Add(-time.Minute))})
		equal(f, "updated in the last minute", fmt.Sprint(updated), "[stateful]")
	})
}

func TestSessionsAreRequired(t *testing.T) {
	onGroups(t, func(f *fixture) {
		err := f.sender("q").SendMessage(f.Context(), text("x"), nil)
		equal(f, "sending without a session", conditionOf(err), amqp.ErrCondNotAllowed)
		_, err = f.receiver(nil).ReceiveMessages(f.within(time.Second), 1, nil)
		equal(f, "receiving without a session", conditionOf(err), amqp.ErrCondNotAllowed)
		equal(f, "which the SDK's tests expect in these words", strings.Contains(err.Error(), "It is not possible for an entity that requires sessions to create a non-sessionful message receiver."), true)
		f.must(f.b.CreateQueue("plain", nil), "create")
		_, err = f.client.AcceptSessionForQueue(f.Context(), "plain", "a", nil)
		equal(f, "a session of a queue without sessions", conditionOf(err), amqp.ErrCondNotAllowed)
	})
	// A subscription with sessions cannot refuse what its topic accepted.
	onTopic(t, nil, &devbus.Settings{RequiresSession: true}, func(f *fixture) {
		f.send("t", text("x"))
		equal(f, "reason", *f.receiveOne(f.subscriber("one", deadLetters)).DeadLetterReason, "Session ID is null")
	})
}

func TestDeferredMessagesOfASession(t *testing.T) {
	onGroups(t, func(f *fixture) {
		a := f.accept("a")
		m := f.receiveOne(a)
		f.must(a.DeferMessage(f.Context(), m, nil), "defer")
		number := []int64{*m.SequenceNumber}
		if ms, err := f.accept("b").ReceiveDeferredMessages(f.Context(), number, nil); err == nil {
			t.Errorf("the receiver of another session got %s", bodies(ms))
		}
		ms, err := a.ReceiveDeferredMessages(f.Context(), number, nil)
		f.must(err, "receive deferred")
		f.complete(a, ms...)
		f.counts("q", devbus.Counts{})
	}, inSession("a", "a1"))
}
