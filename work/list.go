package work

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sync/errgroup"

	"kennel/internal/table"
	"kennel/work/internal/format"
)

const (
	listPage    = 200 // rows of one request; a batch and its details are about 1 KB
	readsAtOnce = 16  // of rows of batches
)

// List returns the batches in the order of their submission, or with
// newestFirst in the reverse order.
func (b *Batches) List(ctx context.Context, newestFirst bool, p Page) (List[Batch], error) {
	list := List[Batch]{Items: make([]Batch, 0)}
	if err := checkTop(p.Top); err != nil {
		return list, err
	}
	prefix, end, order := format.Oldest, string(format.Oldest[0]+1), func(id string) string { return id }
	if newestFirst {
		prefix, end, order = format.Newest, string(format.Newest[0]+1), format.Invert
	}
	q := table.Query{Partition: format.ListIn, Above: prefix, Below: end}
	if p.Continuation != "" {
		if CheckID(p.Continuation) != nil {
			return list, fmt.Errorf("%w: it was not returned by this list", ErrContinuation)
		}
		q.Above = prefix + order(p.Continuation)
	}
	for {
		q.Top = min(p.Top-len(list.Items)-list.LeftOut, listPage)
		page, err := b.base.Store.Rows.Query(ctx, q)
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

// addListed adds the batches of rows of a list. It reads the rows of those
// that are not finished.
func (b *Batches) addListed(ctx context.Context, list *List[Batch], rows []table.Row) error {
	batches, corrupt := make([]Batch, len(rows)), make([]error, len(rows))
	reads, ctx := errgroup.WithContext(ctx)
	reads.SetLimit(readsAtOnce)
	for i, row := range rows {
		d, final, err := format.ReadListRow(row)
		switch {
		case err != nil:
			corrupt[i] = err
		case final != nil:
			batches[i] = *final
		default:
			reads.Go(func() error {
				l, err := b.base.Store.BatchRow(ctx, d.ID)
				switch {
				case err == nil:
					batches[i] = b.base.View(ctx, l)
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
