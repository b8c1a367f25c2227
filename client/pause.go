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

// PauseQueue has no attempt of a message of the queue begin until ResumeQueue.
// Messages can be sent meanwhile, and none loses an attempt. Processes know of it
// within 30 s. Pausing a paused queue changes nothing.
func (c *Client) PauseQueue(ctx context.Context, queue string, by PauseChange) (Queue, error) {
	return c.changeQueue(ctx, queue, "/pause", by)
}

// ResumeQueue ends a pause. Resuming a queue that is not paused changes nothing.
func (c *Client) ResumeQueue(ctx context.Context, queue string, by PauseChange) (Queue, error) {
	return c.changeQueue(ctx, queue, "/resume", by)
}

func (c *Client) changeQueue(ctx context.Context, queue, verb string, by PauseChange) (q Queue, err error) {
	if err := checkName("queue", queue); err != nil {
		return q, err
	}
	r, err := pauseRequest("/queues/"+url.PathEscape(queue)+verb, "the queue", by)
	if err != nil {
		return q, err
	}
	_, err = c.call(ctx, r, &q)
	return q, c.expect(r, err, "queue", q.Queue, queue)
}

// pauseRequest may be repeated: a change that was made has no further effect.
func pauseRequest(path, what string, by PauseChange) (request, error) {
	if err := checkTexts(by.By, by.Reason); err != nil {
		return request{}, err
	}
	return request{method: http.MethodPost, path: path, body: by, repeats: always, effect: what + " may have been paused or resumed"}, nil
}
