package devbus_test

import (
	"context"
	"errors"
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

// These tests pin what the Go SDK does when things go wrong, because whatever
// is built on it is built around that. One that fails after an update of the
// SDK says that a workaround may go, or that another is needed.

// sendEvery tries to send n times, and returns which tries worked.
func sendEvery(t *testing.T, s *sb.Sender, n int, deadline time.Duration) string {
	t.Helper()
	got := ""
	for range n {
		ctx, cancel := context.WithTimeout(t.Context(), deadline)
		if s.SendMessage(ctx, text("x"), nil) == nil {
			got += "+"
		} else {
			got += "-"
		}
		cancel()
	}
	return got
}

// Trap 1 and 2: a sender reconnects only before a retry. With retries off, or
// with a deadline shorter than the delay before one, it never does.
func TestTrapSenderReconnectsOnlyBeforeARetry(t *testing.T) {
	for _, tt := range []struct {
		name  string
		retry sb.RetryOptions
		want  string
	}{
		{"no retries", sb.RetryOptions{MaxRetries: -1}, "-----"},
		{"default delay, longer than the deadline", sb.RetryOptions{}, "-----"},
		{"short delay", quick, "+++++"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, nil, func(t *testing.T, b *devbus.Broker) {
				must(t, b.CreateQueue("q", nil), "create")
				s := sender(t, dial(t, b, tt.retry), "q")
				must(t, s.SendMessage(t.Context(), text("warm"), nil), "send")
				b.DropConnections()
				time.Sleep(time.Second)
				if got := sendEvery(t, s, 5, 2*time.Second); got != tt.want {
					t.Errorf("after the connection broke, sends went %s, want %s", got, tt.want)
				}
			})
		})
	}
}

// With default options, a broker that refuses connections is reported only
// after the better part of a minute.
func TestTrapDefaultRetriesTakeLong(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, b *devbus.Broker) {
		b.Fail(devbus.Fault{Kind: devbus.RefuseDial})
		start := time.Now()
		err := sender(t, dial(t, b, sb.RetryOptions{}), "q").SendMessage(t.Context(), text("x"), nil)
		if took := time.Since(start); codeOf(err) != sb.CodeConnectionLost || took < 30*time.Second || took > time.Minute {
			t.Errorf("got %v after %v, want code %s after 30 s to 1 min", err, took, sb.CodeConnectionLost)
		}
	})
}

// Trap 3: after a silent loss of the network, everything of a client fails
// until its idle timer has run out; a new client works at once.
func TestTrapClientStaysDeadAfterSilentLoss(t *testing.T) {
	onQueue(t, nil, func(t *testing.T, b *devbus.Broker, client *sb.Client) {
		s := sender(t, client, "q")
		must(t, s.SendMessage(t.Context(), text("warm"), nil), "send")
		b.Fail(devbus.Fault{Kind: devbus.Freeze})
		if got := sendEvery(t, s, 5, 5*time.Second); got != "-----" {
			t.Errorf("sends on the frozen connection went %s", got)
		}
		if got := sendEvery(t, sender(t, client, "q"), 1, 5*time.Second); got != "-" {
			t.Errorf("a new sender of the same client went %s", got)
		}
		if got := sendEvery(t, sender(t, dial(t, b, quick), "q"), 1, 5*time.Second); got != "+" {
			t.Errorf("a new client went %s", got)
		}
		time.Sleep(time.Minute)
		if got := sendEvery(t, s, 2, 5*time.Second); got != "++" {
			t.Errorf("after a minute, sends went %s", got)
		}
		if got := b.Connections(); got != 3 {
			t.Errorf("the broker knows %d connections, want the frozen and two new ones", got)
		}
		time.Sleep(4 * time.Minute)
		if got := b.Connections(); got != 2 {
			t.Errorf("the broker knows %d connections, want it to give up the frozen one", got)
		}
		b.Heal()
	})
}

// Trap 4: a lost connection looks like an empty receive, and a deleted entity
// like a bare link error.
func TestTrapReceiveReturnsNothingWhenTheConnectionBreaks(t *testing.T) {
	onQueue(t, nil, func(t *testing.T, b *devbus.Broker, client *sb.Client) {
		r := receiver(t, client, "q", nil)
		go func() {
			time.Sleep(10 * time.Second)
			b.DropConnections()
			time.Sleep(10 * time.Second)
			b.Delete("q")
		}()
		if ms, err := r.ReceiveMessages(t.Context(), 1, nil); ms != nil || err != nil {
			t.Errorf("connection lost: got %v and %v, want neither messages nor error", ms, err)
		}
		_, err := r.ReceiveMessages(t.Context(), 1, nil)
		if e, ok := errors.AsType[*amqp.LinkError](err); !ok || codeOf(err) != "" || e.RemoteErr.Condition != amqp.ErrCondNotFound {
			t.Errorf("entity deleted: got %T %[1]v, want a bare LinkError with not-found", err)
		}
	})
}

// Trap 5: a message whose DeadLetterReason is not a string makes the SDK
// panic, on receiving and on peeking, again and again.
func TestTrapPoisonPanicsInTheSDK(t *testing.T) {
	onQueue(t, nil, func(t *testing.T, _ *devbus.Broker, client *sb.Client) {
		must(t, sender(t, client, "q").SendMessage(t.Context(), &sb.Message{
			ApplicationProperties: map[string]any{"DeadLetterReason": int64(5)},
		}, nil), "send")
		panics := func(do func(*sb.Receiver)) (value any) {
			r := receiver(t, client, "q", nil)
			defer func() { value = recover() }()
			do(r)
			return nil
		}
		if panics(func(r *sb.Receiver) { r.PeekMessages(t.Context(), 1, nil) }) == nil {
			t.Error("peeking did not panic")
		}
		if panics(func(r *sb.Receiver) { r.ReceiveMessages(t.Context(), 1, nil) }) == nil {
			t.Error("receiving did not panic")
		}
	})
}

// A sender whose link was ended for a reason the SDK holds to be fatal never
// works again, although a new sender of the same client does.
func TestTrapSenderStaysDeadAfterFatalDetach(t *testing.T) {
	onQueue(t, nil, func(t *testing.T, b *devbus.Broker, client *sb.Client) {
		s := sender(t, client, "q")
		must(t, s.SendMessage(t.Context(), text("warm"), nil), "send")
		must(t, b.Delete("q"), "delete")
		must(t, b.CreateQueue("q", nil), "create again")
		time.Sleep(time.Second)
		if got := sendEvery(t, s, 5, time.Minute); got != "-----" {
			t.Errorf("sends went %s, want all to fail", got)
		}
		if got := sendEvery(t, sender(t, client, "q"), 1, time.Minute); got != "+" {
			t.Errorf("a new sender went %s", got)
		}
	})
}

// Without credit, a send that runs into its deadline shows another error.
func TestTrapSendWithoutCredit(t *testing.T) {
	onQueue(t, nil, func(t *testing.T, b *devbus.Broker, _ *sb.Client) {
		s := sender(t, dial(t, b, sb.RetryOptions{MaxRetries: -1}), "q")
		must(t, s.SendMessage(t.Context(), text("warm"), nil), "send")
		b.Fail(devbus.Fault{Kind: devbus.Freeze}) // so that no new credit comes
		var last error
		for range 1001 {
			last = s.SendMessage(within(t, time.Millisecond), text("x"), nil)
		}
		if codeOf(last) != sb.CodeConnectionLost || !strings.Contains(last.Error(), "amqp:link:transfer-limit-exceeded") {
			t.Errorf("got %v, want transfer-limit-exceeded as a lost connection", last)
		}
		b.Heal()
	})
}

// One SendMessage can store a message twice: its retry repeats what may have
// arrived. Without a message-id the duplicate cannot be detected.
func TestTrapRetryStoresTwice(t *testing.T) {
	for _, tt := range []struct {
		id   *string
		want int
	}{{nil, 2}, {to.Ptr("m1"), 1}} {
		onQueue(t, &devbus.Settings{DuplicateWindow: time.Minute}, func(t *testing.T, b *devbus.Broker, client *sb.Client) {
			b.Fail(devbus.Fault{Kind: devbus.CloseAfter, Times: 1})
			must(t, sender(t, client, "q").SendMessage(t.Context(), &sb.Message{MessageID: tt.id}, nil), "send")
			wantCounts(t, b, "q", devbus.Counts{Ready: tt.want})
		})
	}
}

// everything is a message that uses all that AMQP has.
func everything() *sb.AMQPAnnotatedMessage {
	return &sb.AMQPAnnotatedMessage{
		Header: &sb.AMQPAnnotatedMessageHeader{Durable: true, Priority: 7, TTL: time.Hour},
		Properties: &sb.AMQPAnnotatedMessageProperties{
			MessageID: uint64(42), UserID: []byte("u"), To: to.Ptr("to"), Subject: to.Ptr("s"), ReplyTo: to.Ptr("r"),
			CorrelationID: amqp.UUID{1, 2, 3}, ContentType: to.Ptr("ct"), ContentEncoding: to.Ptr("gzip"),
			AbsoluteExpiryTime: &moment, CreationTime: &moment, GroupID: to.Ptr("g"), GroupSequence: to.Ptr[uint32](3), ReplyToGroupID: to.Ptr("rg"),
		},
		ApplicationProperties: map[string]any{
			"bool": true, "byte": uint8(1), "short": int16(-2), "int": int32(-3), "long": int64(-4), "ubyte": int8(-5), "ushort": uint16(6),
			"uint": uint32(7), "ulong": uint64(1 << 63), "float": float32(1.5), "double": 2.5, "text": "x", "none": nil,
		},
		MessageAnnotations: map[any]any{"x-opt-partition-key": "g", "mine": "note"},
		Body:               sb.AMQPAnnotatedMessageBody{Value: map[string]any{"k": []any{int64(1), "two"}}},
		Footer:             map[any]any{"f": "x"},
	}
}

// Forwarding with Message() loses what the raw message keeps.
func TestTrapMessageLosesWhatTheRawMessageKeeps(t *testing.T) {
	onQueue(t, nil, func(t *testing.T, _ *devbus.Broker, client *sb.Client) {
		must(t, sender(t, client, "q").SendAMQPAnnotatedMessage(t.Context(), everything(), nil), "send")
		got := receive(t, receiver(t, client, "q", nil), 1)[0]
		if m := got.Message(); *m.MessageID != "" || m.Body != nil {
			t.Errorf("Message() has id %q and body %q: the trap is gone", *m.MessageID, m.Body)
		}
		raw, want := got.RawAMQPMessage, everything()
		diff := cmp.Diff(want, raw, cmpopts.IgnoreUnexported(*raw), cmpopts.IgnoreFields(*raw, "Header.DeliveryCount", "DeliveryTag", "MessageAnnotations"))
		if diff != "" || raw.MessageAnnotations["mine"] != "note" {
			t.Errorf("the raw message has annotations %v (-want +got):\n%s", raw.MessageAnnotations, diff)
		}
	})
}
