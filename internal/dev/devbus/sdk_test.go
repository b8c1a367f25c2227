package devbus_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	sb "github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/admin"
	"github.com/Azure/go-amqp"

	"kennel/internal/dev/devbus"
)

// anyNamespace has the form of a production connection string.
const anyNamespace = "Endpoint=sb://contoso.servicebus.windows.net/;SharedAccessKeyName=RootManageSharedAccessKey;SharedAccessKey=c2VjcmV0"

// Retry policies of clients. quick retries once, after 50 ms.
var (
	quick     = sb.RetryOptions{MaxRetries: 1, RetryDelay: 50 * time.Millisecond}
	noRetries = sb.RetryOptions{MaxRetries: -1}
)

// Kinds of receivers.
var (
	deletes     = &sb.ReceiverOptions{ReceiveMode: sb.ReceiveModeReceiveAndDelete}
	deadLetters = &sb.ReceiverOptions{SubQueue: sb.SubQueueDeadLetter}
)

// fixture is a test of a broker with the Go SDK.
type fixture struct {
	*testing.T
	b      *devbus.Broker
	client *sb.Client
}

// inBubble runs a test in virtual time, on a new broker. It fails if a
// goroutine outlives the test.
func inBubble(t *testing.T, test func(*fixture)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := devbus.New(nil)
		t.Cleanup(b.Close)
		f := &fixture{T: t, b: b}
		f.client = f.dial(quick)
		test(f)
	})
}

// onQueue runs a test on the queue "q" with settings. It creates the queue as
// "Q", because paths ignore case.
func onQueue(t *testing.T, s *devbus.Settings, test func(*fixture)) {
	t.Helper()
	inBubble(t, func(f *fixture) {
		f.must(f.b.CreateQueue("Q", s), "create a queue")
		test(f)
	})
}

// onTopic runs a test on the topic "t" with the subscriptions "one" and "two".
func onTopic(t *testing.T, topic, subscription *devbus.Settings, test func(*fixture)) {
	t.Helper()
	inBubble(t, func(f *fixture) {
		f.must(f.b.CreateTopic("t", topic), "create a topic")
		f.must(f.b.CreateSubscription("t", "one", subscription), "create a subscription")
		f.must(f.b.CreateSubscription("t", "two", subscription), "create a subscription")
		test(f)
	})
}

// dial connects a new client to the broker, in-process.
func (f *fixture) dial(retry sb.RetryOptions) *sb.Client {
	f.Helper()
	client, err := sb.NewClientFromConnectionString(anyNamespace, &sb.ClientOptions{
		RetryOptions: retry,
		NewWebSocketConn: func(context.Context, sb.NewWebSocketConnArgs) (net.Conn, error) {
			return f.b.Dial(), nil
		},
	})
	f.must(err, "connect")
	f.Cleanup(func() { client.Close(context.Background()) })
	return client
}

func (f *fixture) administer() *admin.Client {
	f.Helper()
	client, err := admin.NewClientFromConnectionString(anyNamespace, &admin.ClientOptions{
		ClientOptions: azcore.ClientOptions{Transport: f.b.AdminTransport()},
	})
	f.must(err, "connect the administrator")
	return client
}

// within returns a context for one operation.
func (f *fixture) within(d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(f.Context(), d)
	f.Cleanup(cancel)
	return ctx
}

// must ends the test if the operation failed.
func (f *fixture) must(err error, operation string) {
	f.Helper()
	if err != nil {
		f.Fatalf("%s: %v", operation, err)
	}
}

// equal checks a value.
func equal[V comparable](f *fixture, what string, got, want V) {
	f.Helper()
	if got != want {
		f.Errorf("%s: got %v, want %v", what, got, want)
	}
}

func (f *fixture) counts(path string, want devbus.Counts) {
	f.Helper()
	got, err := f.b.Counts(path)
	f.must(err, "count "+path)
	equal(f, path, got, want)
}

// fails expects an error with the SDK's code.
func (f *fixture) fails(operation string, err error, code sb.Code) {
	f.Helper()
	if codeOf(err) != code {
		f.Errorf("%s: got %v, want code %s", operation, err, code)
	}
}

// codeOf returns the SDK's code of an error, or "".
func codeOf(err error) sb.Code {
	if e, ok := errors.AsType[*sb.Error](err); ok {
		return e.Code
	}
	return ""
}

// conditionOf returns the AMQP condition of an error that the SDK does not
// wrap, or "".
func conditionOf(err error) amqp.ErrCond {
	if e, ok := errors.AsType[*amqp.LinkError](err); ok && e.RemoteErr != nil {
		return e.RemoteErr.Condition
	}
	if e, ok := errors.AsType[*amqp.Error](err); ok {
		return e.Condition
	}
	return ""
}

func text(body string) *sb.Message { return &sb.Message{Body: []byte(body)} }

func (f *fixture) sender(entity string) *sb.Sender {
	f.Helper()
	s, err := f.client.NewSender(entity, nil)
	f.must(err, "sender for "+entity)
	return s
}

// connected returns a sender for the queue "q" that has sent a message.
func (f *fixture) connected() *sb.Sender {
	f.Helper()
	s := f.sender("q")
	f.must(s.SendMessage(f.Context(), text("before"), nil), "connect a sender")
	return s
}

// send sends messages to an entity, one at a time.
func (f *fixture) send(entity string, messages ...*sb.Message) {
	f.Helper()
	s := f.sender(entity)
	for _, m := range messages {
		f.must(s.SendMessage(f.Context(), m, nil), "send to "+entity)
	}
}

func (f *fixture) queueReceiver(queue string, o *sb.ReceiverOptions) *sb.Receiver {
	f.Helper()
	r, err := f.client.NewReceiverForQueue(queue, o)
	f.must(err, "receiver for "+queue)
	return r
}

// receiver returns a receiver for the queue "q".
func (f *fixture) receiver(o *sb.ReceiverOptions) *sb.Receiver { return f.queueReceiver("q", o) }

// subscriber returns a receiver for a subscription of the topic "t".
func (f *fixture) subscriber(subscription string, o *sb.ReceiverOptions) *sb.Receiver {
	f.Helper()
	r, err := f.client.NewReceiverForSubscription("t", subscription, o)
	f.must(err, "receiver")
	return r
}

// receiving is the interface that receivers and session receivers share.
type receiving interface {
	ReceiveMessages(context.Context, int, *sb.ReceiveMessagesOptions) ([]*sb.ReceivedMessage, error)
	CompleteMessage(context.Context, *sb.ReceivedMessage, *sb.CompleteMessageOptions) error
}

// receive waits for exactly n messages.
func (f *fixture) receive(r receiving, n int) []*sb.ReceivedMessage {
	f.Helper()
	var got []*sb.ReceivedMessage
	for len(got) < n {
		ms, err := r.ReceiveMessages(f.within(2*time.Hour), n-len(got), nil)
		if err != nil {
			f.Fatalf("received %d of %d messages: %v", len(got), n, err)
		}
		got = append(got, ms...)
	}
	return got
}

func (f *fixture) receiveOne(r receiving) *sb.ReceivedMessage { f.Helper(); return f.receive(r, 1)[0] }

// receiveNone waits, and fails the test if a message arrives.
func (f *fixture) receiveNone(r receiving, wait time.Duration) {
	f.Helper()
	ms, err := r.ReceiveMessages(f.within(wait), 1, nil)
	if !errors.Is(err, context.DeadlineExceeded) {
		f.Fatalf("got %d messages and error %v, want none before the deadline", len(ms), err)
	}
}

func (f *fixture) complete(r receiving, messages ...*sb.ReceivedMessage) {
	f.Helper()
	for _, m := range messages {
		f.must(r.CompleteMessage(f.Context(), m, nil), "complete")
	}
}

// bodies returns the bodies of messages as "[a b]".
func bodies(ms []*sb.ReceivedMessage) string {
	var out []string
	for _, m := range ms {
		out = append(out, string(m.Body))
	}
	return fmt.Sprint(out)
}
