package relay_test

import (
	"context"
	"fmt"
	"time"

	"kennel/relay"
)

// The primary refuses connections, so the message goes to the backlog. Later a
// syphon moves it to its entity.
func Example() {
	primary, secondary := newBus("orders"), newBus(queues...) // of the adapter, in a program
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	primary.set(always(refuse))

	sender := relay.NewSender(primary, secondary, queues, &relay.Options{Interval: -1})
	defer sender.Close(ctx)
	receipt, err := sender.Send(ctx, "orders", text("order-1"))
	fmt.Println(receipt.MessageID, receipt.Backlog, err)
	fmt.Println(sender.Status()[0].State)

	primary.set(nil)
	syphon := relay.NewSyphon(primary, secondary, queues, nil)
	defer syphon.Close(ctx)
	result, err := syphon.Pass(ctx)
	fmt.Println(result.Moved, err, len(primary.got("orders")))
	// Output:
	// order-1 true <nil>
	// failedOver
	// 1 <nil> 1
}
