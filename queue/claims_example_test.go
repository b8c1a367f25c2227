package queue_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"strings"
	"time"

	"kennel/internal/memory"
	"kennel/internal/table"
	"kennel/queue"
)

// A body that is too long for a message is stored first, and the message has the
// claim for it. The receiver removes the claim after storage has confirmed that
// the message is deleted.
func ExampleClaims() {
	ctx := context.Background()
	queues, stored := memory.NewQueues(nil), memory.NewTable(nil)
	rows, err := table.New(stored)
	if err != nil {
		log.Fatal(err)
	}
	claims, err := queue.NewClaims(rows, memory.NewContainer(nil))
	if err != nil {
		log.Fatal(err)
	}

	var report strings.Builder
	for i := range 100_000 {
		fmt.Fprintf(&report, "%x\n", i*i)
	}
	text, err := claims.Pack(ctx, queue.Envelope{ID: "report-7", Time: time.Now()}, []byte(report.String()))
	if err != nil {
		log.Fatal(err)
	}
	if _, err := queues.Put(ctx, "reports", text, 0); err != nil {
		log.Fatal(err)
	}
	fmt.Println("stored:", stored.Rows("") > 0)

	messages, err := queues.Receive(ctx, "reports", 1, 30*time.Second)
	if err != nil {
		log.Fatal(err)
	}
	e, body, err := claims.Unpack(ctx, messages[0].Body)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(e.ID, len(body), "bytes")
	if err := queues.Delete(ctx, "reports", messages[0]); err != nil {
		log.Fatal(err)
	}
	if err := claims.Remove(ctx, e); err != nil {
		log.Print(err) // not a failure of the work: the sweep deletes the claim when it expires
	}
	fmt.Println("stored:", stored.Rows("") > 0)

	_, _, err = claims.Unpack(ctx, text) // of a second copy of the message
	fmt.Println(errors.Is(err, queue.ErrClaimGone))

	// Output:
	// stored: true
	// report-7 912620 bytes
	// stored: false
	// true
}
