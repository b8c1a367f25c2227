// Api takes orders by HTTP.
package main

import (
	"kennel"
	"kennel/examples/orders"
)

func main() { kennel.Main(orders.Program, orders.API) }
