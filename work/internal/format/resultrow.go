package format

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"kennel/internal/table"
	"kennel/work/internal/model"
)

// ResultRow holds the results of one try of a parcel. It is inserted once and
// never changed: whatever follows is derived from it.
type ResultRow struct {
	ID                     ParcelID
	Done, Rejected, Failed int
	Operations             float64
	Packed                 []byte // the compressed results

	Remaining []int     // indexes, in the parcel as it was staged, of the items of the next try
	Attempts  []int     // that each of them has used
	Waits     []int64   // for how many milliseconds after the begin of the next try each of them is not to be tried; nil: all are
	NextAt    time.Time // when the next try begins; zero: none does

	Item, Cause string // of one of those with the most attempts that remain; not stored
}

const (
	ResultsVersion = "1"                                                                               // the first line of the results
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

// Delay returns how long the message of the next try is not received.
func (r ResultRow) Delay() time.Duration {
	return min(max(0, time.Until(r.NextAt)), model.MaxWait)
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
	values := map[string]string{
		VersionColumn: Version,
		"done":        strconv.Itoa(r.Done),
		"rejected":    strconv.Itoa(r.Rejected),
		"failed":      strconv.Itoa(r.Failed),
		"remaining":   joined(r.Remaining),
		"operations":  strconv.FormatFloat(r.Operations, 'f', 4, 64),
	}
	if len(r.Remaining) > 0 {
		values["attempts"], values["nextAt"] = joined(r.Attempts), table.FormatTime(r.NextAt)
	}
	if len(r.Waits) > 0 {
		values["waits"] = joined(r.Waits)
	}
	if len(r.Packed) > 0 {
		putColumns(values, "c", r.Packed)
	}
	return table.Row{Partition: batch, Key: r.ID.Key(), Values: values}
}

// joined returns numbers with blanks between them, and numbersIn reads them.
func joined[N int | int64](numbers []N) string {
	var text []byte
	for i, n := range numbers {
		if i > 0 {
			text = append(text, ' ')
		}
		text = strconv.AppendInt(text, int64(n), 10)
	}
	return string(text)
}

func numbersIn[N int | int64](text string) (numbers []N, err error) {
	for field := range strings.FieldsSeq(text) {
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return nil, err
		}
		numbers = append(numbers, N(n))
	}
	return numbers, nil
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
	if r.Remaining, err = numbersIn[int](c.Text("remaining")); err != nil ||
		checkIndexes(r.Remaining) != nil || r.Count()+len(r.Remaining) == 0 || r.Count()+len(r.Remaining) > model.LargeParcel || len(r.Remaining) > 0 && r.ID.Try == model.ParcelTries-1 {
		c.Fail("remaining")
	}
	if len(r.Remaining) > 0 {
		r.NextAt = c.Time("nextAt")
		var waitsErr error
		r.Attempts, err = numbersIn[int](c.Text("attempts"))
		r.Waits, waitsErr = numbersIn[int64](row.Values["waits"])
		if cmp.Or(err, waitsErr, checkTries(len(r.Remaining), r.ID.Try+1, r.Attempts, r.Waits)) != nil {
			c.Fail("attempts")
		}
	}
	if _, ok := row.Values["c0"]; ok {
		if r.Packed, err = readColumns(row.Values, "c"); err != nil {
			c.Fail("c0")
		}
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
