package azurestore_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"

	"kennel/azurestore"
	"kennel/gate"
	"kennel/ids"
	"kennel/queue"
	"kennel/relay"
)

// A program draws order numbers of its own with an identity.
func ExampleNewSequences() {
	ctx := context.Background()
	credential, err := azidentity.NewDefaultAzureCredential(nil)
	if err != nil {
		log.Fatal(err)
	}
	blobs, err := azurestore.NewBlobs("https://kennel.blob.core.windows.net", credential)
	if err != nil {
		log.Fatal(err)
	}
	orders, err := ids.New(azurestore.NewSequences(blobs, azurestore.SequencesContainer), "orders", nil)
	if err != nil {
		log.Fatal(err)
	}
	defer orders.Close(ctx)
	fmt.Println(orders.Next(ctx))
}

// A gate that signals open at once, and not at the next poll.
func ExampleNewGates() {
	const storage, bus = "UseDevelopmentStorage=true", "Endpoint=sb://…"
	blobs, err := azurestore.NewBlobsFromConnectionString(storage)
	if err != nil {
		log.Fatal(err)
	}
	signals, err := azurestore.NewSignalsFromConnectionString(bus, azurestore.SignalsTopic)
	if err != nil {
		log.Fatal(err)
	}
	defer signals.Close()
	gates, err := gate.New(azurestore.NewGates(blobs, azurestore.GatesContainer), &gate.Options{Signals: signals})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(gates.Release(context.Background(), "start", gate.Change{By: "ann"}))
}

// A publisher puts a message that never expires.
func ExampleNewQueues() {
	ctx := context.Background()
	credential, err := azidentity.NewDefaultAzureCredential(nil)
	if err != nil {
		log.Fatal(err)
	}
	queues, err := azurestore.NewQueues("https://kennel.queue.core.windows.net", credential,
		&azurestore.QueuesOptions{Endless: func(string) bool { return true }})
	if err != nil {
		log.Fatal(err)
	}
	publisher, err := queue.NewPublisher(queues, nil)
	if err != nil {
		log.Fatal(err)
	}
	if err := publisher.Publish(ctx, "orders", "order 7", 0); err != nil {
		log.Fatal(err)
	}
}

// A listener works on messages of any length. examples/queuealone is the whole
// program.
func ExampleNewClaims() {
	ctx := context.Background()
	const storage = "UseDevelopmentStorage=true"
	queues, err := azurestore.NewQueuesFromConnectionString(storage, nil)
	if err != nil {
		log.Fatal(err)
	}
	tables, err := azurestore.NewTablesFromConnectionString(storage)
	if err != nil {
		log.Fatal(err)
	}
	blobs, err := azurestore.NewBlobsFromConnectionString(storage)
	if err != nil {
		log.Fatal(err)
	}
	claims, err := azurestore.NewClaims(tables, blobs, &azurestore.ClaimsOptions{Table: "OrderClaims", Container: "order-claims"})
	if err != nil {
		log.Fatal(err)
	}
	work := func(ctx context.Context, d queue.Delivery[[]byte]) error {
		fmt.Println(d.ID, len(d.Body))
		return nil
	}
	listener, err := queue.NewListener(queues, []string{"orders"}, queue.Packed{Claims: claims}, work, nil)
	if err != nil {
		log.Fatal(err)
	}
	log.Fatal(listener.Run(ctx))
}

// The primary namespace takes the message, or during its outage the secondary.
// examples/relayalone is the whole program.
func ExampleNewRelay() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	credential, err := azidentity.NewDefaultAzureCredential(nil)
	if err != nil {
		log.Fatal(err)
	}
	primary, err := azurestore.NewRelay("orders.servicebus.windows.net", credential)
	if err != nil {
		log.Fatal(err)
	}
	secondary, err := azurestore.NewRelay("orders-west.servicebus.windows.net", credential)
	if err != nil {
		log.Fatal(err)
	}
	queues := relay.BacklogQueues("orders", 2) // the same in every process
	if _, err := relay.EnsureQueues(ctx, secondary, queues); err != nil {
		log.Fatal(err)
	}
	sender, err := relay.NewSender(primary, secondary, queues, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer sender.Close(ctx)
	fmt.Println(sender.Send(ctx, "orders", &relay.Message{Body: relay.Body{Data: [][]byte{[]byte("order 7")}}}))
}
