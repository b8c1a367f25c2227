package client

import (
	"context"
	"net/http"
	"net/url"
	"time"
)

// Timer is a timer that the program declares.
type Timer struct {
	Timer        string     `json:"timer"`
	Schedule     string     `json:"schedule"`
	Zone         string     `json:"zone"`
	Paused       *Pause     `json:"paused"`       // nil: it is not
	NextAt       time.Time  `json:"nextAt"`       // the next slot of the schedule
	RunningSince *time.Time `json:"runningSince"` // nil: no attempt runs
	LastOKAt     *time.Time `json:"lastOkAt"`     // nil: no slot was done yet
	Last         *TimerSlot `json:"last"`         // nil: no slot has ended yet

	received
}

// TimerSlot is how a slot ended.
type TimerSlot struct {
	Slot    time.Time `json:"slot"`
	At      time.Time `json:"at"`
	Outcome string    `json:"outcome"` // done or failed
	Seconds float64   `json:"seconds"`
	Error   string    `json:"error"`
}

// TimerList is all timers of the program.
type TimerList struct {
	Items []Timer `json:"items"`

	received
}

// TimerRun is a run that was requested.
type TimerRun struct {
	Timer string    `json:"timer"`
	Slot  time.Time `json:"slot"`

	received
}

// Timers returns all timers of the program, by name.
func (c *Client) Timers(ctx context.Context) (l TimerList, err error) {
	_, err = c.call(ctx, request{method: http.MethodGet, path: "/timers", repeats: always}, &l)
	return l, err
}

// Timer returns one timer.
func (c *Client) Timer(ctx context.Context, name string) (t Timer, err error) {
	_, err = c.call(ctx, request{method: http.MethodGet, path: "/timers/" + url.PathEscape(name), repeats: always}, &t)
	return t, err
}

// RunTimer requests a run now, in addition to the slots of the schedule. It does
// not wait for its end.
func (c *Client) RunTimer(ctx context.Context, name string) (r TimerRun, err error) {
	_, err = c.call(ctx, request{method: http.MethodPost, path: "/timers/" + url.PathEscape(name) + "/run"}, &r)
	return r, err
}
