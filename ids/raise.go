package ids

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
)

// ErrLower says that a sequence cannot be moved back: the numbers between may
// have been issued.
var ErrLower = errors.New("a sequence cannot be lowered")

// Raise makes next the next free number of a sequence, running or new.
// Generators, also of other nodes, give up the lower numbers they hold when
// they next reserve, so each issues at most one range more below next. Raising
// again to the same number changes nothing.
func Raise(ctx context.Context, store Store, sequence string, next int64) error {
	if err := CheckName(sequence); err != nil {
		return err
	}
	if next < 0 {
		return fmt.Errorf("raise sequence %q to %d: order numbers are not negative", sequence, next)
	}
	to := Mark{Text: formatNext(next), Floor: formatNext(next), Writer: rand.Text() + "/raise"}
	for {
		held, err := store.Load(ctx, sequence)
		switch {
		case errors.Is(err, ErrNotFound):
			held = Mark{}
		case err != nil:
			return fmt.Errorf("raise sequence %q: %w", sequence, err)
		default:
			at, err := parseNext(held.Text)
			if err != nil {
				return fmt.Errorf("raise sequence %q: %w", sequence, err)
			}
			floor, err := parseFloor(held.Floor)
			if err != nil {
				return fmt.Errorf("raise sequence %q: %w", sequence, err)
			}
			if floor == next {
				return nil // done before, or by an earlier try whose reply was lost
			}
			if at > next {
				return fmt.Errorf("raise sequence %q to %d: %w: it stands at %d", sequence, next, ErrLower, at)
			}
		}
		_, err = store.Replace(ctx, sequence, held, to)
		switch {
		case err == nil:
			return nil
		case !errors.Is(err, ErrChanged):
			return fmt.Errorf("raise sequence %q to %d, perhaps done: %w", sequence, next, err)
		}
	}
}
