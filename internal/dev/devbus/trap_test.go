package devbus_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	sb "github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/go-amqp"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"kennel/internal/dev/devbus"
)

// These tests record the behaviour of the Go SDK after failures, because its
// callers depend on it. If a test fails after an update of the SDK, a
// workaround can be removed, or a new one is needed.

// sendEvery sends n times. It returns + for each success and - for each
// failure.
func (f *fixture) sendEvery(s *sb.Sender, n int, deadline time.Duration) string {
	f.Helper()
	got := ""
	for range n {
		if s.SendMessage(f.within(deadline), text("x"), nil) == nil {
			got += "+"
		} else {
			got += "-"
		}
	}
	return got
}

// Traps 1 and 2: a sender reconnects only before a retry. Without retries, or
// with a deadline shorter than the delay before a retry, it never reconnects.
func TestTrapSenderReconnectsOnlyBeforeARetry(t *testing.T) {
	for _, tt := range []struct {
		retry sb.RetryOptions
		want  string
	}{{noRetries, "-----"}, {sb.RetryOptions{}, "-----"}, {quick, "+++++"}} {
		onQueue(t, nil, func(f *fixture) {
			f.client = f.dial(tt.retry)
			s := f.connected()
			f.b.DropConnections()
			time.Sleep(time.Second)
			equal(f, fmt.Sprintf("with %+v", tt.retry), f.sendEvery(s, 5, 2*time.Second), tt.want)
		})
	}
}

// Not a trap: the service detaches a sender that is idle for ten minutes, and
// later closes its connection. The SDK reconnects such a sender immediately,
// even without retries. By renewing tokens, it also opens a new connection.
func TestIdleSenderReconnects(t *testing.T) {
	onQueue(t, nil, func(f *fixture) {
		f.client = f.dial(noRetries)
		s := f.connected()
		for range 2 {
			attached, connections := f.b.Stats().Attached, f.b.Stats().Connections
			time.Sleep(10*time.Minute + time.Second)
			equal(f, "after 10 minutes", f.sendEvery(s, 2, time.Second), "++")
			equal(f, "reconnected on the same connection", f.b.Stats().Attached > attached && f.b.Stats().Connections == connections, true)
			time.Sleep(15*time.Minute + time.Second)
			equal(f, "connections", f.b.Stats().Connections, connections+1)
			equal(f, "after 15 minutes", f.sendEvery(s, 2, time.Second), "++")
		}
	})
}

// With default options, the SDK reports a broker that refuses connections only
// after 30 s to a minute.
func TestTrapDefaultRetriesTakeLong(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.b.Fail(devbus.Fault{Kind: devbus.RefuseDial})
		f.client = f.dial(sb.RetryOptions{})
		start := time.Now()
		f.fails("send", f.sender("q").SendMessage(f.Context(), text("x"), nil), sb.CodeConnectionLost)
		if took := time.Since(start); took < 30*time.Second || took > time.Minute {
			t.Errorf("it took %v, want 30 s to 1 min", took)
		}
	})
}

// Trap 3: after a silent loss of the network, all operations of a client fail
// until its idle timer expires. A new client works immediately. The broker
// closes the old connection after its own idle timeout.
func TestTrapClientFailsAfterSilentLoss(t *testing.T) {
	onQueue(t, nil, func(f *fixture) {
		s := f.connected()
		f.b.Fail(devbus.Fault{Kind: devbus.Freeze})
		equal(f, "the sender", f.sendEvery(s, 5, 5*time.Second), "-----")
		equal(f, "a new sender of the same client", f.sendEvery(f.sender("q"), 1, 5*time.Second), "-")
		f.client = f.dial(quick)
		equal(f, "a new client", f.sendEvery(f.sender("q"), 1, 5*time.Second), "+")
		time.Sleep(time.Minute)
		equal(f, "the sender after a minute", f.sendEvery(s, 2, 5*time.Second), "++")
		equal(f, "connections, with the frozen one", f.b.Connections(), 3)
		time.Sleep(4 * time.Minute)
		equal(f, "connections", f.b.Connections(), 2)
		f.b.Heal()
	})
}

// Trap 4: if the connection is lost, a receive returns no messages and no
// error. If the entity is deleted, it returns a bare link error.
func TestTrapReceiveReturnsNothingWhenTheConnectionBreaks(t *testing.T) {
	onQueue(t, nil, func(f *fixture) {
		r := f.receiver(nil)
		time.AfterFunc(10*time.Second, f.b.DropConnections)
		time.AfterFunc(20*time.Second, func() { f.b.Delete("Q") })
		if ms, err := r.ReceiveMessages(f.Context(), 1, nil); ms != nil || err != nil {
			t.Errorf("connection lost: got %v and %v, want neither messages nor error", ms, err)
		}
		_, err := r.ReceiveMessages(f.Context(), 1, nil)
		if !strings.Contains(err.Error(), "could not be found") { // other SDKs search for it
			t.Errorf("the entity was deleted: got %v", err)
		}
		equal(f, "bare not-found when the entity is deleted", isBare(amqp.ErrCondNotFound)(err), true)
	})
}

// Trap 5: a message whose DeadLetterReason is not a string makes the SDK
// panic on each receive and each peek.
func TestTrapSDKPanicsOnMessage(t *testing.T) {
	onQueue(t, nil, func(f *fixture) {
		f.send("q", &sb.Message{ApplicationProperties: map[string]any{"DeadLetterReason": int64(5)}})
		for name, do := range map[string]func(*sb.Receiver){
			"peeking":   func(r *sb.Receiver) { r.PeekMessages(f.Context(), 1, nil) },
			"receiving": func(r *sb.Receiver) { r.ReceiveMessages(f.Context(), 1, nil) },
		} {
			func() {
				defer func() {
					if recover() == nil {
						t.Errorf("%s did not panic", name)
					}
				}()
				do(f.receiver(nil))
			}()
		}
	})
}

// After the broker ends its link for a reason that the SDK treats as fatal, a
// sender never works again, although a new sender of the same client does.
func TestTrapSenderFailsAfterFatalDetach(t *testing.T) {
	onQueue(t, nil, func(f *fixture) {
		s := f.connected()
		f.must(f.b.Delete("q"), "delete")
		f.must(f.b.CreateQueue("q", nil), "create again")
		time.Sleep(time.Second)
		equal(f, "the sender", f.sendEvery(s, 5, time.Minute), "-----")
		equal(f, "a new sender", f.sendEvery(f.sender("q"), 1, time.Minute), "+")
	})
}

// Without credit, a send that reaches its deadline returns another error.
func TestTrapSendWithoutCredit(t *testing.T) {
	onQueue(t, nil, func(f *fixture) {
		f.client = f.dial(noRetries)
		s := f.connected()
		f.b.Fail(devbus.Fault{Kind: devbus.Freeze}) // so that no new credit arrives
		f.sendEvery(s, 1000, time.Millisecond)
		err := s.SendMessage(f.within(time.Millisecond), text("x"), nil)
		if codeOf(err) != sb.CodeConnectionLost || !strings.Contains(err.Error(), "amqp:link:transfer-limit-exceeded") {
			t.Errorf("got %v, want transfer-limit-exceeded as a lost connection", err)
		}
		f.b.Heal()
	})
}

// One SendMessage can store a message twice, because its retry repeats a send
// that may have arrived. Without a message-id the broker cannot detect the
// duplicate.
func TestTrapRetryStoresTwice(t *testing.T) {
	for want, id := range map[int]*string{2: nil, 1: to.Ptr("m1")} {
		onQueue(t, &devbus.Settings{DuplicateWindow: time.Minute}, func(f *fixture) {
			f.b.Fail(devbus.Fault{Kind: devbus.CloseAfter, Times: 1})
			f.send("q", &sb.Message{MessageID: id})
			f.counts("q", devbus.Counts{Ready: want})
		})
	}
}

var moment = time.Date(2024, 2, 29, 12, 30, 15, 250e6, time.UTC)

// fullMessage is a message with every section and every type that AMQP has.
func fullMessage() *sb.AMQPAnnotatedMessage {
	return &sb.AMQPAnnotatedMessage{
		Header: &sb.AMQPAnnotatedMessageHeader{Durable: true, Priority: 7, TTL: time.Hour},
		Properties: &sb.AMQPAnnotatedMessageProperties{
			MessageID: uint64(42), UserID: []byte("u"), To: to.Ptr("to"), Subject: to.Ptr("s"), ReplyTo: to.Ptr("r"),
			CorrelationID: amqp.UUID{1, 2, 3}, ContentType: to.Ptr("ct"), ContentEncoding: to.Ptr("gzip"),
			AbsoluteExpiryTime: &moment, CreationTime: &moment, GroupID: to.Ptr("g"), GroupSequence: to.Ptr[uint32](3), ReplyToGroupID: to.Ptr("rg"),
		},
		ApplicationProperties: map[string]any{
			"bool": true, "byte": uint8(1), "short": int16(-2), "int": int32(-3), "long": int64(-4), "ubyte": int8(-5), "ushort": uint16(6),
			"uint": uint32(7), "ulong": uint64(1 << 63), "float": float32(1.5), "double": 2.5, "text": "x", "none": nil, "date": moment,
		},
		DeliveryAnnotations: map[any]any{"hop": "text", "x-opt-lock-token": amqp.UUID{1}},
		MessageAnnotations:  map[any]any{"x-opt-partition-key": "g", "mine": "text"},
		Body:                sb.AMQPAnnotatedMessageBody{Value: map[string]any{"k": []any{int64(1), "two"}}},
		Footer:              map[any]any{"f": "x"},
	}
}

// Forwarding with Message() loses sections that the raw message keeps.
func TestTrapMessageLosesWhatTheRawMessageKeeps(t *testing.T) {
	onQueue(t, nil, func(f *fixture) {
		f.must(f.sender("q").SendAMQPAnnotatedMessage(f.Context(), fullMessage(), nil), "send")
		got := f.receiveOne(f.receiver(nil))
		if m := got.Message(); *m.MessageID != "" || m.Body != nil {
			t.Errorf("Message() has id %q and body %q, want neither; the workaround can be removed", *m.MessageID, m.Body)
		}
		raw, want := got.RawAMQPMessage, fullMessage()
		want.DeliveryAnnotations["x-opt-lock-token"] = amqp.UUID(got.LockToken)
		want.MessageAnnotations["x-opt-sequence-number"] = int64(1)
		want.MessageAnnotations["x-opt-enqueued-time"] = *got.EnqueuedTime
		want.MessageAnnotations["x-opt-locked-until"] = *got.LockedUntil
		diff := cmp.Diff(want, raw, cmpopts.IgnoreUnexported(*raw), cmpopts.IgnoreFields(*raw, "Header.DeliveryCount", "DeliveryTag"))
		if diff != "" {
			t.Errorf("the raw message differs (-want +got):\n%s", diff)
		}
	})
}
