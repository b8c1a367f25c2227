package queue

import (
	"crypto/rand"
	"errors"
	"fmt"
	"regexp"
	"time"
)

// ErrClaimGone reports that no claim is stored for a message that names one.
// Another copy of the message was done and removed the claim, or the claim
// expired or was deleted, or this program reads another table or container than
// the publisher writes. Retrying does not help.
var ErrClaimGone = errors.New("the claim of the message is gone")

// claim names the bytes that are stored for a message. Its key begins with the
// day on which it expires, so that the sweep reads only what has expired, and
// never changes.
type claim struct {
	In    place  `json:"in"`
	Key   string `json:"key"`
	Bytes int    `json:"bytes"` // as stored
}

// place is the kind of store that holds a claim.
type place string

const (
	inTable place = "table"
	inBlob  place = "blob"
)

// A claim in the table is the base64 of its bytes, in up to eight rows of one
// partition that are inserted by one transaction, which costs as much as one
// row. Azure keeps two bytes for each of these characters and allows 64 KiB a
// value, 1 MiB a row, and 4 MiB a transaction as it is sent.
const (
	valueBytes = 24 << 10 // whose base64 has 32 Ki characters
	rowBytes   = 15 * valueBytes
	maxRows    = 8
	maxInTable = maxRows * rowBytes // 2.8 MiB
)

// keptKey is the key of a claim that does not expire: the day on which it was
// written, and the storage queue of its message.
var keptKey = regexp.MustCompile(`^(\d{4}-\d\d-\d\d)\.([a-z0-9-]{3,63})\.[A-Z2-7]{26}$`)

func newKeptClaim(in place, queue string, now time.Time, size int) *claim {
	return &claim{in, now.UTC().Format(time.DateOnly) + "." + queue + "." + rand.Text(), size}
}

// keptOf returns the day on which a kept claim was written, and the storage
// queue of its message.
func keptOf(key string) (day time.Time, queue string, ok bool) {
	m := keptKey.FindStringSubmatch(key)
	if m == nil {
		return time.Time{}, "", false
	}
	day, err := time.Parse(time.DateOnly, m[1])
	return day, m[2], err == nil
}

var claimKey = regexp.MustCompile(`^\d{4}-\d\d-\d\d-[A-Z2-7]{26}$`)

// newClaim returns a claim that expires between 7 and 8 days after until. So a
// message can be put again for a week with the same claim.
func newClaim(in place, until time.Time, size int) *claim {
	day := until.UTC().Add(TimeToLive + 24*time.Hour).Format(time.DateOnly)
	return &claim{in, day + "-" + rand.Text(), size}
}

func (c claim) check() error {
	switch {
	case c.In != inTable && c.In != inBlob:
		return fmt.Errorf("the claim is in %.80q, want table or blob", c.In)
	case c.expires().IsZero():
		return fmt.Errorf("the key of the claim is %.80q, want a date and 26 characters", c.Key)
	case c.Bytes < 1 || c.Bytes > MaxContent || c.In == inTable && c.Bytes > maxInTable:
		return fmt.Errorf("the claim has %d bytes, which the %s cannot hold", c.Bytes, c.In)
	}
	return nil
}

// expires returns the time from which on a copy of the message needs a copy of
// the claim: that of a kept claim is in the past.
func (c claim) expires() time.Time {
	if day, _, ok := keptOf(c.Key); ok {
		return day
	}
	at, _ := expiry(c.Key)
	return at
}

// expiry returns when the claim with this key expires.
func expiry(key string) (at time.Time, ok bool) {
	if !claimKey.MatchString(key) {
		return time.Time{}, false
	}
	at, err := time.Parse(time.DateOnly, key[:len(time.DateOnly)])
	return at, err == nil
}
