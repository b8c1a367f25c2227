package ids

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
)

// ErrLower reports that a sequence cannot be lowered, because the numbers in
// between may have been issued.
var ErrLower = errors.New("a sequence cannot be lowered")

// Raise makes next the next free number of a sequence, new or in use. A
// generator on any node gives up its lower numbers when it next reserves. Each
// one therefore issues at most one range more below next. Raising again to the
// same number changes nothing.
func Raise(ctx context.Context, store Store, sequence string, next int64) error {
	if err := CheckName(sequence); err != nil {
		return err
	}
	if next < 0 {
		return fmt.Errorf("raise sequence %q to %d: use a number that is not negative", sequence, next)
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
				return nil // raised before, perhaps by an earlier try whose reply was lost
			}
			if at > next {
				return fmt.Errorf("raise sequence %q to %d: %w: its next number is %d", sequence, next, ErrLower, at)
			}
		}
		_, err = store.Replace(ctx, sequence, held, to)
		switch {
		case err == nil:
			return nil
		case !errors.Is(err, ErrChanged):
			return fmt.Errorf("raise sequence %q to %d (it may have been raised; it is safe to repeat): %w", sequence, next, err)
		}
	}
}
