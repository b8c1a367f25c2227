package devstore_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"

	"kennel/devstore"
)

// A store in memory is the transport of an SDK's client. In a test, it comes
// from devstore.New(t, nil).
func Example() {
	store, err := devstore.Open("", nil)
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()

	options := &azqueue.ClientOptions{}
	options.Transport = store
	options.Retry.RetryDelay = time.Millisecond
	service, err := azqueue.NewServiceClientFromConnectionString(store.InProcess(), options)
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	if _, err := service.CreateQueue(ctx, "orders", nil); err != nil {
		log.Fatal(err)
	}
	queue := service.NewQueueClient("orders")
	if _, err := queue.EnqueueMessage(ctx, "1001", nil); err != nil {
		log.Fatal(err)
	}

	// The next request to the queue gets 500, and the SDK tries it again.
	store.Fail(devstore.Fault{Kind: devstore.Refuse, Service: "queue", Container: "orders", Times: 1})
	got, err := queue.DequeueMessage(ctx, nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(*got.Messages[0].MessageText)
	// Output: 1001
}
