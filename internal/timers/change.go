package timers

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"time"

	"kennel/internal/attempt"
	"kennel/internal/control"
	"kennel/internal/table"
)

// maxRaces bounds how often Start tries again after another process was faster.
const maxRaces = 5

// Start requests a run now, in addition to the slots of the schedule, whose slot
// is the present time. This process takes it; if it is killed before, another
// process does when it next reads the row. The error is ErrRunning if a slot
// runs or waits. It returns the slot.
func (t *Timers) Start(ctx context.Context, name string) (slot time.Time, err error) {
	one := t.timer(name)
	if one == nil {
		return time.Time{}, fmt.Errorf("%w: %q", ErrUnknown, name)
	}
	for race := 1; ; race++ {
		r, version, err := one.load(ctx)
		if err != nil {
			return time.Time{}, err
		}
		now := attempt.Now(ctx)
		write := table.Write{Verb: table.Replace, If: version}
		switch {
		case version == "":
			write.Verb = table.Insert
			r = row{schedule: one.claim.text, after: wall(now.Add(-recent)), phase: idle}
		case r.phase != idle || !r.asked.IsZero():
			return time.Time{}, ErrRunning
		}
		// Not the time of a slot, which has whole seconds.
		r.asked, r.nonce = wall(now).Truncate(time.Millisecond).Add(time.Microsecond), rand.Text()
		write.Row = table.Row{Partition: partition, Key: name, Values: r.values()}
		if _, err = t.rows.Submit(ctx, write); err != nil {
			stored, found, errBack := t.rows.ReadBack(ctx, err, partition, name)
			if errBack != nil {
				return time.Time{}, errBack
			}
			switch now, errRow := readRow(stored); {
			case found && errRow == nil && slices.ContainsFunc([]time.Time{now.asked, now.slot, now.last.slot}, r.asked.Equal):
				err = nil // another process may have taken it already
			case table.IsConflict(err) && !errors.Is(err, table.ErrUnclear) && race < maxRaces:
				continue
			}
		}
		if err == nil {
			one.rouse(true)
		}
		return r.asked, err
	}
}

// Pause has no process take a slot of the timer until Resume. An attempt that
// runs goes on, and a requested run is still done. A timer that is paused keeps
// its pause. It returns the timer; an error that wraps table.ErrUnclear means
// that it may be paused.
func (t *Timers) Pause(ctx context.Context, name string, p control.Pause) (State, error) {
	return t.change(ctx, name, func(_ *timer, r row, now time.Time) row {
		if r.paused == nil {
			p := p.Cut()
			p.At = wall(now).Truncate(time.Millisecond)
			r.paused = &p
		}
		return r
	})
}

// Resume ends a pause. The slots that began meanwhile are skipped; with CatchUp
// they are done now, one after the other.
func (t *Timers) Resume(ctx context.Context, name string) (State, error) {
	return t.change(ctx, name, func(one *timer, r row, now time.Time) row {
		if r.paused != nil && !one.CatchUp {
			r.after = later(r.after, wall(now))
		}
		r.paused = nil
		return r
	})
}

// change replaces the row of a timer by what next returns, if that is paused and
// the row is not, or the other way round.
func (t *Timers) change(ctx context.Context, name string, next func(*timer, row, time.Time) row) (State, error) {
	one := t.timer(name)
	if one == nil {
		return State{}, fmt.Errorf("%w: %q", ErrUnknown, name)
	}
	for race := 1; ; race++ {
		old, version, err := one.load(ctx)
		if err != nil {
			return State{}, err
		}
		now := attempt.Now(ctx)
		write := table.Write{Verb: table.Replace, If: version}
		if version == "" {
			write.Verb = table.Insert
			old = row{schedule: one.claim.text, after: wall(now.Add(-recent)), phase: idle}
		}
		r := next(one, old, now)
		if (r.paused == nil) == (old.paused == nil) {
			return one.state(old, now), nil
		}
		r.nonce = rand.Text() // or a process would take this write for one of its own
		write.Row = table.Row{Partition: partition, Key: name, Values: r.values()}
		if _, err = t.rows.Submit(ctx, write); err != nil {
			stored, found, errBack := t.rows.ReadBack(ctx, err, partition, name)
			if errBack != nil {
				return State{}, errBack
			}
			switch now, errRow := readRow(stored); {
			case found && errRow == nil && (now.paused == nil) == (r.paused == nil):
				r, err = now, nil // by this write, or by another person
			case table.IsConflict(err) && !errors.Is(err, table.ErrUnclear) && race < maxRaces:
				continue
			}
		}
		if err != nil {
			return State{}, err
		}
		one.rouse(true)
		return one.state(r, now), nil
	}
}
