package cost

import (
	"errors"
	"fmt"
)

// Design is one way to process the load of a profile.
type Design struct {
	Name  string
	About string
	Lines []Line // of a month
}

// Model returns the operations of a month in three designs: naive, optimised and
// this app's. The profile must be valid.
func Model(p Profile) []Design {
	return []Design{
		{"naive", "a message for each item, one at a time; threads poll while they are idle", naive(p)},
		{"optimised", "a message for each item, received 32 at once; no polls with push, and few without", optimised(p)},
		{"kennel", "this app: parcels of items, results counted once, and everything around them", kennel(p)},
	}
}

// Comparison is the designs of a profile with their prices.
type Comparison struct {
	Profile Profile `json:"profile"`
	Prices  Prices  `json:"prices"`
	Designs []Cost  `json:"designs"`

	ItemsPerParcel float64 `json:"itemsPerParcel"`

	// Floor is the least operations of queues for an item in parcels.
	Floor float64 `json:"floor"`

	Paper *Paper `json:"paper,omitempty"` // of the profile "paper"
}

// Cost is a design with its price.
type Cost struct {
	Name       string  `json:"name"`
	About      string  `json:"about"`
	Operations float64 `json:"operations"` // without compute
	PerItem    float64 `json:"perItem"`    // operations of items or batches for an item; 0 without items
	Bill
}

// Compare prices the designs of a profile.
func Compare(p Profile, prices Prices) (Comparison, error) {
	if err := errors.Join(p.Check(), prices.check()); err != nil {
		return Comparison{}, fmt.Errorf("compare designs: %w", err)
	}
	c := Comparison{Profile: p, Prices: prices, ItemsPerParcel: p.ItemsPerParcel(), Floor: Floor(p.ItemsPerParcel())}
	for _, d := range Model(p) {
		bill, err := prices.Price(d.Lines)
		if err != nil {
			return Comparison{}, err
		}
		one := Cost{Name: d.Name, About: d.About, Operations: Total(d.Lines), Bill: bill}
		if p.Items > 0 {
			one.PerItem = p.perItem(d)
		}
		c.Designs = append(c.Designs, one)
	}
	if p.Name == "paper" {
		example := paperExample()
		c.Paper = &example
	}
	return c, nil
}

// perItem returns the operations that an item causes.
func (p Profile) perItem(d Design) float64 {
	if d.Name == "kennel" {
		return Total(p.ofBatches()) / (p.Items * p.Days)
	}
	perMessage := 1.0
	if d.Name == "optimised" {
		perMessage = 32
	}
	return Total(Messages{1, perMessage}.Lines(jobItems))
}
