package work

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"

	"kennel/internal/table"
	"kennel/work/internal/model"
)

// resultRow holds the results of one try of a parcel. It is inserted once and
// never changed: whatever follows is derived from it.
type resultRow struct {
	id                     parcelID
	done, rejected, failed int
	remaining              []int // indexes, in the parcel as it was staged, of the items of the next try
	operations             float64
	packed                 []byte // the compressed results

	item, cause string // of the first item that remains; not stored
}

const (
	resultsVersion = "1" // the first line of the results
	maxColumn      = 32_000
	maxResults     = 1<<10 + LargeParcel*(MaxResult+6*model.MaxError+6*MaxItemID+16) // bytes of a row before compression
)

// Letters of the outcomes in stored results.
const (
	doneLetter     = 'd'
	rejectedLetter = 'r'
	failedLetter   = 'f'
)

// appendResult appends the line of a result.
func appendResult(to []byte, r Result) []byte {
	switch r.Outcome {
	case ItemDone:
		to = append(to, doneLetter)
	case ItemRejected:
		to = append(to, rejectedLetter)
	default:
		to = append(to, failedLetter)
	}
	to = appendQuoted(to, r.ID)
	if r.Outcome == ItemDone {
		to = append(to, r.Result...)
	} else {
		to = appendQuoted(to, r.Error)
	}
	return append(to, '\n')
}

// parseResult reads the line of a result, which it may keep.
func parseResult(line []byte) (r Result, err error) {
	if len(line) == 0 {
		return r, errors.New("it is empty")
	}
	letter := line[0]
	id, rest, err := cutQuoted(line[1:])
	switch {
	case err != nil:
		return r, err
	case id == "" || len(id) > MaxItemID:
		return r, fmt.Errorf("its ID has %d bytes", len(id))
	}
	r.ID = id
	switch letter {
	case doneLetter:
		if len(rest) == 0 || len(rest) > MaxResult {
			return r, fmt.Errorf("it has %d bytes", len(rest))
		}
		r.Outcome, r.Result = ItemDone, rest
		return r, nil
	case rejectedLetter:
		r.Outcome = ItemRejected
	case failedLetter:
		r.Outcome = ItemFailed
	default:
		return r, fmt.Errorf("its outcome is %q", letter)
	}
	r.Error, rest, err = cutQuoted(rest)
	if err == nil && len(rest) > 0 {
		err = fmt.Errorf("%d bytes follow it", len(rest))
	}
	return r, err
}

// results returns the results of a row, in the order of the items.
func (b *Batches) results(batch string, row resultRow) ([]Result, error) {
	results, err := row.parseResults(&b.coders)
	if err != nil {
		return nil, fmt.Errorf("results of parcel %d, try %d, of batch %s: %w: %w", row.id.Parcel, row.id.Try, batch, ErrCorrupt, err)
	}
	return results, nil
}

func (row resultRow) parseResults(c *coders) ([]Result, error) {
	if row.count() == 0 && len(row.packed) == 0 {
		return nil, nil
	}
	body, err := c.decompress(row.packed)
	switch {
	case err != nil:
		return nil, err
	case len(body) > maxResults:
		return nil, fmt.Errorf("%d bytes are more than %d", len(body), maxResults)
	}
	line, rest, _ := bytes.Cut(body, []byte("\n"))
	if string(line) != resultsVersion {
		return nil, fmt.Errorf("version %.20q is unknown; this program knows %q", line, resultsVersion)
	}
	var of [3]int
	results := make([]Result, 0, row.count())
	for len(rest) > 0 {
		line, after, ok := bytes.Cut(rest, []byte("\n"))
		if !ok || len(results) == row.count() {
			return nil, errors.New("they are cut, or too many")
		}
		r, err := parseResult(line)
		if err != nil {
			return nil, fmt.Errorf("result %d: %w", len(results), err)
		}
		of[place(r.Outcome)]++
		results = append(results, r)
		rest = after
	}
	if of != [3]int{row.done, row.rejected, row.failed} {
		return nil, fmt.Errorf("they are %v, want %v", of, []int{row.done, row.rejected, row.failed})
	}
	return results, nil
}

// place is the place of an outcome in a list of counts.
func place(o Outcome) int { return slices.Index([]Outcome{ItemDone, ItemRejected, ItemFailed}, o) }

// count returns how many results the row has.
func (r resultRow) count() int { return r.done + r.rejected + r.failed }

// hasAny reports whether the row has a result with one of the outcomes.
func (r resultRow) hasAny(of []Outcome) bool {
	counts := []int{r.done, r.rejected, r.failed}
	return slices.ContainsFunc(of, func(o Outcome) bool { return counts[place(o)] > 0 })
}

// row returns the row to store.
func (r resultRow) row(batch string) table.Row {
	indexes := make([]string, len(r.remaining))
	for i, index := range r.remaining {
		indexes[i] = strconv.Itoa(index)
	}
	values := map[string]string{
		formatColumn: format,
		"done":       strconv.Itoa(r.done),
		"rejected":   strconv.Itoa(r.rejected),
		"failed":     strconv.Itoa(r.failed),
		"remaining":  strings.Join(indexes, " "),
		"operations": strconv.FormatFloat(r.operations, 'f', 4, 64),
	}
	text := base64.RawStdEncoding.EncodeToString(r.packed)
	for i := 0; len(text) > 0; i++ {
		n := min(len(text), maxColumn)
		values["c"+strconv.Itoa(i)], text = text[:n], text[n:]
	}
	return table.Row{Partition: batch, Key: r.id.key(), Values: values}
}

// readResults reads a row without its results. Its error is ErrCorrupt.
func readResults(row table.Row) (resultRow, error) {
	c := table.ReadColumns(row, format, ErrCorrupt)
	r := resultRow{
		done:       c.Int("done"),
		rejected:   c.Int("rejected"),
		failed:     c.Int("failed"),
		operations: c.Float("operations"),
	}
	var err error
	if r.id, err = parseKey(row.Key); err != nil {
		c.Fail("key")
	}
	for field := range strings.FieldsSeq(c.Text("remaining")) {
		index, err := strconv.Atoi(field)
		if err != nil {
			c.Fail("remaining")
		}
		r.remaining = append(r.remaining, index)
	}
	if checkIndexes(r.remaining) != nil || r.count()+len(r.remaining) == 0 || r.count()+len(r.remaining) > LargeParcel || len(r.remaining) > 0 && r.id.Try == MaxTries-1 {
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
	if r.packed, err = base64.RawStdEncoding.Strict().DecodeString(text.String()); err != nil {
		c.Fail("c0")
	}
	return r, c.Err()
}

// parseKey is the inverse of parcelID.key.
func parseKey(key string) (parcelID, error) {
	id, err := parseParcelID(strings.TrimPrefix(key, resultKey))
	if err == nil && id.key() != key {
		err = fmt.Errorf("%.80q is not the key of results", key)
	}
	return id, err
}

// findResults returns the row of one try of a parcel.
func (b *Batches) findResults(ctx context.Context, batch string, id parcelID) (r resultRow, found bool, err error) {
	row, err := b.rows.Get(ctx, batch, id.key())
	switch {
	case errors.Is(err, table.ErrNotFound):
		return resultRow{}, false, nil
	case err != nil:
		return resultRow{}, false, fmt.Errorf("read results of batch %s: %w", batch, err)
	}
	r, err = readResults(row)
	return r, err == nil, err
}

// insertResults inserts a row unless it exists, and returns the stored one,
// which another process may have inserted.
func (b *Batches) insertResults(ctx context.Context, batch string, r resultRow) (stored resultRow, err error) {
	_, err = b.rows.Submit(ctx, table.Write{Verb: table.Insert, Row: r.row(batch)})
	if err == nil {
		return r, nil
	}
	row, found, readErr := b.rows.ReadBack(ctx, err, batch, r.id.key())
	switch {
	case readErr != nil:
		return resultRow{}, fmt.Errorf("insert results of batch %s: %w", batch, readErr)
	case !found:
		return resultRow{}, fmt.Errorf("insert results of batch %s: %w", batch, err)
	}
	return readResults(row)
}

// Bounds of one page of results in memory. A row is at most 1 MiB.
const (
	resultsPage = 4 << 20 // bytes
	shrinkPage  = 4       // the next page has this part of the rows after one that is too large
	maxSearched = 2000    // rows that are read for a page: 200,000 items or more
)

// rowsAbove returns the rows of results of a batch in the order of their keys,
// which is the same at each read. It reads a page at a time.
func (b *Batches) rowsAbove(ctx context.Context, batch, above string, top int) iter.Seq2[resultRow, error] {
	return func(yield func(resultRow, error) bool) {
		q := table.Query{Partition: batch, Above: above, Below: resultEnd, Top: top, MaxBytes: resultsPage}
		for {
			page, err := b.rows.Query(ctx, q)
			if errors.Is(err, table.ErrLarge) {
				if q.Top = q.Top / shrinkPage; q.Top <= 1 {
					q.Top, q.MaxBytes = 1, 0
				}
				continue
			}
			if err != nil {
				yield(resultRow{}, fmt.Errorf("read results of batch %s: %w", batch, err))
				return
			}
			for _, row := range page.Rows {
				if r, err := readResults(row); !yield(r, err) || err != nil {
					return
				}
			}
			if q.After = page.Next; q.After == "" {
				return
			}
		}
	}
}

// Results returns the results of a batch in the order of its items, except that
// those of items that were tried again follow the others of their parcel. Those
// of items that are not processed yet are missing. With outcomes, the list has
// only the results with one of them; it may then have few or none, although
// others follow.
func (b *Batches) Results(ctx context.Context, id string, p Page, only ...Outcome) (List[Result], error) {
	list := List[Result]{Items: make([]Result, 0)}
	if err := errors.Join(CheckID(id), checkTop(p.Top)); err != nil {
		return list, err
	}
	above, skip, err := openResults(id, p.Continuation)
	if err != nil {
		return list, err
	}
	rows := p.Top/ParcelItems + 2
	if len(only) > 0 {
		rows = table.MaxPage
	}
	read, size := 0, 0
	for row, err := range b.rowsAbove(ctx, id, above, rows) {
		if err != nil {
			return list, err
		}
		if read++; read > maxSearched {
			list.Continuation = sealResults(id, row.id, 0)
			return list, nil
		}
		if len(only) > 0 && !row.hasAny(only) {
			skip = 0
			continue
		}
		results, err := b.results(id, row)
		if err != nil {
			return list, err
		}
		for i := min(skip, len(results)); i < len(results); i++ {
			if len(list.Items) == p.Top || size >= resultsPage {
				list.Continuation = sealResults(id, row.id, i)
				return list, nil
			}
			if len(only) > 0 && !slices.Contains(only, results[i].Outcome) {
				continue
			}
			list.Items = append(list.Items, results[i])
			size += len(results[i].ID) + len(results[i].Result) + len(results[i].Error)
		}
		skip = 0
	}
	if read == 0 { // none yet, or the batch was removed
		_, err = b.Get(ctx, id)
	}
	return list, err
}

func checkTop(top int) error {
	if top < 1 || top > table.MaxPage {
		return fmt.Errorf("page of %d: use 1 to %d", top, table.MaxPage)
	}
	return nil
}

// sealResults returns the continuation of a list of results that continues with
// the i-th result of a row.
func sealResults(id string, row parcelID, i int) string {
	text, err := json.Marshal(resultsPlace{1, id, row.Parcel, row.Try, i})
	if err != nil {
		panic(err) // cannot occur: a text and numbers
	}
	return base64.RawURLEncoding.EncodeToString(text)
}

type resultsPlace struct {
	Version int    `json:"v"`
	Batch   string `json:"batch"`
	Parcel  int    `json:"parcel"`
	Try     int    `json:"try"`
	Skip    int    `json:"skip"`
}

// openResults returns the key above which a list continues, and how many
// results of the first row it skips.
func openResults(id, continuation string) (above string, skip int, err error) {
	if continuation == "" {
		return resultKey, 0, nil
	}
	var at resultsPlace
	text, err := base64.RawURLEncoding.Strict().DecodeString(continuation)
	if err == nil && len(text) <= 200 {
		err = decodeStrictly(text, &at, 1)
	}
	row := parcelID{at.Parcel, at.Try}
	if err != nil || at.Batch != id || row.check() != nil || at.Skip < 0 || at.Skip > LargeParcel {
		return "", 0, fmt.Errorf("%w: it was not returned by this list", ErrContinuation)
	}
	key := row.key()
	above = key[:len(key)-1] // below all tries of the parcel
	if row.Try > 0 {
		above = parcelID{row.Parcel, row.Try - 1}.key()
	}
	return above, at.Skip, nil
}
