package timers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"kennel/internal/attempt"
	"kennel/internal/control"
	"kennel/internal/table"
)

// State is what is known of a timer.
type State struct {
	Timer        string         `json:"timer"`
	Schedule     string         `json:"schedule"`
	Zone         string         `json:"zone"`
	Paused       *control.Pause `json:"paused"` // null: it is not
	NextAt       time.Time      `json:"nextAt"`
	RunningSince *time.Time     `json:"runningSince"` // null: no attempt runs
	LastOKAt     *time.Time     `json:"lastOkAt"`     // null: never
	Last         *Last          `json:"last"`         // null: no slot has ended
}

// Last is the slot that ended last.
type Last struct {
	Slot    time.Time `json:"slot"`
	At      time.Time `json:"at"`
	Outcome string    `json:"outcome"` // done or failed
	Seconds float64   `json:"seconds"` // of its last attempt
	Error   *string   `json:"error"`   // null if it is done
}

// List returns all timers by name.
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
	slices.SortFunc(all, func(a, b State) int { return strings.Compare(a.Timer, b.Timer) })
	return all, nil
}

// Get returns one timer, or ErrUnknown.
func (t *Timers) Get(ctx context.Context, name string) (State, error) {
	one := t.timer(name)
	if one == nil {
		return State{}, fmt.Errorf("%w: %q", ErrUnknown, name)
	}
	r, err := one.load(ctx)
	if err != nil {
		return State{}, err
	}
	return one.state(r, attempt.Now(ctx)), nil
}

// load returns the row of a timer, the zero one if there is none.
func (t *timer) load(ctx context.Context) (row, error) {
	stored, err := t.all.rows.Get(ctx, partition, t.Name)
	switch {
	case errors.Is(err, table.ErrNotFound):
		return row{}, nil
	case err != nil:
		return row{}, err
	}
	return readRow(stored)
}

func (t *timer) state(r row, now time.Time) State {
	s := State{Timer: t.Name, Schedule: t.Schedule, Zone: t.zone, Paused: r.paused, NextAt: t.claim.slots.Next(now)}
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
