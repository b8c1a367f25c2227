package client

import (
	"context"
	"net/http"
	"net/url"
	"time"
)

// Pause is that a person has paused a queue or a timer.
type Pause struct {
	At     time.Time `json:"at"`
	By     Person    `json:"by"`
	Reason string    `json:"reason"`
}

// Person is who made a change.
type Person struct {
	Name     string `json:"name"`
	Verified bool   `json:"verified"` // the platform has signed the person in; otherwise the caller chose the name
}

// PauseChange is who pauses or resumes something, and why.
type PauseChange struct {
	By     string `json:"by,omitempty"` // default: unknown. An app ignores it where people sign in
	Reason string `json:"reason,omitempty"`
}

// PauseTimer has the timer take no slot of its schedule until ResumeTimer. An
// attempt that runs goes on. Pausing a paused timer changes nothing.
func (c *Client) PauseTimer(ctx context.Context, name string, by PauseChange) (Timer, error) {
	return c.changeTimer(ctx, name, "/pause", by)
}

// ResumeTimer ends a pause. Resuming a timer that is not paused changes nothing.
func (c *Client) ResumeTimer(ctx context.Context, name string, by PauseChange) (Timer, error) {
	return c.changeTimer(ctx, name, "/resume", by)
}

func (c *Client) changeTimer(ctx context.Context, name, verb string, by PauseChange) (t Timer, err error) {
	r, err := pauseRequest("/timers/"+url.PathEscape(name)+verb, "the timer", by)
	if err == nil {
		_, err = c.call(ctx, r, &t)
	}
	return t, err
}

// pauseRequest may be repeated: a change that was made has no further effect.
func pauseRequest(path, what string, by PauseChange) (request, error) {
	if err := checkTexts(by.By, by.Reason); err != nil {
		return request{}, err
	}
	return request{method: http.MethodPost, path: path, body: by, repeats: always, effect: what + " may have been paused or resumed"}, nil
}
