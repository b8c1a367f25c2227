package devbus_test

import (
	"context"
	"errors"
	"fmt"
	"net"

	sb "github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"

	"kennel/internal/dev/devbus"
)

// The SDK is used as in production, except that NewWebSocketConn connects it to
// the broker.
func Example() {
	ctx := context.Background()
	b := devbus.New(nil)
	defer b.Close()
	b.CreateQueue("orders", nil)

	client, _ := sb.NewClientFromConnectionString(
		"Endpoint=sb://contoso.servicebus.windows.net/;SharedAccessKeyName=k;SharedAccessKey=s",
		&sb.ClientOptions{NewWebSocketConn: func(context.Context, sb.NewWebSocketConnArgs) (net.Conn, error) {
			return b.Dial(), nil
		}})
	defer client.Close(ctx)

	sender, _ := client.NewSender("orders", nil)
	fmt.Println("sent:", sender.SendMessage(ctx, &sb.Message{Body: []byte("one order")}, nil))

	b.Fail(devbus.Fault{Kind: devbus.Reject, Entity: "orders", Condition: "amqp:unauthorized-access"})
	err := sender.SendMessage(ctx, &sb.Message{Body: []byte("another")}, nil)
	e, _ := errors.AsType[*sb.Error](err)
	fmt.Println("under a fault:", e.Code)
	b.Heal()

	receiver, _ := client.NewReceiverForQueue("orders", nil)
	messages, _ := receiver.ReceiveMessages(ctx, 10, nil)
	for _, m := range messages {
		fmt.Printf("received: %s\n", m.Body)
		receiver.CompleteMessage(ctx, m, nil)
	}
	counts, _ := b.Counts("orders")
	fmt.Printf("left: %+v\n", counts)
	// Output:
	// sent: <nil>
	// under a fault: unauthorized
	// received: one order
	// left: {Ready:0 Locked:0 Deferred:0 Scheduled:0 DeadLetters:0}
}
