package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"

	"kennel/internal/table"
	"kennel/work/internal/format"
)

// Bounds of one page of results in memory. A row is at most 1 MiB.
const (
	ResultsPage = 4 << 20 // bytes
	shrinkPage  = 4       // the next page has this part of the rows after one that is too large
)

// FindResults returns the row of one try of a parcel.
func (s *Store) FindResults(ctx context.Context, batch string, id format.ParcelID) (r format.ResultRow, found bool, err error) {
	row, err := s.Rows.Get(ctx, batch, id.Key())
	switch {
	case errors.Is(err, table.ErrNotFound):
		return format.ResultRow{}, false, nil
	case err != nil:
		return format.ResultRow{}, false, fmt.Errorf("read results of batch %s: %w", batch, err)
	}
	r, err = format.ReadResultRow(row)
	return r, err == nil, err
}

// InsertResults inserts a row unless it exists, and returns the stored one,
// which another process may have inserted.
func (s *Store) InsertResults(ctx context.Context, batch string, r format.ResultRow) (stored format.ResultRow, err error) {
	_, err = s.Rows.Submit(ctx, table.Write{Verb: table.Insert, Row: r.Row(batch)})
	if err == nil {
		return r, nil
	}
	row, found, readErr := s.Rows.ReadBack(ctx, err, batch, r.ID.Key())
	switch {
	case readErr != nil:
		return format.ResultRow{}, fmt.Errorf("insert results of batch %s: %w", batch, readErr)
	case !found:
		return format.ResultRow{}, fmt.Errorf("insert results of batch %s: %w", batch, err)
	}
	return format.ReadResultRow(row)
}

// RowsAbove returns the rows of results of a batch in the order of their keys,
// which is the same at each read. It reads a page at a time.
func (s *Store) RowsAbove(ctx context.Context, batch, above string, top int) iter.Seq2[format.ResultRow, error] {
	return func(yield func(format.ResultRow, error) bool) {
		q := table.Query{Partition: batch, Above: above, Below: format.ResultEnd, Top: top, MaxBytes: ResultsPage}
		for {
			page, err := s.Rows.Query(ctx, q)
			if errors.Is(err, table.ErrLarge) {
				if q.Top = q.Top / shrinkPage; q.Top <= 1 {
					q.Top, q.MaxBytes = 1, 0
				}
				continue
			}
			if err != nil {
				yield(format.ResultRow{}, fmt.Errorf("read results of batch %s: %w", batch, err))
				return
			}
			for _, row := range page.Rows {
				if r, err := format.ReadResultRow(row); !yield(r, err) || err != nil {
					return
				}
			}
			if q.After = page.Next; q.After == "" {
				return
			}
		}
	}
}

// Results is what is stored of the parcels of a batch.
type Results struct {
	Known format.BitSet            // parcels with results
	Open  map[int]format.ResultRow // the last results of parcels with items that remain, without their bodies
}

// ReadResultRow reads which parcels have results. It calls each, if it is not
// nil, with every row.
func (s *Store) ReadResults(ctx context.Context, l format.BatchRow, each func(format.ResultRow)) (*Results, error) {
	r := &Results{Open: make(map[int]format.ResultRow)}
	for row, err := range s.RowsAbove(ctx, l.Details.ID, format.ResultKey, sweepRows) {
		if err != nil {
			return nil, err
		}
		row.Packed = nil
		r.Known.Set(row.ID.Parcel)
		delete(r.Open, row.ID.Parcel)
		if len(row.Remaining) > 0 {
			r.Open[row.ID.Parcel] = row
		}
		if each != nil {
			each(row)
		}
	}
	return r, nil
}

// CountAll counts rows of results in one change of the batch's row.
func (s *Store) CountAll(ctx context.Context, batch string, rows []format.ResultRow) (format.BatchRow, error) {
	var invalid error
	l, err := s.Change(ctx, batch, func(l *format.BatchRow) (changed bool) {
		invalid = nil
		for _, row := range rows {
			added, err := l.Add(row)
			changed, invalid = changed || added, cmp.Or(invalid, err)
		}
		return changed
	})
	return l, cmp.Or(err, invalid)
}

// DeleteRows deletes rows of one partition. If one is missing, it deletes none:
// another process has just deleted that one or all.
func (s *Store) DeleteRows(ctx context.Context, rows []table.Row) error {
	if len(rows) == 0 {
		return nil
	}
	writes := make([]table.Write, len(rows))
	for i, row := range rows {
		writes[i] = table.Write{Verb: table.Delete, Row: table.Row{Partition: row.Partition, Key: row.Key}, If: table.AnyVersion}
	}
	_, err := s.Rows.Submit(ctx, writes...)
	if errors.Is(err, table.ErrNotFound) {
		return nil
	}
	return err
}
