package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"kennel/ids"
	"kennel/internal/customhandler"
	"kennel/internal/instances"
)

// sequenceItem is a sequence in the list.
type sequenceItem struct {
	Sequence  string    `json:"sequence"`
	Next      *int64    `json:"next"` // nil if the stored text is not a number
	UpdatedAt time.Time `json:"updatedAt"`
	PerSecond float64   `json:"perSecond"` // of all instances that are known
	Lost      int64     `json:"lost"`      // by them
}

// sequenceList is a page of sequences.
type sequenceList struct {
	Items        []sequenceItem `json:"items"`
	Continuation string         `json:"continuation,omitempty"`
	Partial      bool           `json:"partial,omitempty"` // only this instance is known
}

// sequenceState is the answer about one sequence.
type sequenceState struct {
	Sequence  string             `json:"sequence"`
	Next      int64              `json:"next"`
	UpdatedAt time.Time          `json:"updatedAt"`
	Instances []sequenceInstance `json:"instances"`         // those that use it, in the order of their names
	Partial   bool               `json:"partial,omitempty"` // only this instance is known
}

// raisedState is the answer to a raise.
type raisedState struct {
	sequenceState
	Changed bool `json:"changed"` // false: the number was high enough before
}

type sequenceInstance struct {
	Instance    string     `json:"instance"`
	Available   int64      `json:"available"`
	Highest     int64      `json:"highest"`                    // the highest number that it has reserved
	Seconds     *float64   `json:"secondsAvailable,omitempty"` // how long what is available lasts; nil without demand
	PerSecond   float64    `json:"perSecond"`                  // issued
	Lost        int64      `json:"lost"`                       // given up
	LastError   string     `json:"lastError,omitempty"`
	LastErrorAt *time.Time `json:"lastErrorAt,omitempty"`
}

// serve limits a call that concerns stored sequences.
func (s sequenceFunctions) serve(do func(*http.Request) (reply, error)) http.Handler {
	return serve(sequenceStateFailures, func(r *http.Request) (reply, error) { return limited(r, do) })
}

// list serves GET /api/sequences?top=N&continuation=….
func (s sequenceFunctions) list(r *http.Request) (reply, error) {
	top, continuation, err := pageOf(r)
	if err != nil {
		return reply{}, err
	}
	others := s.others(r.Context())
	page, next, err := s.store.List(r.Context(), top, continuation)
	directory, unknown := others()
	if err != nil {
		return reply{}, err
	}
	all, known := s.members.known(r.Context(), directory, unknown)
	sums := usageOf(all)
	items := []sequenceItem{}
	for _, stored := range page {
		if stored.Mark.Version == "" {
			continue // deleted while the list was read
		}
		sum := sums[stored.Name]
		item := sequenceItem{Sequence: stored.Name, UpdatedAt: stored.UpdatedAt, PerSecond: sum.perSecond, Lost: sum.lost}
		if n, err := stored.Mark.Next(); err == nil {
			n = exact(n)
			item.Next = &n
		}
		if used, ok := s.sequences.StatsOf(stored.Name); ok {
			item.PerSecond += used.PerSecond
			item.Lost += used.Lost
		}
		items = append(items, item)
	}
	return reply{status: http.StatusOK, body: sequenceList{items, next, !known}}, nil
}

// state serves GET /api/sequences/{sequence}.
func (s sequenceFunctions) state(r *http.Request) (reply, error) {
	sequence := r.PathValue("sequence")
	if err := s.check(sequence); err != nil {
		return reply{}, err
	}
	state, err := s.read(r.Context(), sequence)
	return reply{status: http.StatusOK, body: state}, err
}

func (s sequenceFunctions) read(ctx context.Context, sequence string) (sequenceState, error) {
	others := s.others(ctx)
	stored, err := s.store.Read(ctx, sequence)
	directory, unknown := others()
	var next int64
	if err == nil {
		next, err = stored.Mark.Next()
	}
	if err != nil {
		return sequenceState{}, s.withRepair(fmt.Errorf("sequence %q: %w", sequence, err), sequence, directory)
	}
	all, known := s.members.known(ctx, directory, unknown)
	return sequenceState{sequence, exact(next), stored.UpdatedAt, s.instances(sequence, all), !known}, nil
}

// withRepair adds to the error of an unusable sequence what the instances of the
// app have reserved of it, and the command that raises it above that.
func (s sequenceFunctions) withRepair(err error, sequence string, directory instances.Directory) error {
	var f failure
	switch {
	case errors.Is(err, ids.ErrMissing):
		f = sequenceMissing
	case errors.Is(err, ids.ErrCorrupt):
		f = sequenceCorrupt
	default:
		return err
	}
	var highest int64
	for _, i := range s.instances(sequence, append(directory.Live, directory.Gone...)) {
		highest = max(highest, i.Highest)
	}
	if highest == 0 {
		return err
	}
	return fmt.Errorf("%w: %w", err, &customhandler.Error{Status: f.status, Code: f.code,
		Message: f.message + " " + repairOf(sequence, highest)})
}

// repairOf returns a sentence with the command that raises an unusable sequence
// above the highest number that is known to be reserved.
func repairOf(sequence string, highest int64) string {
	return fmt.Sprintf("Instances have reserved numbers up to %d: `kennel sequences raise %s --at-least %d` is above all that they report.", highest, sequence, highest+1)
}

// exact returns the next number of a sequence, which is above ids.MaxExact if it
// is exhausted, as a number that every JSON reader keeps.
func exact(next int64) int64 { return min(next, ids.MaxExact+1) }

// others begins to read what the other processes report of sequences, which
// takes about as long as a list of them. The function that it returns waits for
// it, and must be called.
func (s sequenceFunctions) others(ctx context.Context) (wait func() (instances.Directory, error)) {
	var directory instances.Directory
	var err error
	var reading sync.WaitGroup
	reading.Go(func() { directory, err = s.members.read(ctx, instances.PartSequences) })
	return func() (instances.Directory, error) {
		reading.Wait()
		return directory, err
	}
}

// instances returns what this instance and others have of a sequence.
func (s sequenceFunctions) instances(sequence string, others []instances.Instance) []sequenceInstance {
	all := []sequenceInstance{}
	add := func(instance string, used instances.Sequence) {
		i := sequenceInstance{Instance: instance, Available: used.Available, Highest: used.Highest, PerSecond: used.PerSecond, Lost: used.Lost, LastError: used.LastError}
		if seconds, ok := used.Seconds(); ok {
			i.Seconds = &seconds
		}
		if used.LastError != "" {
			at := used.LastErrorAt.UTC()
			i.LastErrorAt = &at
		}
		all = append(all, i)
	}
	if used, ok := s.sequences.StatsOf(sequence); ok {
		add(s.members.Name(), reported(ids.Used{Sequence: sequence, Stats: used}))
	}
	for _, other := range others {
		for _, used := range other.Sequences {
			if used.Name == sequence {
				add(other.Instance, used)
			}
		}
	}
	slices.SortFunc(all, func(a, b sequenceInstance) int { return strings.Compare(a.Instance, b.Instance) })
	return all
}

// errRaiseUnclear reports a raise whose outcome storage did not confirm.
var errRaiseUnclear = errors.New("storage did not confirm the raise")

// maxReason is the length of a reason in characters, as for gates.
const maxReason = 1000

// raise serves POST /api/sequences/{sequence}/raise with a body
// {"atLeast":N,"reason":"…","force":false}.
func (s sequenceFunctions) raise(r *http.Request) (reply, error) {
	sequence := r.PathValue("sequence")
	if err := s.check(sequence); err != nil {
		return reply{}, err
	}
	var body struct {
		AtLeast *int64 `json:"atLeast"`
		Reason  string `json:"reason"`
		Force   bool   `json:"force"`
	}
	if err := customhandler.ReadJSON(r, maxBody, &body); err != nil {
		return reply{}, err
	}
	switch {
	case body.AtLeast == nil || *body.AtLeast < 0 || *body.AtLeast > ids.MaxExact:
		return reply{}, badRequest("bad_raise", fmt.Sprintf("atLeast must be a whole number from 0 to %d.", int64(ids.MaxExact)))
	case len([]rune(body.Reason)) > maxReason:
		return reply{}, badRequest("bad_raise", fmt.Sprintf("reason is longer than %d characters.", maxReason))
	}
	if err := s.checkRaise(r.Context(), sequence, *body.AtLeast, body.Force); err != nil {
		return reply{}, err
	}
	raised, err := ids.Raise(r.Context(), s.store, sequence, *body.AtLeast, body.Force)
	switch {
	case errors.Is(err, ids.ErrCorrupt) || errors.Is(err, ids.ErrRefused):
		return reply{}, err
	case err != nil:
		return reply{}, fmt.Errorf("%w: %w", errRaiseUnclear, err)
	}
	if raised.Changed {
		s.log.InfoContext(r.Context(), "sequence raised", "sequence", sequence, "next", raised.Next, "reason", body.Reason)
	}
	state, err := s.read(r.Context(), sequence)
	if err != nil {
		return reply{}, fmt.Errorf("%w: %w", errRaiseUnclear, err)
	}
	return reply{status: http.StatusOK, body: raisedState{state, raised.Changed}}, nil
}

// errUnchecked reports a raise that could not be compared with what the
// instances of the app have reserved.
var errUnchecked = errors.New("the raise could not be checked")

// checkRaise rejects a raise that would let numbers be issued again: one of a
// sequence whose stored number is not above what an instance has reserved, even
// one that was killed within the last day.
func (s sequenceFunctions) checkRaise(ctx context.Context, sequence string, atLeast int64, force bool) error {
	if force {
		return nil
	}
	directory, unknown := s.members.read(ctx, instances.PartSequences)
	if unknown == nil && directory.Unreadable > 0 {
		unknown = fmt.Errorf("the reports of %d instances cannot be read", directory.Unreadable)
	}
	reserved := s.instances(sequence, append(directory.Live, directory.Gone...))
	// The stored number is read after what is reserved. Otherwise numbers that are
	// reserved in between would seem to be above it.
	stored, err := s.store.Read(ctx, sequence)
	if err == nil {
		if next, err := stored.Mark.Next(); err == nil && next >= atLeast {
			return nil // the raise changes nothing
		}
	}
	if unknown != nil && !errors.Is(unknown, errUnknown) {
		return fmt.Errorf("%w: %w", errUnchecked, unknown)
	}
	var highest sequenceInstance
	for _, i := range reserved {
		if i.Highest >= max(atLeast, highest.Highest) {
			highest = i
		}
	}
	if highest.Instance == "" {
		return nil
	}
	return &customhandler.Error{Status: http.StatusConflict, Code: "raise_too_low",
		Message: fmt.Sprintf(`Instance %s has reserved numbers up to %d. Raise the sequence to at least %d, or send "force":true if they do not matter.`, highest.Instance, highest.Highest, highest.Highest+1)}
}
