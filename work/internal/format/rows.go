package format

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"kennel/internal/table"
	"kennel/work/internal/model"
)

// The rows of table Batches. All rows of one batch are in the partition of its
// ID: the row of the batch, and one with the results of each parcel and try. Rows that
// concern several batches are in partitions of their own, whose names no ID can
// be.
const (
	BatchKey  = "batch"   // the row of the batch
	ResultKey = "r"       // prefix; then parcel and try
	ResultEnd = "s"       // above every key with ResultKey
	ActiveIn  = "+active" // partition; a row for each unfinished batch, by ID
	KeysIn    = "+keys"   // partition; a row for each Idempotency-Key, by its digest
	ListIn    = "+list"   // partition; two rows for each batch
	Oldest    = "o"       // prefix in ListIn; then the ID
	Newest    = "n"       // prefix in ListIn; then the inverted ID
)

// ParcelID identifies one try of a parcel.
type ParcelID struct {
	Parcel int // counts from 0
	Try    int // counts from 0: how many rows of this parcel came before
}

// Key is the key of the row with the results. Keys are in the order of parcels.
func (p ParcelID) Key() string { return fmt.Sprintf("%s%06d.%03d", ResultKey, p.Parcel, p.Try) }

// Invert returns the ID for lists that begin with the newest batch. Inverted IDs
// are in the opposite order, also those of one millisecond.
func Invert(id string) string {
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

const (
	Version       = "1" // of rows with VersionColumn
	VersionColumn = table.FormatColumn
)

func (p ParcelID) Check() error {
	if p.Parcel < 0 || p.Parcel >= MaxParcels || p.Try < 0 || p.Try >= model.ParcelTries {
		return fmt.Errorf("parcel %d, try %d cannot exist", p.Parcel, p.Try)
	}
	return nil
}

// ParseParcelID reads a parcel and a try with a dot between them.
func ParseParcelID(text string) (id ParcelID, err error) {
	parcel, try, _ := strings.Cut(text, ".")
	var tryErr error
	id.Parcel, err = strconv.Atoi(parcel)
	id.Try, tryErr = strconv.Atoi(try)
	if err = cmp.Or(err, tryErr); err == nil {
		err = id.Check()
	}
	if err != nil {
		return ParcelID{}, fmt.Errorf("%.80q does not name a parcel: %w", text, err)
	}
	return id, nil
}
