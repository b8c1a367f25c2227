package client

import (
	"context"
	"iter"
	"net/http"
	"net/url"
	"time"
)

// SequenceItem is a sequence in a list.
type SequenceItem struct {
	Sequence  string    `json:"sequence"`
	Next      *int64    `json:"next"` // the next free number; nil if the stored text is not a number
	UpdatedAt time.Time `json:"updatedAt"`
	PerSecond float64   `json:"perSecond"` // issued by all instances
	Lost      int64     `json:"lost"`      // numbers that the instances gave up

	received
}

// SequenceState is the stored number of a sequence, and the instances that use
// it.
type SequenceState struct {
	Sequence  string             `json:"sequence"`
	Next      int64              `json:"next"` // the next free number
	UpdatedAt time.Time          `json:"updatedAt"`
	Instances []SequenceInstance `json:"instances"`
	Partial   bool               `json:"partial"` // only the instance that answers is known

	received
}

// SequenceInstance is the share of a sequence that an instance of the app has.
type SequenceInstance struct {
	Instance    string     `json:"instance"`
	Available   int64      `json:"available"`        // numbers that it has reserved and not issued
	Highest     int64      `json:"highest"`          // the highest number that it has reserved
	Seconds     *float64   `json:"secondsAvailable"` // how long the available numbers last; nil without demand
	PerSecond   float64    `json:"perSecond"`        // numbers that it issues
	Lost        int64      `json:"lost"`             // numbers that it gave up
	LastError   string     `json:"lastError"`        // of storage, since its last success
	LastErrorAt *time.Time `json:"lastErrorAt"`
}

// Raise is how a sequence is raised.
type Raise struct {
	AtLeast int64  `json:"atLeast"` // the next free number afterwards, or less than it
	Reason  string `json:"reason"`

	// Force replaces a stored text that is not a number, and ignores the
	// reservations of instances.
	Force bool `json:"force"`
}

// RaisedSequence is a sequence after a raise.
type RaisedSequence struct {
	SequenceState
	Changed bool `json:"changed"` // false: its number was high enough before
}

// Sequences lists all sequences in the order of their names. An error ends the
// list.
func (c *Client) Sequences(ctx context.Context) iter.Seq2[SequenceItem, error] {
	return list[SequenceItem](ctx, c, "/sequences", nil, defaultTop)
}

// SequenceState reads the state of a sequence.
func (c *Client) SequenceState(ctx context.Context, name string) (s SequenceState, err error) {
	if err := checkName("sequence", name); err != nil {
		return s, err
	}
	r := request{method: http.MethodGet, path: sequencePath(name, ""), repeats: always}
	_, err = c.call(ctx, r, &s)
	return s, c.expect(r, err, "for sequence", s.Sequence, name)
}

// RaiseSequence makes the next free number of a sequence at least raise.AtLeast.
// It never lowers it, so it may be repeated.
func (c *Client) RaiseSequence(ctx context.Context, name string, raise Raise) (s RaisedSequence, err error) {
	if err := checkName("sequence", name); err != nil {
		return s, err
	}
	if err := checkTexts(raise.Reason); err != nil {
		return s, err
	}
	r := request{
		method:  http.MethodPost,
		path:    sequencePath(name, "/raise"),
		body:    raise,
		repeats: always,
		effect:  "the sequence may have been raised",
	}
	_, err = c.call(ctx, r, &s)
	return s, c.expect(r, err, "for sequence", s.Sequence, name)
}

func sequencePath(name, rest string) string { return "/sequences/" + url.PathEscape(name) + rest }
