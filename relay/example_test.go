package relay_test

import (
	"context"
	"fmt"
	"log"
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

	atFirstFailure := new(time.Duration)
	sender, err := relay.NewSender(primary, secondary, queues, &relay.Options{Interval: atFirstFailure})
	if err != nil {
		log.Fatal(err)
	}
	defer sender.Close(ctx)
	receipt, err := sender.Send(ctx, "orders", text("order-1"))
	fmt.Println(receipt.MessageID, receipt.Backlog, err)
	fmt.Println(sender.Status()[0].State)

	primary.set(nil)
	syphon, err := relay.NewSyphon(primary, secondary, queues, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer syphon.Close(ctx)
	result, err := syphon.Pass(ctx)
	fmt.Println(result.Moved, err, len(primary.got("orders")))
	// Output:
	// order-1 true <nil>
	// failedOver
	// 1 <nil> 1
}
