package table_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"strconv"

	"kennel/internal/memory"
	"kennel/internal/table"
)

// A ledger counts each result once, although the answer to its first write is
// lost. One transaction inserts the result and updates the counter.
func Example() {
	ctx := context.Background()
	lost := memory.LoseReplyNth(3, errors.New("connection reset"))
	ledger, err := table.New(memory.NewTable(&memory.TableOptions{Options: memory.Options{Fault: lost}}))
	if err != nil {
		log.Fatal(err)
	}
	counter := func(n int) table.Row {
		return table.Row{Partition: "batch-7", Key: "counter", Values: map[string]string{"done": strconv.Itoa(n)}}
	}
	if _, err := ledger.Submit(ctx, table.Write{Verb: table.Insert, Row: counter(0)}); err != nil {
		log.Fatal(err)
	}
	now, err := ledger.Get(ctx, "batch-7", "counter")
	if err != nil {
		log.Fatal(err)
	}
	result := table.Row{Partition: "batch-7", Key: "result-1", Values: map[string]string{"by": "node-3"}}
	_, err = ledger.Submit(ctx,
		table.Write{Verb: table.Insert, Row: result},
		table.Write{Verb: table.Replace, Row: counter(1), If: now.Version})
	fmt.Println("exists:", errors.Is(err, table.ErrExists), "unclear:", errors.Is(err, table.ErrUnclear))

	stored, found, err := ledger.ReadBack(ctx, err, "batch-7", "result-1")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("ours:", found && stored.Values["by"] == "node-3")
	now, err = ledger.Get(ctx, "batch-7", "counter")
	fmt.Println(now.Values["done"], err)

	// Output:
	// exists: true unclear: true
	// ours: true
	// 1 <nil>
}
