package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"time"

	"kennel/channels"
	"kennel/ids"
	"kennel/internal/customhandler"
)

// sequenceItem is a sequence in the list.
type sequenceItem struct {
	Sequence  string    `json:"sequence"`
	Next      *int64    `json:"next"` // nil if the stored text is not a number
	UpdatedAt time.Time `json:"updatedAt"`
	PerSecond float64   `json:"perSecond"` // of this instance
	Lost      int64     `json:"burnt"`     // by this instance
}

// sequenceState is the answer about one sequence.
type sequenceState struct {
	Sequence  string             `json:"sequence"`
	Next      int64              `json:"next"`
	UpdatedAt time.Time          `json:"updatedAt"`
	Instances []sequenceInstance `json:"instances"` // those that are known to use it
}

// raisedState is the answer to a raise.
type raisedState struct {
	sequenceState
	Changed bool `json:"changed"` // false: the number was high enough before
}

type sequenceInstance struct {
	Instance    string     `json:"instance"`
	Available   int64      `json:"inHand"`
	Highest     int64      `json:"highest"`                 // the highest number that it has reserved
	Seconds     *float64   `json:"secondsInHand,omitempty"` // how long what is available lasts; nil without demand
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
	page, next, err := s.store.List(r.Context(), top, continuation)
	if err != nil {
		return reply{}, err
	}
	items := []sequenceItem{}
	for _, stored := range page {
		if stored.Mark.Version == "" {
			continue // deleted while the list was read
		}
		item := sequenceItem{Sequence: stored.Name, UpdatedAt: stored.UpdatedAt}
		if n, err := stored.Mark.Next(); err == nil {
			item.Next = &n
		}
		if used, ok := s.sequences.StatsOf(stored.Name); ok {
			item.PerSecond, item.Lost = used.PerSecond, used.Lost
		}
		items = append(items, item)
	}
	return reply{status: http.StatusOK, body: channels.List[sequenceItem]{Items: items, Continuation: next}}, nil
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
	stored, err := s.store.Read(ctx, sequence)
	if err != nil {
		return sequenceState{}, err
	}
	next, err := stored.Mark.Next()
	if err != nil {
		return sequenceState{}, fmt.Errorf("sequence %q: %w", sequence, err)
	}
	return sequenceState{sequence, next, stored.UpdatedAt, s.instances(sequence)}, nil
}

// instances returns this instance if it uses the sequence.
func (s sequenceFunctions) instances(sequence string) []sequenceInstance {
	used, ok := s.sequences.StatsOf(sequence)
	if !ok {
		return []sequenceInstance{}
	}
	i := sequenceInstance{Instance: instanceName(), Available: used.Available, Highest: used.Highest, LastError: used.LastError}
	if used.PerSecond > 0 {
		seconds := float64(used.Available) / used.PerSecond
		i.Seconds = &seconds
	}
	if used.LastError != "" {
		at := used.LastErrorAt.UTC()
		i.LastErrorAt = &at
	}
	return []sequenceInstance{i}
}

// instanceName distinguishes the processes of the app.
func instanceName() string {
	host, _ := os.Hostname() // a process without a name is still distinguished
	return cmp.Or(host, "unknown") + "-" + strconv.Itoa(os.Getpid())
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

// checkRaise rejects a raise that would let numbers be issued again: one of a
// sequence whose stored number is not above what an instance has reserved.
func (s sequenceFunctions) checkRaise(ctx context.Context, sequence string, atLeast int64, force bool) error {
	if force {
		return nil
	}
	stored, err := s.store.Read(ctx, sequence)
	if err == nil {
		if next, err := stored.Mark.Next(); err == nil && next >= atLeast {
			return nil // the raise changes nothing
		}
	}
	for _, i := range s.instances(sequence) {
		if i.Highest >= atLeast {
			return &customhandler.Error{Status: http.StatusConflict, Code: "raise_too_low",
				Message: fmt.Sprintf(`Instance %s has reserved numbers up to %d. Raise the sequence to at least %d, or send "force":true if they do not matter.`, i.Instance, i.Highest, i.Highest+1)}
		}
	}
	return nil
}
