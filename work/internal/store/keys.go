package store

import (
	"context"
	"errors"
	"fmt"

	"kennel/internal/table"
	"kennel/work/internal/format"
)

func (s *Store) ReadKey(ctx context.Context, key string) (k format.KeyRow, found bool, err error) {
	row, err := s.Rows.Get(ctx, format.KeysIn, key)
	switch {
	case errors.Is(err, table.ErrNotFound):
		return format.KeyRow{}, false, nil
	case err != nil:
		return format.KeyRow{}, false, fmt.Errorf("read the key of a batch: %w", err)
	}
	k, err = format.ReadKeyRow(row)
	return k, err == nil, err
}

// TakeKey makes the key of a batch its own. If the key is that of another
// batch, TakeKey returns that one.
func (s *Store) TakeKey(ctx context.Context, d format.Details) (winner format.KeyRow, err error) {
	row := d.KeyRow()
	for {
		k, found, err := s.ReadKey(ctx, d.Key)
		w := table.Write{Verb: table.Insert, Row: row}
		switch {
		case err != nil:
			return format.KeyRow{}, err
		case found && k.Batch == d.ID:
			return format.KeyRow{}, nil
		case found && k.IsValid(d.SubmittedAt): // not now: its caller has got the other one
			return k, nil
		case found:
			w.Verb, w.If = table.Replace, k.Version
		}
		_, err = s.Rows.Submit(ctx, w)
		switch {
		case err == nil:
			return format.KeyRow{}, nil
		case ctx.Err() != nil, !raced(err) && !errors.Is(err, table.ErrUnclear):
			return format.KeyRow{}, fmt.Errorf("take the key of a batch: %w", err)
		}
	}
}

// DropKey deletes the row of a key if it is that of the batch.
func (s *Store) DropKey(ctx context.Context, d format.Details) error {
	if d.Key == "" {
		return nil
	}
	k, found, err := s.ReadKey(ctx, d.Key)
	if err != nil || !found || k.Batch != d.ID {
		return err
	}
	_, err = s.Rows.Submit(ctx, table.Write{Verb: table.Delete, Row: table.Row{Partition: format.KeysIn, Key: d.Key}, If: k.Version})
	if err != nil && !raced(err) {
		return fmt.Errorf("delete the key of batch %s: %w", d.ID, err)
	}
	return nil
}

// raced reports whether another writer was faster, or an earlier try of the same
// write.
func raced(err error) bool {
	return errors.Is(err, table.ErrExists) || errors.Is(err, table.ErrChanged) || errors.Is(err, table.ErrNotFound)
}
