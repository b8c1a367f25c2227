package format

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"kennel/internal/table"
	"kennel/work/internal/model"
)

// ResultRow holds the results of one try of a parcel. It is inserted once and
// never changed: whatever follows is derived from it.
type ResultRow struct {
	ID                     ParcelID
	Done, Rejected, Failed int
	Remaining              []int // indexes, in the parcel as it was staged, of the items of the next try
	Operations             float64
	Packed                 []byte // the compressed results

	Item, Cause string // of the first item that remains; not stored
}

const (
	ResultsVersion = "1" // the first line of the results
	maxColumn      = 32_000
	maxResults     = 1<<10 + model.LargeParcel*(model.MaxResult+6*model.MaxError+6*model.MaxItemID+16) // bytes of a row before compression
)

// Letters of the outcomes in stored results.
const (
	doneLetter     = 'd'
	rejectedLetter = 'r'
	failedLetter   = 'f'
)

// AppendResult appends the line of a result.
func AppendResult(to []byte, r model.Result) []byte {
	switch r.Outcome {
	case model.ItemDone:
		to = append(to, doneLetter)
	case model.ItemRejected:
		to = append(to, rejectedLetter)
	default:
		to = append(to, failedLetter)
	}
	to = appendQuoted(to, r.ID)
	if r.Outcome == model.ItemDone {
		to = append(to, r.Result...)
	} else {
		to = appendQuoted(to, r.Error)
	}
	return append(to, '\n')
}

// parseResult reads the line of a result, which it may keep.
func parseResult(line []byte) (r model.Result, err error) {
	if len(line) == 0 {
		return r, errors.New("it is empty")
	}
	letter := line[0]
	id, rest, err := cutQuoted(line[1:])
	switch {
	case err != nil:
		return r, err
	case id == "" || len(id) > model.MaxItemID:
		return r, fmt.Errorf("its ID has %d bytes", len(id))
	}
	r.ID = id
	switch letter {
	case doneLetter:
		if len(rest) == 0 || len(rest) > model.MaxResult {
			return r, fmt.Errorf("it has %d bytes", len(rest))
		}
		r.Outcome, r.Result = model.ItemDone, rest
		return r, nil
	case rejectedLetter:
		r.Outcome = model.ItemRejected
	case failedLetter:
		r.Outcome = model.ItemFailed
	default:
		return r, fmt.Errorf("its outcome is %q", letter)
	}
	r.Error, rest, err = cutQuoted(rest)
	if err == nil && len(rest) > 0 {
		err = fmt.Errorf("%d bytes follow it", len(rest))
	}
	return r, err
}

// Results returns the results of a row, in the order of the items. Its error is
// ErrCorrupt.
func (row ResultRow) Results(c *Coders, batch string) ([]model.Result, error) {
	results, err := row.parseResults(c)
	if err != nil {
		return nil, fmt.Errorf("results of parcel %d, try %d, of batch %s: %w: %w", row.ID.Parcel, row.ID.Try, batch, model.ErrCorrupt, err)
	}
	return results, nil
}

func (row ResultRow) parseResults(c *Coders) ([]model.Result, error) {
	if row.Count() == 0 && len(row.Packed) == 0 {
		return nil, nil
	}
	body, err := c.decompress(row.Packed)
	switch {
	case err != nil:
		return nil, err
	case len(body) > maxResults:
		return nil, fmt.Errorf("%d bytes are more than %d", len(body), maxResults)
	}
	line, rest, _ := bytes.Cut(body, []byte("\n"))
	if string(line) != ResultsVersion {
		return nil, fmt.Errorf("version %.20q is unknown; this program knows %q", line, ResultsVersion)
	}
	var of [3]int
	results := make([]model.Result, 0, row.Count())
	for len(rest) > 0 {
		line, after, ok := bytes.Cut(rest, []byte("\n"))
		if !ok || len(results) == row.Count() {
			return nil, errors.New("they are cut, or too many")
		}
		r, err := parseResult(line)
		if err != nil {
			return nil, fmt.Errorf("result %d: %w", len(results), err)
		}
		of[Place(r.Outcome)]++
		results = append(results, r)
		rest = after
	}
	if of != [3]int{row.Done, row.Rejected, row.Failed} {
		return nil, fmt.Errorf("they are %v, want %v", of, []int{row.Done, row.Rejected, row.Failed})
	}
	return results, nil
}

// Place is the place of an outcome in a list of counts.
func Place(o model.Outcome) int {
	return slices.Index([]model.Outcome{model.ItemDone, model.ItemRejected, model.ItemFailed}, o)
}

// Count returns how many results the row has.
func (r ResultRow) Count() int { return r.Done + r.Rejected + r.Failed }

// HasAny reports whether the row has a result with one of the outcomes.
func (r ResultRow) HasAny(of []model.Outcome) bool {
	counts := []int{r.Done, r.Rejected, r.Failed}
	return slices.ContainsFunc(of, func(o model.Outcome) bool { return counts[Place(o)] > 0 })
}

// Row returns the row to store.
func (r ResultRow) Row(batch string) table.Row {
	indexes := make([]string, len(r.Remaining))
	for i, index := range r.Remaining {
		indexes[i] = strconv.Itoa(index)
	}
	values := map[string]string{
		VersionColumn: Version,
		"done":        strconv.Itoa(r.Done),
		"rejected":    strconv.Itoa(r.Rejected),
		"failed":      strconv.Itoa(r.Failed),
		"remaining":   strings.Join(indexes, " "),
		"operations":  strconv.FormatFloat(r.Operations, 'f', 4, 64),
	}
	text := base64.RawStdEncoding.EncodeToString(r.Packed)
	for i := 0; len(text) > 0; i++ {
		n := min(len(text), maxColumn)
		values["c"+strconv.Itoa(i)], text = text[:n], text[n:]
	}
	return table.Row{Partition: batch, Key: r.ID.Key(), Values: values}
}

// ReadResultRow reads a row without its results. Its error is ErrCorrupt.
func ReadResultRow(row table.Row) (ResultRow, error) {
	c := table.ReadColumns(row, Version, model.ErrCorrupt)
	r := ResultRow{
		Done:       c.Int("done"),
		Rejected:   c.Int("rejected"),
		Failed:     c.Int("failed"),
		Operations: c.Float("operations"),
	}
	var err error
	if r.ID, err = parseKey(row.Key); err != nil {
		c.Fail("key")
	}
	for field := range strings.FieldsSeq(c.Text("remaining")) {
		index, err := strconv.Atoi(field)
		if err != nil {
			c.Fail("remaining")
		}
		r.Remaining = append(r.Remaining, index)
	}
	if checkIndexes(r.Remaining) != nil || r.Count()+len(r.Remaining) == 0 || r.Count()+len(r.Remaining) > model.LargeParcel || len(r.Remaining) > 0 && r.ID.Try == model.MaxTries-1 {
		c.Fail("remaining")
	}
	var text strings.Builder
	for i := 0; ; i++ {
		part, ok := row.Values["c"+strconv.Itoa(i)]
		if !ok {
			break
		}
		text.WriteString(part)
	}
	if r.Packed, err = base64.RawStdEncoding.Strict().DecodeString(text.String()); err != nil {
		c.Fail("c0")
	}
	return r, c.Err()
}

// parseKey is the inverse of ParcelID.key.
func parseKey(key string) (ParcelID, error) {
	id, err := ParseParcelID(strings.TrimPrefix(key, ResultKey))
	if err == nil && id.Key() != key {
		err = fmt.Errorf("%.80q is not the key of results", key)
	}
	return id, err
}
