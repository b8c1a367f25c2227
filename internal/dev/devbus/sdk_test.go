package devbus_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	sb "github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/admin"

	"kennel/internal/dev/devbus"
)

// This file holds what the tests with the Go SDK share.

// anyNamespace looks like production: nothing in it says where the broker is.
const anyNamespace = "Endpoint=sb://contoso.servicebus.windows.net/;SharedAccessKeyName=RootManageSharedAccessKey;SharedAccessKey=c2VjcmV0"

// quick makes the SDK try again soon, and once only.
var quick = sb.RetryOptions{MaxRetries: 1, RetryDelay: 50 * time.Millisecond}

// inBubble runs a test in virtual time, on a broker of its own. It fails if a
// goroutine outlives the test.
func inBubble(t *testing.T, o *devbus.Options, test func(t *testing.T, b *devbus.Broker)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := devbus.New(o)
		t.Cleanup(b.Close)
		test(t, b)
	})
}

// dial connects a new SDK client to the broker, in-process. It is closed when
// the test ends, before the broker.
func dial(t *testing.T, b *devbus.Broker, retry sb.RetryOptions) *sb.Client {
	t.Helper()
	client, err := sb.NewClientFromConnectionString(anyNamespace, &sb.ClientOptions{
		RetryOptions: retry,
		NewWebSocketConn: func(context.Context, sb.NewWebSocketConnArgs) (net.Conn, error) {
			return b.Dial(), nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close(context.Background()) })
	return client
}

func administer(t *testing.T, b *devbus.Broker) *admin.Client {
	t.Helper()
	client, err := admin.NewClientFromConnectionString(anyNamespace, &admin.ClientOptions{
		ClientOptions: azcore.ClientOptions{Transport: b.AdminTransport()},
	})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// overTCP serves a broker on this machine, and returns clients of it.
func overTCP(t *testing.T) (*devbus.Broker, *sb.Client, *admin.Client) {
	t.Helper()
	b, err := devbus.Listen(nil)
	must(t, err, "listen")
	client, err := sb.NewClientFromConnectionString(b.ConnectionString(), &sb.ClientOptions{RetryOptions: quick})
	must(t, err, "connect")
	adm, err := admin.NewClientFromConnectionString(b.ConnectionString(), &admin.ClientOptions{
		ClientOptions: azcore.ClientOptions{Transport: plainHTTP{}},
	})
	must(t, err, "connect the administrator")
	t.Cleanup(func() {
		client.Close(context.Background())
		b.Close()
	})
	return b.Broker, client, adm
}

// plainHTTP sends requests by HTTP. The SDK makes all of them HTTPS.
type plainHTTP struct{}

func (plainHTTP) Do(r *http.Request) (*http.Response, error) {
	plain := r.Clone(r.Context())
	plain.URL.Scheme = "http"
	return http.DefaultClient.Do(plain)
}

// within is a context for one operation.
func within(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// must fails the test unless an operation, described for the message, worked.
func must(t *testing.T, err error, format string, args ...any) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: %v", fmt.Sprintf(format, args...), err)
	}
}

func text(body string) *sb.Message { return &sb.Message{Body: []byte(body)} }

// sender and receiver cannot fail for a client that is open.

func sender(t *testing.T, c *sb.Client, entity string) *sb.Sender {
	t.Helper()
	s, err := c.NewSender(entity, nil)
	must(t, err, "sender for %s", entity)
	return s
}

func receiver(t *testing.T, c *sb.Client, queue string, o *sb.ReceiverOptions) *sb.Receiver {
	t.Helper()
	r, err := c.NewReceiverForQueue(queue, o)
	must(t, err, "receiver for %s", queue)
	return r
}

func subscriber(t *testing.T, c *sb.Client, topic, subscription string, o *sb.ReceiverOptions) *sb.Receiver {
	t.Helper()
	r, err := c.NewReceiverForSubscription(topic, subscription, o)
	must(t, err, "receiver for %s of %s", subscription, topic)
	return r
}

// messages is what receivers and session receivers have in common.
type messages interface {
	ReceiveMessages(context.Context, int, *sb.ReceiveMessagesOptions) ([]*sb.ReceivedMessage, error)
}

// receive waits for exactly n messages.
func receive(t *testing.T, r messages, n int) []*sb.ReceivedMessage {
	t.Helper()
	var got []*sb.ReceivedMessage
	for len(got) < n {
		ms, err := r.ReceiveMessages(within(t, 2*time.Hour), n-len(got), nil)
		if err != nil {
			t.Fatalf("received %d of %d messages: %v", len(got), n, err)
		}
		got = append(got, ms...)
	}
	return got
}

// receiveNone waits for messages that must not come.
func receiveNone(t *testing.T, r messages, wait time.Duration) {
	t.Helper()
	ms, err := r.ReceiveMessages(within(t, wait), 1, nil)
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("got %d messages and error %v, want none before the deadline", len(ms), err)
	}
}

func bodies(ms []*sb.ReceivedMessage) []string {
	var out []string
	for _, m := range ms {
		out = append(out, string(m.Body))
	}
	return out
}

func wantCounts(t *testing.T, b *devbus.Broker, path string, want devbus.Counts) {
	t.Helper()
	got, err := b.Counts(path)
	must(t, err, "count %s", path)
	if got != want {
		t.Errorf("%s holds %+v, want %+v", path, got, want)
	}
}

// codeOf is the SDK's code for an error, or "".
func codeOf(err error) sb.Code {
	if e, ok := errors.AsType[*sb.Error](err); ok {
		return e.Code
	}
	return ""
}
