package timers

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"time"

	"kennel/internal/attempt"
	"kennel/internal/table"
)

// State is what is known of a timer.
type State struct {
	Timer        string     `json:"timer"`
	Schedule     string     `json:"schedule"`
	Zone         string     `json:"zone"`
	Paused       *struct{}  `json:"paused"` // null
	NextAt       time.Time  `json:"nextAt"`
	RunningSince *time.Time `json:"runningSince"` // null: no attempt runs
	LastOKAt     *time.Time `json:"lastOkAt"`     // null: never
	Last         *Last      `json:"last"`         // null: no slot has ended
}

// Last is the slot that ended last.
type Last struct {
	Slot    time.Time `json:"slot"`
	At      time.Time `json:"at"`
	Outcome string    `json:"outcome"` // done or failed
	Seconds float64   `json:"seconds"` // of its last attempt
	Error   *string   `json:"error"`   // null if it is done
}

// List returns all timers, in the order of their declaration.
func (t *Timers) List(ctx context.Context) ([]State, error) {
	if len(t.all) == 0 {
		return []State{}, nil // and perhaps there is no table
	}
	rows := make(map[string]row)
	for after := ""; ; {
		page, err := t.rows.Query(ctx, table.Query{Partition: partition, Top: table.MaxPage, After: after})
		if err != nil {
			return nil, err
		}
		for _, stored := range page.Rows {
			if t.timer(stored.Key) == nil {
				continue // of another version of the program
			}
			if rows[stored.Key], err = readRow(stored); err != nil {
				return nil, err
			}
		}
		if after = page.Next; after == "" {
			break
		}
	}
	all := make([]State, 0, len(t.all))
	for _, one := range t.all {
		all = append(all, one.state(rows[one.Name], attempt.Now(ctx)))
	}
	return all, nil
}

// Get returns one timer, or ErrUnknown.
func (t *Timers) Get(ctx context.Context, name string) (State, error) {
	one := t.timer(name)
	if one == nil {
		return State{}, fmt.Errorf("%w: %q", ErrUnknown, name)
	}
	r, _, err := one.load(ctx)
	if err != nil {
		return State{}, err
	}
	return one.state(r, attempt.Now(ctx)), nil
}

// load returns the row of a timer and its version, "" if there is none.
func (t *timer) load(ctx context.Context) (r row, version string, err error) {
	stored, err := t.all.rows.Get(ctx, partition, t.Name)
	switch {
	case errors.Is(err, table.ErrNotFound):
		return row{}, "", nil
	case err != nil:
		return row{}, "", err
	}
	r, err = readRow(stored)
	return r, stored.Version, err
}

func (t *timer) state(r row, now time.Time) State {
	s := State{Timer: t.Name, Schedule: t.Schedule, Zone: t.zone, NextAt: t.claim.slots.Next(now)}
	if r.phase == working {
		s.RunningSince = &r.since
	}
	if !r.lastOK.IsZero() {
		s.LastOKAt = &r.lastOK
	}
	if !r.last.at.IsZero() {
		s.Last = &Last{Slot: r.last.slot, At: r.last.at, Outcome: r.last.outcome, Seconds: r.last.took.Seconds()}
		if r.last.outcome == outcomeFailed {
			s.Last.Error = &r.last.reason
		}
	}
	return s
}

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
