package work

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"kennel/internal/table"
	"kennel/work/internal/format"
	"kennel/work/internal/store"
)

// maxSearched bounds the rows that are read for a page: 200,000 items or more.
const maxSearched = 2000

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
	for row, err := range b.base.Store.RowsAbove(ctx, id, above, rows) {
		if err != nil {
			return list, err
		}
		if read++; read > maxSearched {
			list.Continuation = sealResults(id, row.ID, 0)
			return list, nil
		}
		if len(only) > 0 && !row.HasAny(only) {
			skip = 0
			continue
		}
		results, err := row.Results(&b.base.Coders, id)
		if err != nil {
			return list, err
		}
		for i := min(skip, len(results)); i < len(results); i++ {
			if len(list.Items) == p.Top || size >= store.ResultsPage {
				list.Continuation = sealResults(id, row.ID, i)
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
func sealResults(id string, row format.ParcelID, i int) string {
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
		return format.ResultKey, 0, nil
	}
	var at resultsPlace
	text, err := base64.RawURLEncoding.Strict().DecodeString(continuation)
	if err == nil && len(text) <= 200 {
		err = format.DecodeStrictly(text, &at, 1)
	}
	row := format.ParcelID{Parcel: at.Parcel, Try: at.Try}
	if err != nil || at.Batch != id || row.Check() != nil || at.Skip < 0 || at.Skip > LargeParcel {
		return "", 0, fmt.Errorf("%w: it was not returned by this list", ErrContinuation)
	}
	key := row.Key()
	above = key[:len(key)-1] // below all tries of the parcel
	if row.Try > 0 {
		above = format.ParcelID{Parcel: row.Parcel, Try: row.Try - 1}.Key()
	}
	return above, at.Skip, nil
}
