package api

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
	"kennel/internal/edge"
	"kennel/internal/instances"
	"kennel/internal/observe"
)

// SequenceItem is a sequence in the list.
type SequenceItem struct {
	Sequence  string    `json:"sequence"`
	Next      *int64    `json:"next"` // nil if the stored text is not a number
	UpdatedAt time.Time `json:"updatedAt"`
	PerSecond float64   `json:"perSecond"` // of all instances that are known
	Lost      int64     `json:"lost"`      // by them
}

// SequenceList is a page of sequences.
type SequenceList struct {
	Items        []SequenceItem `json:"items"`
	Continuation string         `json:"continuation,omitempty"`
	Partial      bool           `json:"partial,omitempty"` // only this instance is known
}

// SequenceState is the answer about one sequence.
type SequenceState struct {
	Sequence  string             `json:"sequence"`
	Next      int64              `json:"next"`
	UpdatedAt time.Time          `json:"updatedAt"`
	Instances []SequenceInstance `json:"instances"`         // those that use it, in the order of their names
	Partial   bool               `json:"partial,omitempty"` // only this instance is known
}

// RaisedState is the answer to a raise.
type RaisedState struct {
	SequenceState
	Changed bool `json:"changed"` // false: the number was high enough before
}

// SequenceInstance is an instance that uses a sequence.
type SequenceInstance struct {
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
func (s SequenceResource) serve(do func(*http.Request) (edge.Reply, error)) http.Handler {
	return Serve(sequenceStateFailures, func(r *http.Request) (edge.Reply, error) { return edge.Limited(r, do) })
}

// list serves GET /api/sequences?top=N&continuation=….
func (s SequenceResource) list(r *http.Request) (edge.Reply, error) {
	top, continuation, err := edge.PageOf(r)
	if err != nil {
		return edge.Reply{}, err
	}
	others := s.others(r.Context())
	page, next, err := s.Store.List(r.Context(), top, continuation)
	directory, unknown := others()
	if err != nil {
		return edge.Reply{}, err
	}
	all, known := s.Members.Known(r.Context(), directory, unknown)
	sums := observe.UsageOf(all)
	items := []SequenceItem{}
	for _, stored := range page {
		if stored.Mark.Version == "" {
			continue // deleted while the list was read
		}
		sum := sums[stored.Name]
		item := SequenceItem{Sequence: stored.Name, UpdatedAt: stored.UpdatedAt, PerSecond: sum.PerSecond, Lost: sum.Lost}
		if n, err := stored.Mark.Next(); err == nil {
			n = exact(n)
			item.Next = &n
		}
		if used, ok := s.Sequences.StatsOf(stored.Name); ok {
			item.PerSecond += used.PerSecond
			item.Lost += used.Lost
		}
		items = append(items, item)
	}
	return edge.Reply{Status: http.StatusOK, Body: SequenceList{items, next, !known}}, nil
}

// state serves GET /api/sequences/{sequence}.
func (s SequenceResource) state(r *http.Request) (edge.Reply, error) {
	sequence := r.PathValue("sequence")
	if err := s.check(sequence); err != nil {
		return edge.Reply{}, err
	}
	state, err := s.read(r.Context(), sequence)
	return edge.Reply{Status: http.StatusOK, Body: state}, err
}

func (s SequenceResource) read(ctx context.Context, sequence string) (SequenceState, error) {
	others := s.others(ctx)
	stored, err := s.Store.Read(ctx, sequence)
	directory, unknown := others()
	var next int64
	if err == nil {
		next, err = stored.Mark.Next()
	}
	if err != nil {
		return SequenceState{}, s.withRepair(fmt.Errorf("sequence %q: %w", sequence, err), sequence, directory)
	}
	all, known := s.Members.Known(ctx, directory, unknown)
	return SequenceState{sequence, exact(next), stored.UpdatedAt, s.instances(sequence, all), !known}, nil
}

// withRepair adds to the error of an unusable sequence what the instances of the
// app have reserved of it, and the command that raises it above that.
func (s SequenceResource) withRepair(err error, sequence string, directory instances.Directory) error {
	var f Failure
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
	return fmt.Errorf("%w: %w", err, &customhandler.Error{Status: f.status, Code: f.Code,
		Message: f.Message + " " + observe.RepairOf(sequence, highest)})
}

// exact returns the next number of a sequence, which is above ids.MaxExact if it
// is exhausted, as a number that every JSON reader keeps.
func exact(next int64) int64 { return min(next, ids.MaxExact+1) }

// others begins to read what the other processes report of sequences, which
// takes about as long as a list of them. The function that it returns waits for
// it, and must be called.
func (s SequenceResource) others(ctx context.Context) (wait func() (instances.Directory, error)) {
	var directory instances.Directory
	var err error
	var reading sync.WaitGroup
	reading.Go(func() { directory, err = s.Members.Read(ctx, instances.SequenceSection) })
	return func() (instances.Directory, error) {
		reading.Wait()
		return directory, err
	}
}

// instances returns what this instance and others have of a sequence.
func (s SequenceResource) instances(sequence string, others []instances.Instance) []SequenceInstance {
	all := []SequenceInstance{}
	add := func(instance string, used instances.Sequence) {
		i := SequenceInstance{Instance: instance, Available: used.Available, Highest: used.Highest, PerSecond: used.PerSecond, Lost: used.Lost, LastError: used.LastError}
		if seconds, ok := used.Seconds(); ok {
			i.Seconds = &seconds
		}
		if used.LastError != "" {
			at := used.LastErrorAt.UTC()
			i.LastErrorAt = &at
		}
		all = append(all, i)
	}
	if used, ok := s.Sequences.StatsOf(sequence); ok {
		add(s.Members.Name(), Reported(ids.Used{Sequence: sequence, Stats: used}))
	}
	for _, other := range others {
		for _, used := range instances.SequenceSection.Of(other.Report) {
			if used.Name == sequence {
				add(other.Instance, used)
			}
		}
	}
	slices.SortFunc(all, func(a, b SequenceInstance) int { return strings.Compare(a.Instance, b.Instance) })
	return all
}

// raise serves POST /api/sequences/{sequence}/raise with a body
// {"atLeast":N,"reason":"…","force":false}.
func (s SequenceResource) raise(r *http.Request) (edge.Reply, error) {
	sequence := r.PathValue("sequence")
	if err := s.check(sequence); err != nil {
		return edge.Reply{}, err
	}
	var body struct {
		AtLeast *int64 `json:"atLeast"`
		Reason  string `json:"reason"`
		Force   bool   `json:"force"`
	}
	if err := customhandler.ReadJSON(r, edge.MaxBody, &body); err != nil {
		return edge.Reply{}, err
	}
	switch {
	case body.AtLeast == nil || *body.AtLeast < 0 || *body.AtLeast > ids.MaxExact:
		return edge.Reply{}, edge.BadRequest("bad_raise", fmt.Sprintf("atLeast must be a whole number from 0 to %d.", int64(ids.MaxExact)))
	case len([]rune(body.Reason)) > edge.MaxReason:
		return edge.Reply{}, edge.BadRequest("bad_raise", fmt.Sprintf("reason is longer than %d characters.", edge.MaxReason))
	}
	if err := s.checkRaise(r.Context(), sequence, *body.AtLeast, body.Force); err != nil {
		return edge.Reply{}, err
	}
	raised, err := ids.Raise(r.Context(), s.Store, sequence, *body.AtLeast, body.Force)
	switch {
	case errors.Is(err, ids.ErrCorrupt) || errors.Is(err, ids.ErrRefused):
		return edge.Reply{}, err
	case err != nil:
		return edge.Reply{}, fmt.Errorf("%w: %w", errRaiseUnclear, err)
	}
	if raised.Changed {
		s.Log.InfoContext(r.Context(), "sequence raised", "sequence", sequence, "next", raised.Next, "reason", body.Reason)
	}
	state, err := s.read(r.Context(), sequence)
	if err != nil {
		return edge.Reply{}, fmt.Errorf("%w: %w", errRaiseUnclear, err)
	}
	return edge.Reply{Status: http.StatusOK, Body: RaisedState{state, raised.Changed}}, nil
}

// checkRaise rejects a raise that would let numbers be issued again: one of a
// sequence whose stored number is not above what an instance has reserved, even
// one that was killed within the last day.
func (s SequenceResource) checkRaise(ctx context.Context, sequence string, atLeast int64, force bool) error {
	if force {
		return nil
	}
	directory, unknown := s.Members.Read(ctx, instances.SequenceSection)
	if unknown == nil && directory.Unreadable > 0 {
		unknown = fmt.Errorf("the reports of %d instances cannot be read", directory.Unreadable)
	}
	reserved := s.instances(sequence, append(directory.Live, directory.Gone...))
	// The stored number is read after what is reserved. Otherwise numbers that are
	// reserved in between would seem to be above it.
	stored, err := s.Store.Read(ctx, sequence)
	if err == nil {
		if next, err := stored.Mark.Next(); err == nil && next >= atLeast {
			return nil // the raise changes nothing
		}
	}
	if unknown != nil && !errors.Is(unknown, observe.ErrUnknown) {
		return fmt.Errorf("%w: %w", errUnchecked, unknown)
	}
	var highest SequenceInstance
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
