package model

import "time"

// Limits of batches.
const (
	MaxItem       = 64 << 10 // bytes of one item
	MaxItemID     = 200      // bytes
	MaxName       = 200      // bytes of a batch's name
	MaxResult     = 2 << 10  // bytes of one result
	MaxError      = 500      // bytes of the error of an item
	MaxItemErrors = 20       // invalid items that are reported
	MaxTries      = 5        // attempts of an item, unless its processor is [Bounded]
	MostTries     = 50       // as many as a [Bounded] processor may have
	ParcelTries   = 250      // of a parcel: what remains of the last one has failed
	ParcelItems   = 100      // items of one parcel, unless it is large
	LargeParcel   = 400      // items of a large parcel; see [Sized]
	LargeFrom     = 20_000   // items of a batch before the first large parcel
	ParcelBytes   = 32 << 10 // of one parcel, compressed; a single item may be longer
)

// MaxWait is the longest wait before the next attempt of an item.
const MaxWait = 24 * time.Hour
