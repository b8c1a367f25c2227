package work

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sync/errgroup"

	"kennel/internal/table"
)

const (
	// finalColumn holds the batch in its rows in the lists after its end, so
	// that a list reads no ledger of a finished batch.
	finalColumn = "batch"

	listPage    = 200 // rows of one request; a batch and its details are about 1 KB
	readsAtOnce = 16  // of ledgers
)

// listRows returns the writes of the rows of a batch in the lists: at its
// launch, or with the final batch at its end.
func listRows(d details, final *Batch) []table.Write {
	verb, values := table.Insert, map[string]string{detailsColumn: d.text()}
	if final != nil {
		verb = table.Upsert
		text, err := json.Marshal(final)
		if err != nil {
			panic(err) // cannot occur: texts, numbers and times
		}
		values[finalColumn] = string(text)
	}
	return []table.Write{
		{Verb: verb, Row: table.Row{Partition: listIn, Key: oldest + d.ID, Values: values}},
		{Verb: verb, Row: table.Row{Partition: listIn, Key: newest + invert(d.ID), Values: values}},
	}
}

// readListRow reads a row of a list. final is nil if the batch is not finished.
func readListRow(row table.Row) (d details, final *Batch, err error) {
	if d, err = readDetails(row.Values[detailsColumn]); err != nil {
		return d, nil, err
	}
	text, ok := row.Values[finalColumn]
	if !ok {
		return d, nil, nil
	}
	final = new(Batch)
	if err := json.Unmarshal([]byte(text), final); err != nil || final.ID != d.ID || final.FinishedAt == nil {
		return d, nil, fmt.Errorf("row %.80q of %.80q, column %s: %w", row.Key, row.Partition, finalColumn, ErrCorrupt)
	}
	return d, final, nil
}

// List returns the batches in the order of their submission, or with
// newestFirst in the reverse order.
func (b *Batches) List(ctx context.Context, newestFirst bool, p Page) (List[Batch], error) {
	list := List[Batch]{Items: make([]Batch, 0)}
	if err := checkTop(p.Top); err != nil {
		return list, err
	}
	prefix, end, order := oldest, string(oldest[0]+1), func(id string) string { return id }
	if newestFirst {
		prefix, end, order = newest, string(newest[0]+1), invert
	}
	q := table.Query{Partition: listIn, Above: prefix, Below: end}
	if p.Continuation != "" {
		if CheckID(p.Continuation) != nil {
			return list, fmt.Errorf("%w: it was not returned by this list", ErrContinuation)
		}
		q.Above = prefix + order(p.Continuation)
	}
	for {
		q.Top = min(p.Top-len(list.Items)-list.LeftOut, listPage)
		page, err := b.rows.Query(ctx, q)
		if err == nil {
			err = b.addListed(ctx, &list, page.Rows)
		}
		if err != nil {
			return List[Batch]{}, fmt.Errorf("list batches: %w", err)
		}
		q.After = page.Next
		if q.After == "" {
			return list, nil
		}
		if len(list.Items)+list.LeftOut == p.Top {
			last := page.Rows[len(page.Rows)-1].Key
			list.Continuation = order(strings.TrimPrefix(last, prefix))
			return list, nil
		}
	}
}

// addListed adds the batches of rows of a list. It reads the ledgers of those
// that are not finished.
func (b *Batches) addListed(ctx context.Context, list *List[Batch], rows []table.Row) error {
	batches, corrupt := make([]Batch, len(rows)), make([]error, len(rows))
	reads, ctx := errgroup.WithContext(ctx)
	reads.SetLimit(readsAtOnce)
	for i, row := range rows {
		d, final, err := readListRow(row)
		switch {
		case err != nil:
			corrupt[i] = err
		case final != nil:
			batches[i] = *final
		default:
			reads.Go(func() error {
				l, err := b.ledger(ctx, d.ID)
				switch {
				case err == nil:
					batches[i] = b.view(ctx, l)
				case errors.Is(err, ErrCorrupt):
					corrupt[i] = err
				default:
					return err
				}
				return nil
			})
		}
	}
	if err := reads.Wait(); err != nil {
		return err
	}
	for i, err := range corrupt {
		if err == nil {
			list.Items = append(list.Items, batches[i])
			continue
		}
		list.LeftOut++
		list.Problem = cmp.Or(list.Problem, err)
	}
	return nil
}
