// Package format has the stored forms of package work: the messages that carry
// parcels (message.go), the rows of table Batches (rows.go lists them), and the
// JSON and compression that they share. It makes no requests.
package format

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"kennel/work/internal/items"
	"kennel/work/internal/model"
)

// Parcel is up to ParcelItems items that are processed together, or up to
// LargeParcel.
type Parcel struct {
	Batch       string
	Processor   string
	ID          ParcelID
	SubmittedAt time.Time
	Items       []model.Item

	// Indexes are the places of the items in the parcel as it was staged, which
	// is try 0; nil there. They ascend.
	Indexes []int

	// Attempts are how many attempts each item has used; nil in try 0. Waits are
	// for how many milliseconds after the begin of this try an item is not to be
	// tried; nil: all are tried now.
	Attempts []int
	Waits    []int64
}

// Bounds of a batch.
const (
	MaxBytes = 256 << 20
	MaxItems = 1_000_000
)

// MaxParcels bounds the parcels of a batch: the set of counted ones must fit
// into one value of a row. Two neighbouring parcels have more than ParcelItems
// items or more than ParcelBytes together.
const MaxParcels = 2*(MaxItems/model.ParcelItems+MaxBytes/model.ParcelBytes) + 1

const parcelVersion = 1

// MaxParcel bounds the body of a parcel: its head, and its items with their line
// feeds. A large parcel has no longer items, because packBytes ends it.
const MaxParcel = 4<<10 + model.ParcelItems*(model.MaxItem+1)

// parcelHead is the first line of a parcel's body. A line for each item follows.
type parcelHead struct {
	Version     int       `json:"v"`
	Batch       string    `json:"batch"`
	Processor   string    `json:"processor"`
	Parcel      int       `json:"parcel"`
	Try         int       `json:"try"`
	SubmittedAt time.Time `json:"submittedAt"`
	Indexes     []int     `json:"indexes,omitempty"`
	Attempts    []int     `json:"attempts,omitempty"`
	Waits       []int64   `json:"waits,omitempty"`
}

// Pack returns the compressed body of a parcel with the items of these lines,
// each of which ends with a line feed.
func (p Parcel) Pack(c *Coders, lines []byte) []byte {
	head, err := json.Marshal(parcelHead{parcelVersion, p.Batch, p.Processor, p.ID.Parcel, p.ID.Try, p.SubmittedAt.UTC(), p.Indexes, p.Attempts, p.Waits})
	if err != nil {
		panic(err) // cannot occur: texts, numbers and a time of this century
	}
	body := make([]byte, 0, len(head)+1+len(lines))
	body = append(append(body, head...), '\n')
	return c.Compress(append(body, lines...))
}

// Lines returns the lines of the items.
func (p Parcel) Lines() []byte {
	var lines []byte
	for _, item := range p.Items {
		lines = append(append(lines, item.Data...), '\n')
	}
	return lines
}

// UnpackParcel is the inverse of pack. Its error is ErrMessage.
func UnpackParcel(c *Coders, packed []byte) (Parcel, error) {
	body, err := c.decompress(packed)
	var p Parcel
	if err == nil {
		p, err = parseParcel(body)
	}
	if err != nil {
		return Parcel{}, fmt.Errorf("read parcel: %w: %w", model.ErrMessage, err)
	}
	return p, nil
}

func parseParcel(body []byte) (Parcel, error) {
	line, rest, ok := bytes.Cut(body, []byte("\n"))
	if !ok {
		return Parcel{}, errors.New("it has no line")
	}
	var h parcelHead
	if err := DecodeStrictly(line, &h, parcelVersion); err != nil {
		return Parcel{}, err
	}
	p := Parcel{Batch: h.Batch, Processor: h.Processor, ID: ParcelID{h.Parcel, h.Try}, SubmittedAt: h.SubmittedAt, Indexes: h.Indexes, Attempts: h.Attempts, Waits: h.Waits}
	if err := p.check(); err != nil {
		return Parcel{}, err
	}
	p.Items = make([]model.Item, 0, min(bytes.Count(rest, []byte("\n")), model.LargeParcel))
	for len(rest) > 0 {
		if line, rest, ok = bytes.Cut(rest, []byte("\n")); !ok {
			return Parcel{}, errors.New("its last line is cut")
		}
		if len(p.Items) == model.LargeParcel {
			return Parcel{}, fmt.Errorf("it has more than %d items", model.LargeParcel)
		}
		id, err := items.ID(line)
		if err == nil && len(line) > model.MaxItem {
			err = fmt.Errorf("%d bytes are more than %d", len(line), model.MaxItem)
		}
		if err != nil {
			return Parcel{}, fmt.Errorf("item %d: %w", len(p.Items), err)
		}
		p.Items = append(p.Items, model.Item{ID: id, Data: line})
	}
	switch {
	case len(p.Items) == 0:
		return Parcel{}, errors.New("it has no items")
	case p.Indexes != nil && len(p.Indexes) != len(p.Items):
		return Parcel{}, fmt.Errorf("it has %d indexes for %d items", len(p.Indexes), len(p.Items))
	}
	return p, checkTries(len(p.Items), p.ID.Try, p.Attempts, p.Waits)
}

// check checks the head.
func (p Parcel) check() error {
	switch {
	case model.CheckID(p.Batch) != nil:
		return model.CheckID(p.Batch)
	case p.Processor == "":
		return errors.New("it names no processor")
	case p.SubmittedAt.IsZero() || p.SubmittedAt.Year() > 9999:
		return fmt.Errorf("it was submitted at %v", p.SubmittedAt)
	case (p.ID.Try == 0) != (p.Indexes == nil):
		return fmt.Errorf("try %d has %d indexes", p.ID.Try, len(p.Indexes))
	}
	if err := p.ID.Check(); err != nil {
		return err
	}
	return checkIndexes(p.Indexes)
}

// checkTries checks what is known of the attempts of n items that are to be tried.
func checkTries(n, try int, attempts []int, waits []int64) error {
	switch {
	case try == 0 && len(attempts)+len(waits) > 0, try > 0 && len(attempts) != n, len(waits) > 0 && len(waits) != n:
		return fmt.Errorf("try %d has %d attempts and %d waits of %d items", try, len(attempts), len(waits), n)
	case slices.ContainsFunc(attempts, func(a int) bool { return a < 0 || a >= model.MostTries }):
		return errors.New("an item has too many attempts")
	case slices.ContainsFunc(waits, func(ms int64) bool { return ms < 0 || ms > model.MaxWait.Milliseconds() }):
		return errors.New("an item waits for too long")
	case len(waits) > 0 && !slices.Contains(waits, 0):
		return errors.New("none of its items is to be tried")
	}
	return nil
}

func checkIndexes(indexes []int) error {
	for i, index := range indexes {
		if index < 0 || index >= model.LargeParcel || i > 0 && index <= indexes[i-1] {
			return fmt.Errorf("index %d is out of range or order", index)
		}
	}
	return nil
}

// Again returns the parcel of the next try: the items that remain of a try of
// the parcel.
func (p Parcel) Again(of ResultRow) (Parcel, error) {
	next := p
	next.ID.Try = of.ID.Try + 1
	next.Indexes, next.Attempts, next.Waits = of.Remaining, of.Attempts, of.Waits
	next.Items = make([]model.Item, 0, len(of.Remaining))
	for _, index := range of.Remaining {
		at := index
		if p.Indexes != nil {
			found := false
			if at, found = slices.BinarySearch(p.Indexes, index); !found {
				at = -1
			}
		}
		if at < 0 || at >= len(p.Items) {
			return Parcel{}, fmt.Errorf("parcel %d of batch %s has no item %d: %w", p.ID.Parcel, p.Batch, index, model.ErrCorrupt)
		}
		next.Items = append(next.Items, p.Items[at])
	}
	return next, nil
}

// Index returns the place of an item in the parcel as it was staged.
func (p Parcel) Index(item int) int {
	if p.Indexes == nil {
		return item
	}
	return p.Indexes[item]
}

// Tried returns how many attempts an item has used.
func (p Parcel) Tried(item int) int {
	if p.Attempts == nil {
		return 0
	}
	return p.Attempts[item]
}

// Wait returns for how long after the begin of this try an item is not to be
// tried; 0: it is to be tried now.
func (p Parcel) Wait(item int) time.Duration {
	if p.Waits == nil {
		return 0
	}
	return time.Duration(p.Waits[item]) * time.Millisecond
}

// Message is the ID of the message of a parcel.
func (p Parcel) Message() string {
	return p.Batch + "/" + strconv.Itoa(p.ID.Parcel) + "." + strconv.Itoa(p.ID.Try)
}
