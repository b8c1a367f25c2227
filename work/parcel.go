package work

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"kennel/work/internal/items"
)

// parcel is up to ParcelItems items that are processed together, or up to
// LargeParcel.
type parcel struct {
	Batch       string
	Processor   string
	ID          parcelID
	SubmittedAt time.Time
	Items       []Item

	// Indexes are the places of the items in the parcel as it was staged, which
	// is try 0; nil there. They ascend.
	Indexes []int
}

const parcelVersion = 1

// maxParcel bounds the body of a parcel: its head, and its items with their line
// feeds. A large parcel has no longer items, because packBytes ends it.
const maxParcel = 4<<10 + ParcelItems*(MaxItem+1)

// parcelHead is the first line of a parcel's body. A line for each item follows.
type parcelHead struct {
	Version     int       `json:"v"`
	Batch       string    `json:"batch"`
	Processor   string    `json:"processor"`
	Parcel      int       `json:"parcel"`
	Try         int       `json:"try"`
	SubmittedAt time.Time `json:"submittedAt"`
	Indexes     []int     `json:"indexes,omitempty"`
}

// pack returns the compressed body of a parcel with the items of these lines,
// each of which ends with a line feed.
func (p parcel) pack(c *coders, lines []byte) []byte {
	head, err := json.Marshal(parcelHead{parcelVersion, p.Batch, p.Processor, p.ID.Parcel, p.ID.Try, p.SubmittedAt.UTC(), p.Indexes})
	if err != nil {
		panic(err) // cannot occur: texts, numbers and a time of this century
	}
	body := make([]byte, 0, len(head)+1+len(lines))
	body = append(append(body, head...), '\n')
	return c.compress(append(body, lines...))
}

// lines returns the lines of the items.
func (p parcel) lines() []byte {
	var lines []byte
	for _, item := range p.Items {
		lines = append(append(lines, item.Data...), '\n')
	}
	return lines
}

// unpackParcel reads what pack returns. Its error is ErrMessage.
func (b *Batches) unpackParcel(packed []byte) (parcel, error) {
	body, err := b.coders.decompress(packed)
	var p parcel
	if err == nil {
		p, err = parseParcel(body)
	}
	if err != nil {
		return parcel{}, fmt.Errorf("read parcel: %w: %w", ErrMessage, err)
	}
	return p, nil
}

// Readable returns the body of a message of batches as text: that of a parcel is
// compressed. It returns any other body as it is.
func (b *Batches) Readable(body []byte) []byte {
	if text, err := b.coders.decompress(body); err == nil {
		return text
	}
	return body
}

func parseParcel(body []byte) (parcel, error) {
	line, rest, ok := bytes.Cut(body, []byte("\n"))
	if !ok {
		return parcel{}, errors.New("it has no line")
	}
	var h parcelHead
	if err := decodeStrictly(line, &h, parcelVersion); err != nil {
		return parcel{}, err
	}
	p := parcel{Batch: h.Batch, Processor: h.Processor, ID: parcelID{h.Parcel, h.Try}, SubmittedAt: h.SubmittedAt, Indexes: h.Indexes}
	if err := p.check(); err != nil {
		return parcel{}, err
	}
	p.Items = make([]Item, 0, min(bytes.Count(rest, []byte("\n")), LargeParcel))
	for len(rest) > 0 {
		if line, rest, ok = bytes.Cut(rest, []byte("\n")); !ok {
			return parcel{}, errors.New("its last line is cut")
		}
		if len(p.Items) == LargeParcel {
			return parcel{}, fmt.Errorf("it has more than %d items", LargeParcel)
		}
		id, err := items.ID(line)
		if err == nil && len(line) > MaxItem {
			err = fmt.Errorf("%d bytes are more than %d", len(line), MaxItem)
		}
		if err != nil {
			return parcel{}, fmt.Errorf("item %d: %w", len(p.Items), err)
		}
		p.Items = append(p.Items, Item{ID: id, Data: line})
	}
	switch {
	case len(p.Items) == 0:
		return parcel{}, errors.New("it has no items")
	case p.Indexes != nil && len(p.Indexes) != len(p.Items):
		return parcel{}, fmt.Errorf("it has %d indexes for %d items", len(p.Indexes), len(p.Items))
	}
	return p, nil
}

// check checks the head.
func (p parcel) check() error {
	switch {
	case CheckID(p.Batch) != nil:
		return CheckID(p.Batch)
	case p.Processor == "":
		return errors.New("it names no processor")
	case p.SubmittedAt.IsZero() || p.SubmittedAt.Year() > 9999:
		return fmt.Errorf("it was submitted at %v", p.SubmittedAt)
	case (p.ID.Try == 0) != (p.Indexes == nil):
		return fmt.Errorf("try %d has %d indexes", p.ID.Try, len(p.Indexes))
	}
	if err := p.ID.check(); err != nil {
		return err
	}
	return checkIndexes(p.Indexes)
}

func (p parcelID) check() error {
	if p.Parcel < 0 || p.Parcel >= maxParcels || p.Try < 0 || p.Try >= MaxTries {
		return fmt.Errorf("parcel %d, try %d cannot exist", p.Parcel, p.Try)
	}
	return nil
}

// parseParcelID reads a parcel and a try with a dot between them.
func parseParcelID(text string) (id parcelID, err error) {
	parcel, try, _ := strings.Cut(text, ".")
	var tryErr error
	id.Parcel, err = strconv.Atoi(parcel)
	id.Try, tryErr = strconv.Atoi(try)
	if err = cmp.Or(err, tryErr); err == nil {
		err = id.check()
	}
	if err != nil {
		return parcelID{}, fmt.Errorf("%.80q does not name a parcel: %w", text, err)
	}
	return id, nil
}

func checkIndexes(indexes []int) error {
	for i, index := range indexes {
		if index < 0 || index >= LargeParcel || i > 0 && index <= indexes[i-1] {
			return fmt.Errorf("index %d is out of range or order", index)
		}
	}
	return nil
}

// again returns the parcel of the next try: the items whose indexes, in the
// parcel as it was staged, are given.
func (p parcel) again(indexes []int, try int) (parcel, error) {
	next := p
	next.ID.Try = try
	next.Indexes = indexes
	next.Items = make([]Item, 0, len(indexes))
	for _, index := range indexes {
		at := index
		if p.Indexes != nil {
			found := false
			if at, found = slices.BinarySearch(p.Indexes, index); !found {
				at = -1
			}
		}
		if at < 0 || at >= len(p.Items) {
			return parcel{}, fmt.Errorf("parcel %d of batch %s has no item %d: %w", p.ID.Parcel, p.Batch, index, ErrCorrupt)
		}
		next.Items = append(next.Items, p.Items[at])
	}
	return next, nil
}

// index returns the place of an item in the parcel as it was staged.
func (p parcel) index(item int) int {
	if p.Indexes == nil {
		return item
	}
	return p.Indexes[item]
}

// message is the ID of the message of a parcel.
func (p parcel) message() string {
	return p.Batch + "/" + strconv.Itoa(p.ID.Parcel) + "." + strconv.Itoa(p.ID.Try)
}

// decodeStrictly decodes JSON that must have the members of v and no others.
// The version is checked first: it determines the other members.
func decodeStrictly(text []byte, v any, version int) error {
	var head struct {
		Version *int `json:"v"`
	}
	if err := json.Unmarshal(text, &head); err != nil {
		return fmt.Errorf("decode JSON: %w", err)
	}
	switch {
	case head.Version == nil:
		return errors.New("it has no version")
	case *head.Version != version:
		return fmt.Errorf("version %d is unknown; this program knows %d", *head.Version, version)
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(v); err != nil {
		return fmt.Errorf("decode JSON: %w", err)
	}
	if _, err := decoder.Token(); err != io.EOF {
		return errors.New("more text follows its end")
	}
	return nil
}

// appendQuoted appends a text as JSON.
func appendQuoted(to []byte, text string) []byte {
	plain := true
	for i := range len(text) {
		if c := text[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			plain = false
			break
		}
	}
	if plain {
		to = append(to, '"')
		to = append(to, text...)
		return append(to, '"')
	}
	quoted, err := json.Marshal(text)
	if err != nil {
		panic(err) // cannot occur: a text
	}
	return append(to, quoted...)
}

// cutQuoted cuts a JSON text off the beginning of a line.
func cutQuoted(line []byte) (text string, rest []byte, err error) {
	if len(line) == 0 || line[0] != '"' {
		return "", nil, errors.New("it does not begin with a quoted text")
	}
	end := 1 + bytes.IndexByte(line[1:], '"')
	if end > 0 && bytes.IndexByte(line[:end], '\\') < 0 {
		return string(line[1:end]), line[end+1:], nil
	}
	for end = 1; end < len(line) && line[end] != '"'; end++ {
		if line[end] == '\\' {
			end++
		}
	}
	if end >= len(line) {
		return "", nil, errors.New("the end of its quoted text is missing")
	}
	if err := json.Unmarshal(line[:end+1], &text); err != nil {
		return "", nil, fmt.Errorf("its quoted text: %w", err)
	}
	return text, line[end+1:], nil
}
