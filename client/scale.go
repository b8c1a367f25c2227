package client

import (
	"context"
	"encoding/json"
	"iter"
	"net/http"
	"net/url"
	"time"
)

// ScaleCheck is the result of a check of scaling.
type ScaleCheck struct {
	At      time.Time     `json:"at"`
	Running int           `json:"running"` // instances that work on queues
	Advice  []ScaleAdvice `json:"advice"`  // the first one is for all queues together, and each other one for a queue
	Samples []ScaleSample `json:"samples"`
	Outcome *ScaleOutcome `json:"outcome"` // nil: the app has no target

	received
}

// ScaleOutcome reports whether the advice reached the container app that is the
// target.
type ScaleOutcome struct {
	At        time.Time `json:"at"`        // the first check with this outcome
	State     string    `json:"state"`     // unchanged, dryRun, applied, denied, busy or failed
	Instances int       `json:"instances"` // the minimum of replicas as advised, within the maximum of the target
	Minimum   *int      `json:"minimum"`   // that the target had; nil: unknown
	Error     string    `json:"error"`
}

// ScaleAdvice is how many instances the queues need, or how many hands each
// instance should use for a queue.
type ScaleAdvice struct {
	Target    string `json:"target"`
	Queue     string `json:"queue"`     // "" for all queues together
	Hands     *int   `json:"hands"`     // nil for all queues together
	Instances *int   `json:"instances"` // nil for a queue
	Reason    string `json:"reason"`    // one sentence
}

// ScaleSample is a queue at the time of a check.
type ScaleSample struct {
	Queue                string  `json:"queue"`
	Ready                int64   `json:"ready"`
	InFlight             int64   `json:"inFlight"`
	Delayed              int64   `json:"delayed"`
	OldestSeconds        float64 `json:"oldestSeconds"`
	Held                 bool    `json:"held"` // its messages wait at a closed gate
	ArrivalsPerSecond    float64 `json:"arrivalsPerSecond"`
	CompletionsPerSecond float64 `json:"completionsPerSecond"`
	P95LatencySeconds    float64 `json:"p95LatencySeconds"`
	ResponseSeconds      float64 `json:"responseSeconds"` // for which a message is worked on
	Working              int64   `json:"working"`
	CPU                  float64 `json:"cpu"` // share of the processors in use
}

// ScaleRules are the rules of scaling. JSON returns them.
type ScaleRules struct {
	Version int `json:"version"`

	received
}

// Scale returns the last check.
func (c *Client) Scale(ctx context.Context) (s ScaleCheck, err error) {
	_, err = c.call(ctx, request{method: http.MethodGet, path: "/scale", repeats: always}, &s)
	return s, err
}

// ScaleHistory lists the checks from a time until another one, which is not
// included. A zero time is no limit. An error ends the list.
func (c *Client) ScaleHistory(ctx context.Context, from, to time.Time) iter.Seq2[ScaleCheck, error] {
	query := make(url.Values)
	for name, at := range map[string]time.Time{"from": from, "to": to} {
		if !at.IsZero() {
			query.Set(name, at.UTC().Format(time.RFC3339))
		}
	}
	return list[ScaleCheck](ctx, c, "/scale/history", query, maxTop)
}

// ScaleRules returns the rules in use, with all defaults.
func (c *Client) ScaleRules(ctx context.Context) (s ScaleRules, err error) {
	_, err = c.call(ctx, request{method: http.MethodGet, path: "/scale/rules", repeats: always}, &s)
	return s, err
}

// PutScaleRules stores rules, the JSON of a rule table, and returns them with all
// defaults. Invalid ones change nothing.
func (c *Client) PutScaleRules(ctx context.Context, rules json.RawMessage) (s ScaleRules, err error) {
	return c.putRules(ctx, rules, request{path: "/scale/rules", effect: "the rules may have been stored"})
}

// TryScaleRules checks rules in the app and returns them as PutScaleRules would.
// It stores nothing.
func (c *Client) TryScaleRules(ctx context.Context, rules json.RawMessage) (s ScaleRules, err error) {
	return c.putRules(ctx, rules, request{path: "/scale/rules?dryRun=true"})
}

func (c *Client) putRules(ctx context.Context, rules json.RawMessage, r request) (s ScaleRules, err error) {
	if !json.Valid(rules) {
		return s, invalidf("the rules are not JSON")
	}
	r.method, r.body, r.repeats = http.MethodPut, rules, always
	_, err = c.call(ctx, r, &s)
	return s, err
}
