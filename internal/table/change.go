package table

import (
	"context"
	"errors"
)

// maxRaces bounds how often Change begins again after others were faster.
const maxRaces = 5

// Change replaces the values of one row. next returns those that follow on the
// present row, nil to leave it as it is, or an error, which Change returns; now is
// nil if there is no row. When another caller is faster, Change begins again.
//
// After a write that failed, made reports whether the row that is there now, nil
// for none, is as the caller wants it, be it by this write or by another caller.
// An error that wraps ErrUnclear means that the change may have been made.
func (t *Table) Change(ctx context.Context, partition, key string, next func(now *Row) (map[string]string, error), made func(now *Row) bool) error {
	for race := 1; ; race++ {
		write := Write{Verb: Insert}
		var now *Row
		stored, err := t.Get(ctx, partition, key)
		switch {
		case err == nil:
			write.Verb, write.If, now = Replace, stored.Version, &stored
		case !errors.Is(err, ErrNotFound):
			return err
		}
		values, err := next(now)
		if err != nil || values == nil {
			return err
		}
		write.Row = Row{Partition: partition, Key: key, Values: values}
		if _, err = t.Submit(ctx, write); err == nil {
			return nil
		}
		stored, found, errBack := t.ReadBack(ctx, err, partition, key)
		if errBack != nil {
			return errBack
		}
		if now = nil; found {
			now = &stored
		}
		switch {
		case made(now):
			return nil
		case !IsConflict(err) || errors.Is(err, ErrUnclear) || race == maxRaces:
			return err
		}
	}
}
