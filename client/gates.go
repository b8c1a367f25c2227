package client

import (
	"context"
	"iter"
	"net/http"
	"net/url"
	"time"
)

// Gate is the state of a gate.
type Gate struct {
	Name       string    `json:"gate"`
	Released   bool      `json:"released"`
	Generation int64     `json:"generation"` // of the last release; 0: there was none
	Releases   int64     `json:"releases"`
	ChangedAt  time.Time `json:"changedAt,omitzero"` // zero for a gate that was never changed
	By         string    `json:"by,omitempty"`
	Reason     string    `json:"reason,omitempty"`

	// History is the last changes, the newest last. Only [Client.Gate] returns
	// it.
	History []Transition `json:"history,omitempty"`

	received
}

// Transition is one change of a gate.
type Transition struct {
	Change     string    `json:"change"` // "release" or "close"
	Generation int64     `json:"generation"`
	At         time.Time `json:"at"`
	By         string    `json:"by"`
	Reason     string    `json:"reason"`
	Operation  string    `json:"operation"`          // unique to this change
	Replaced   string    `json:"replaced,omitempty"` // the beginning of the text that a forced change replaced
}

// Change is who changes a gate, and why.
type Change struct {
	By     string `json:"by"` // default: unknown
	Reason string `json:"reason"`
	Force  bool   `json:"force"` // replace a stored document that cannot be used
}

// GateChange is the state of a gate after a change.
type GateChange struct {
	Gate
	Changed bool `json:"changed"` // false: the gate was in this state before

	// Signalled reports whether the signal to other instances was sent. If not,
	// they see the change when they poll. It is nil if there was nothing to
	// announce, or no Service Bus is set up.
	Signalled *bool `json:"signalled"`
}

// GateItem is a gate in a list.
type GateItem struct {
	Name       string    `json:"gate"`
	Released   bool      `json:"released"`
	Generation *int64    `json:"generation"` // of the last release; nil if the stored document is invalid, so that the gate counts as closed
	ChangedAt  time.Time `json:"changedAt,omitzero"`
	Waiters    int       `json:"waiters"` // in all instances

	received
}

// Gates lists the gates that were released at least once, in the order of their
// names. An error ends the list.
func (c *Client) Gates(ctx context.Context) iter.Seq2[GateItem, error] {
	return list[GateItem](ctx, c, "/gates", nil, defaultTop)
}

// Gate reads the state of a gate, with its history.
func (c *Client) Gate(ctx context.Context, gate string) (g Gate, err error) {
	if err := checkName("gate", gate); err != nil {
		return g, err
	}
	r := request{method: http.MethodGet, path: gatePath(gate, ""), repeats: always}
	_, err = c.call(ctx, r, &g)
	return g, c.expect(r, err, "the state of gate", g.Name, gate)
}

// GateWaiters is who waits at a gate.
type GateWaiters struct {
	Items   []InstanceWaiters `json:"items"`   // the instances that have waiters, those with most of them first
	Partial bool              `json:"partial"` // only the instance that answers is known

	received
}

// InstanceWaiters is how many waiters an instance of the app has at a gate.
type InstanceWaiters struct {
	Instance string `json:"instance"`
	Waiters  int    `json:"waiters"`
}

// Waiters reads who waits at a gate.
func (c *Client) Waiters(ctx context.Context, gate string) (w GateWaiters, err error) {
	if err := checkName("gate", gate); err != nil {
		return w, err
	}
	_, err = c.call(ctx, request{method: http.MethodGet, path: gatePath(gate, "/waiters"), repeats: always}, &w)
	return w, err
}

// Release releases a gate, which admits all its waiters. Releasing a released
// gate only sends the signal again.
func (c *Client) Release(ctx context.Context, gate string, by Change) (GateChange, error) {
	return c.change(ctx, gate, "/release", by)
}

// Close closes a gate. Nodes that have passed are not affected.
func (c *Client) Close(ctx context.Context, gate string, by Change) (GateChange, error) {
	return c.change(ctx, gate, "/close", by)
}

// change may be repeated: a change that was made has no further effect.
func (c *Client) change(ctx context.Context, gate, verb string, by Change) (g GateChange, err error) {
	if err := checkName("gate", gate); err != nil {
		return g, err
	}
	if err := checkTexts(by.By, by.Reason); err != nil {
		return g, err
	}
	r := request{
		method:  http.MethodPost,
		path:    gatePath(gate, verb),
		body:    by,
		repeats: always,
		effect:  "the gate may have been changed",
	}
	_, err = c.call(ctx, r, &g)
	return g, c.expect(r, err, "the state of gate", g.Name, gate)
}

func gatePath(gate, rest string) string { return "/gates/" + url.PathEscape(gate) + rest }
