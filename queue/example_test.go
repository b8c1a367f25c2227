package queue_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"kennel/internal/memory"
	"kennel/queue"
)

// A receiver renews its lease while it works and deletes the message when it is
// done, always with the newest receipt.
func Example() {
	ctx := context.Background()
	queues := memory.NewQueues(nil)
	if _, err := queues.Put(ctx, "work", "resize photo 7", 0); err != nil {
		log.Fatal(err)
	}
	messages, err := queues.Receive(ctx, "work", 1, 30*time.Second)
	if err != nil {
		log.Fatal(err)
	}
	m := messages[0]
	fmt.Println(m.Body, m.DequeueCount)

	renewed, err := queues.Update(ctx, "work", m, 30*time.Second)
	if err != nil {
		log.Fatal(err)
	}
	err = queues.Delete(ctx, "work", m)
	fmt.Println("with the old receipt:", errors.Is(err, queue.ErrLeaseLost))
	err = queues.Delete(ctx, "work", renewed)
	fmt.Println("with the new one:", err)

	// Output:
	// resize photo 7 1
	// with the old receipt: true
	// with the new one: <nil>
}
