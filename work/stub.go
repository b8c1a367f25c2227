package work

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"kennel/table"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// A batch's ID is the time of its submission to the millisecond, so that IDs
// are in the order of time, and random letters.
const (
	idTime    = "20060102150405.000" // without the dot
	idDigits  = len(idTime) - 1
	idLetters = 8
)

var isID = regexp.MustCompile(fmt.Sprintf(`^[0-9]{%d}-[a-z]{%d}$`, idDigits, idLetters))

// newID returns the ID of a batch that is submitted at a time.
func newID(at time.Time) string {
	letters := make([]byte, idLetters)
	for i := 0; i < idLetters; {
		var random [2 * idLetters]byte
		rand.Read(random[:])
		for _, r := range random {
			if r < 234 && i < idLetters { // 9 times 26: each letter is as likely
				letters[i] = 'a' + r%26
				i++
			}
		}
	}
	return idAt(at) + "-" + string(letters)
}

// idAt returns what the IDs of batches submitted at a time begin with.
func idAt(at time.Time) string {
	text := at.UTC().Format(idTime)
	return text[:idDigits-3] + text[idDigits-2:]
}

// idTimeOf returns when the batch with this ID was submitted.
func idTimeOf(id string) (time.Time, error) {
	err := CheckID(id)
	if err != nil {
		return time.Time{}, err
	}
	at, err := time.Parse(idTime, id[:idDigits-3]+"."+id[idDigits-3:idDigits])
	if err != nil {
		return time.Time{}, fmt.Errorf("%q is not the ID of a batch: %w", id, ErrNotFound)
	}
	return at, nil
}

// CheckID returns ErrNotFound for a text that cannot be the ID of a batch.
func CheckID(id string) error {
	if !isID.MatchString(id) {
		return fmt.Errorf("%.80q is not the ID of a batch: %w", id, ErrNotFound)
	}
	return nil
}

// expressParcels is how many parcels a batch may have to use ExpressQueue.
const expressParcels = 10

// detailsVersion is the version of the stored form of details.
const detailsVersion = 1

// detailsColumn holds the details in the rows of a batch.
const detailsColumn = "details"

// details are what never changes of a batch that was accepted.
type details struct {
	Version     int       `json:"v"`
	ID          string    `json:"batch"`
	Name        string    `json:"name,omitempty"`
	Processor   string    `json:"processor"`
	Items       int       `json:"items"`
	Parcels     int       `json:"parcels"`
	Chunks      int       `json:"chunks"` // staged blobs
	SubmittedAt time.Time `json:"submittedAt"`
	Key         string    `json:"key,omitempty"`    // of the row in keysIn; "" if the caller gave none
	Digest      string    `json:"digest,omitempty"` // of what was submitted with the key
	Partitions  int       `json:"partitions"`       // over which its parcels are spread

	// Operations are how many requests the submission made until the batch was
	// recorded.
	Operations float64 `json:"operations"`
}

// text returns the stored form.
func (d details) text() string {
	d.Version = detailsVersion
	text, err := json.Marshal(d)
	if err != nil {
		panic(err) // cannot occur: texts and numbers
	}
	return string(text)
}

// readDetails reads the stored form. Its error is ErrCorrupt.
func readDetails(text string) (details, error) {
	var d details
	err := json.Unmarshal([]byte(text), &d)
	switch {
	case err != nil:
	case d.Version != detailsVersion:
		err = fmt.Errorf("version %d is unknown; this program knows %d", d.Version, detailsVersion)
	case CheckID(d.ID) != nil || d.Items < 1 || d.Parcels < 1 || d.Chunks < 1 || d.Partitions < 1 || d.SubmittedAt.IsZero():
		err = errors.New("a member is missing or invalid")
	}
	if err != nil {
		return details{}, fmt.Errorf("details of batch %.80q: %w: %w", d.ID, ErrCorrupt, err)
	}
	return d, nil
}

// queueOf returns the queue of a parcel if the app has so many partitions.
func (d details) queueOf(parcel, partitions int) string {
	if d.Parcels <= expressParcels {
		return ExpressQueue
	}
	return partitionQueue(parcel % partitions)
}

// partitionQueue returns the name of a partition queue.
func partitionQueue(n int) string { return "work-" + strconv.Itoa(n) }

// chunkName returns the name of a staged blob. It begins with the ID, so that
// blobs are listed in the order of time.
func chunkName(id string, chunk int) string { return fmt.Sprintf("%s/%04d", id, chunk) }

var (
	errNotObject = errors.New("the item is not a JSON object")
	errNoID      = errors.New("the item has no id")
)

// itemID returns the member id of an item, which is compact and valid JSON. It
// reads only the names of the members, because Processors decode the item.
func itemID(item []byte) (string, error) {
	if len(item) < 2 || item[0] != '{' {
		return "", errNotObject
	}
	id, found := "", false
	for rest := item[1:]; rest[0] != '}'; {
		if rest[0] == ',' {
			rest = rest[1:]
		}
		end := stringLen(rest)
		if end == 0 || end+1 >= len(rest) {
			return "", errNotObject
		}
		name, value := rest[:end], rest[end+1:]
		length := valueLen(value)
		if length == 0 || length >= len(value) {
			return "", errNotObject
		}
		value, rest = value[:length], value[length:]
		if text, err := unquoteID(name); err != nil || text != "id" {
			continue
		}
		if found {
			return "", errors.New("the item has two members id")
		}
		text, err := unquoteID(value)
		if err != nil {
			return "", errors.New("the id is not a text")
		}
		id, found = text, true
	}
	switch {
	case !found:
		return "", errNoID
	case id == "" || len(id) > MaxItemID:
		return "", fmt.Errorf("the id has %d bytes: use 1 to %d", len(id), MaxItemID)
	case strings.ContainsFunc(id, unicode.IsControl):
		return "", errors.New("the id contains control characters")
	}
	return id, nil
}

// stringLen returns the length of the string that a text begins with, or 0.
func stringLen(text []byte) int {
	if len(text) == 0 || text[0] != '"' {
		return 0
	}
	for i := 1; i < len(text); i++ {
		switch text[i] {
		case '"':
			return i + 1
		case '\\':
			i++
		}
	}
	return 0
}

// valueLen returns the length of the value that a text begins with, or 0.
func valueLen(text []byte) int {
	depth := 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '"':
			n := stringLen(text[i:])
			if n == 0 {
				return 0
			}
			i += n - 1
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 {
				return i
			}
			depth--
		case ',':
			if depth == 0 {
				return i
			}
		}
	}
	return 0
}

// unquoteID decodes a string.
func unquoteID(text []byte) (decoded string, err error) {
	if n := len(text); n >= 2 && text[0] == '"' && bytes.IndexByte(text, '\\') < 0 {
		return string(text[1 : n-1]), nil
	}
	if len(text) == 0 || text[0] != '"' {
		return "", errors.New("not a string")
	}
	err = json.Unmarshal(text, &decoded)
	return decoded, err
}

func listRows(d details, final *Batch) []table.Write {
	values := map[string]string{formatColumn: format, detailsColumn: d.text(), "batch": ""}
	if final != nil {
		text, _ := json.Marshal(final)
		values["batch"] = string(text)
	}
	return []table.Write{
		{Verb: table.Upsert, Row: table.Row{Partition: listIn, Key: oldest + d.ID, Values: values}},
		{Verb: table.Upsert, Row: table.Row{Partition: listIn, Key: newest + invert(d.ID), Values: values}},
	}
}

func (b *Batches) unstage(ctx context.Context, d details) error {
	for n := range d.Chunks {
		if err := b.staging.delete(ctx, chunkName(d.ID, n)); err != nil {
			return err
		}
	}
	return nil
}
