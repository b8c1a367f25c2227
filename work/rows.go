package work

import (
	"fmt"
	"strings"
)

// The rows of table Batches. All rows of one batch are in the partition of its
// ID: the ledger, and a row with the results of each parcel and try. Rows that
// concern several batches are in partitions of their own, whose names no ID can
// be.
const (
	ledgerKey = "batch"   // the row of the batch
	resultKey = "r"       // prefix; then parcel and try
	resultEnd = "s"       // above every key with resultKey
	activeIn  = "+active" // partition; a row for each unfinished batch, by ID
	keysIn    = "+keys"   // partition; a row for each Idempotency-Key, by its digest
	listIn    = "+list"   // partition; two rows for each batch
	oldest    = "o"       // prefix in listIn; then the ID
	newest    = "n"       // prefix in listIn; then the inverted ID
)

// parcelID identifies one try of a parcel.
type parcelID struct {
	Parcel int // counts from 0
	Try    int // counts from 0: how many rows of this parcel came before
}

// key is the key of the row with the results. Keys are in the order of parcels.
func (p parcelID) key() string { return fmt.Sprintf("%s%06d.%d", resultKey, p.Parcel, p.Try) }

// bit is the place in the ledger's set of counted parcels.
func (p parcelID) bit() int { return p.Parcel*MaxTries + p.Try }

// invert returns the ID for lists that begin with the newest batch. Inverted IDs
// are in the opposite order, also those of one millisecond.
func invert(id string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= '0' && r <= '9':
			return '9' - r + '0'
		case r >= 'a' && r <= 'z':
			return 'z' - r + 'a'
		}
		return r
	}, id)
}
