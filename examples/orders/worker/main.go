// Worker ships orders. It runs without a Functions host: `worker worker`.
package main

import (
	"context"
	"log/slog"

	"kennel"
	"kennel/examples/orders"
)

func main() { kennel.Main(orders.Program, orders.Worker(ship)) }

// ship stands for a call of a warehouse, with the id as its idempotency key.
func ship(ctx context.Context, id string, o orders.Order) error {
	slog.InfoContext(ctx, "order shipped", "id", id, "customer", o.Customer, "item", o.Item)
	return nil
}
