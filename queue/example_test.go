package queue_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"sync"
	"sync/atomic"
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

// A listener works on the messages of several queues until it is stopped.
func ExampleListener() {
	queues, signals := memory.NewQueues(nil), memory.NewQueueSignals(nil)
	ctx, stop := context.WithCancel(context.Background())
	defer stop()

	publisher, err := queue.NewPublisher(queues, &queue.PublisherOptions{Signals: signals})
	if err != nil {
		log.Fatal(err)
	}
	var running sync.WaitGroup
	running.Go(func() { publisher.Run(ctx) })

	var done atomic.Int64
	resize := func(ctx context.Context, d queue.Delivery[string]) error {
		fmt.Println(d.Queue, d.Body, d.Attempt)
		if done.Add(1) == 2 {
			stop()
		}
		return nil
	}
	listener, err := queue.NewListener(queues, []string{"work-0", "work-1"}, queue.Text{}, resize,
		&queue.ListenerOptions{Signals: signals, Hands: 2})
	if err != nil {
		log.Fatal(err)
	}
	running.Go(func() {
		if err := listener.Run(ctx); err != nil {
			log.Fatal(err)
		}
	})
	if err := publisher.Publish(ctx, "work-0", "photo 7", 0); err != nil {
		log.Fatal(err)
	}
	if err := publisher.Publish(ctx, "work-1", "photo 8", 0); err != nil {
		log.Fatal(err)
	}
	running.Wait()

	// Unordered output:
	// work-0 photo 7 1
	// work-1 photo 8 1
}
