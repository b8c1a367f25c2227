package bill_test

import (
	"fmt"

	"kennel/internal/cost"
	"kennel/internal/cost/bill"
)

// The bill of a month with one day, on which a process put 250,000 messages.
func ExampleMonth_Price() {
	put := bill.Operation{Service: "queue", Name: "put", Job: "batches"}
	month := bill.Month{Today: 23, Days: map[int]bill.Usage{
		23: {Counts: bill.Counts{Operations: map[bill.Operation]int64{put: 250_000}}},
	}}
	b, err := month.Price(cost.ListPrices(), bill.Host{})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(b.Today, b.Currency, b.Jobs["batches"].Operations)
	// Output: 0.100000 USD 250000
}
