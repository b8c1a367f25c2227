package ids_test

import (
	"context"
	"fmt"
	"log"

	"kennel/ids"
	"kennel/internal/memory"
)

func Example() {
	ctx := context.Background()
	store := memory.NewSequences(nil) // in an app: the blob store of internal/azure
	g, err := ids.New(store, "orders", nil)
	if err != nil {
		log.Fatal(err)
	}

	n, err := g.Next(ctx) // one number
	if err != nil {
		log.Fatal(err)
	}
	r, err := g.Lease(ctx, 500) // 500 consecutive numbers
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(n, r)

	// Close returns the unused numbers if no other node reserved since.
	if err := g.Close(ctx); err != nil {
		log.Fatal(err)
	}
	mark, _ := store.Get("orders")
	fmt.Println("next free:", mark.Text)
	// Output:
	// 1 2–501
	// next free: 502
}
