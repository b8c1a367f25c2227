package process

import (
	"testing"
	"time"

	"kennel/work/internal/format"
	"kennel/work/internal/model"
)

// TestNotBegunWaits: the next try of items that did not begin in time begins soon,
// however many attempts they have used.
func TestNotBegunWaits(t *testing.T) {
	t.Parallel()
	r := &run{
		parcel: format.Parcel{
			ID: format.ParcelID{Try: 30}, Items: make([]model.Item, 2), Indexes: []int{4, 7}, Attempts: []int{30, 0},
		},
		endings: make([]ending, 2), attempts: model.MostTries, most: 2,
	}
	row := r.Row()
	if wait := time.Until(row.NextAt); len(row.Remaining) != 2 || row.Waits != nil || wait > firstDelay || wait < firstDelay/2-time.Second {
		t.Errorf("%+v, the next try after %v", row, wait)
	}
}
