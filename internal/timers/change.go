package timers

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"time"

	"kennel/internal/attempt"
	"kennel/internal/control"
	"kennel/internal/table"
)

// Start requests a run now, in addition to the slots of the schedule, whose slot
// is the present time. This process takes it; if it is killed before, another
// process does when it next reads the row. The error is ErrRunning if a slot
// runs or waits. It returns the slot.
func (t *Timers) Start(ctx context.Context, name string) (slot time.Time, err error) {
	one := t.timer(name)
	if one == nil {
		return time.Time{}, fmt.Errorf("%w: %q", ErrUnknown, name)
	}
	err = one.replace(ctx, func(r row, now time.Time) (*row, error) {
		if r.phase != idle || !r.asked.IsZero() {
			return nil, ErrRunning
		}
		// Not the time of a slot, which has whole seconds.
		slot = wall(now).Truncate(time.Millisecond).Add(time.Microsecond)
		r.asked = slot
		return &r, nil
	}, func(r row) bool { // another process may have taken it already
		return slices.ContainsFunc([]time.Time{r.asked, r.slot, r.last.slot}, slot.Equal)
	})
	return slot, err
}

// Pause has no process take a slot of the timer until Resume. An attempt that
// runs goes on, and a requested run is still done. A timer that is paused keeps
// its pause. It returns the timer; an error that wraps table.ErrUnclear means
// that it may be paused.
func (t *Timers) Pause(ctx context.Context, name string, p control.Pause) (State, error) {
	return t.change(ctx, name, true, func(_ *timer, r row, now time.Time) row {
		p := p.Cut()
		p.At = wall(now).Truncate(time.Millisecond)
		r.paused = &p
		return r
	})
}

// Resume ends a pause. The slots that began meanwhile are skipped; with CatchUp
// they are done now, one after the other.
func (t *Timers) Resume(ctx context.Context, name string) (State, error) {
	return t.change(ctx, name, false, func(one *timer, r row, now time.Time) row {
		if !one.CatchUp {
			r.after = later(r.after, wall(now))
		}
		r.paused = nil
		return r
	})
}

// change pauses or resumes a timer by next, unless it is so already.
func (t *Timers) change(ctx context.Context, name string, paused bool, next func(*timer, row, time.Time) row) (State, error) {
	one := t.timer(name)
	if one == nil {
		return State{}, fmt.Errorf("%w: %q", ErrUnknown, name)
	}
	var known row
	var at time.Time
	err := one.replace(ctx, func(r row, now time.Time) (*row, error) {
		known, at = r, now
		if (r.paused != nil) == paused {
			return nil, nil
		}
		known = next(one, r, now)
		return &known, nil
	}, func(r row) bool { // by this write, or by another person
		if (r.paused != nil) != paused {
			return false
		}
		known = r
		return true
	})
	if err != nil {
		return State{}, err
	}
	return one.state(known, at), nil
}

// replace replaces the row of a timer by the one that next returns, unless that
// is nil, and wakes the timer in this process. made reports whether a row that is
// there after a write that failed is as the caller wants it.
func (t *timer) replace(ctx context.Context, next func(r row, now time.Time) (*row, error), made func(row) bool) error {
	changes := false
	err := t.all.rows.Change(ctx, partition, t.Name, func(stored *table.Row) (map[string]string, error) {
		now := attempt.Now(ctx)
		r := row{schedule: t.claim.text, after: wall(now), phase: idle}
		if stored != nil {
			var err error
			if r, err = readRow(*stored); err != nil {
				return nil, err
			}
		}
		after, err := next(r, now)
		if changes = after != nil; !changes || err != nil {
			return nil, err
		}
		after.nonce = rand.Text() // or a process would take this write for one of its own
		return after.values(), nil
	}, func(stored *table.Row) bool {
		if stored == nil {
			return false
		}
		r, err := readRow(*stored)
		return err == nil && made(r)
	})
	if err == nil && changes {
		t.rouse(true)
	}
	return err
}
