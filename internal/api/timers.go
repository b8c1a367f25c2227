package api

import (
	"context"
	"net/http"
	"time"

	"kennel/internal/control"
	"kennel/internal/edge"
	"kennel/internal/table"
	"kennel/internal/timers"
)

// TimerResource serves the timers that a program declares.
type TimerResource struct {
	Timers *timers.Timers
	People
}

func (t TimerResource) Routes() []edge.Route {
	const function = "Timers"
	return []edge.Route{
		{Function: function, Pattern: "GET /api/timers", Handler: t.serve(TimerFailures, t.list)},
		{Function: function, Pattern: "GET /api/timers/{timer}", Handler: t.serve(TimerFailures, t.show)},
		{Function: function, Pattern: "POST /api/timers/{timer}/run", Handler: t.serve(TimerRunFailures, t.start)},
		{Function: function, Pattern: "POST /api/timers/{timer}/pause", Body: true, Handler: t.serve(TimerRunFailures, t.pause)},
		{Function: function, Pattern: "POST /api/timers/{timer}/resume", Body: true, Handler: t.serve(TimerRunFailures, t.resume)},
	}
}

func (t TimerResource) serve(failures []Failure, do func(*http.Request) (edge.Reply, error)) http.Handler {
	return Serve(failures, func(r *http.Request) (edge.Reply, error) { return edge.Limited(r, do) })
}

// TimerFailures are those of reads, and TimerRunFailures those of changes.
var (
	TimerFailures = []Failure{
		{timers.ErrUnknown, http.StatusNotFound, "timer_not_found", "The program declares no timer of this name. GET /api/timers lists them.", ""},
		storageUnavailable,
	}
	TimerRunFailures = []Failure{
		TimerFailures[0],
		{timers.ErrRunning, http.StatusConflict, "timer_running", "A slot of the timer runs or waits for its next attempt. Try again when it has ended.", ""},
		{table.ErrRefused, http.StatusServiceUnavailable, edge.CodeUnavailable, edge.Rejected, "5"},
		{table.ErrUnclear, http.StatusServiceUnavailable, "change_unclear", unconfirmed, "5"},
		storageUnavailable,
	}
)

// list serves GET /api/timers.
func (t TimerResource) list(r *http.Request) (edge.Reply, error) {
	all, err := t.Timers.List(r.Context())
	answer := struct {
		Items []timers.State `json:"items"`
	}{all}
	return edge.Reply{Status: http.StatusOK, Body: answer}, err
}

// show serves GET /api/timers/{timer}.
func (t TimerResource) show(r *http.Request) (edge.Reply, error) {
	state, err := t.Timers.Get(r.Context(), r.PathValue("timer"))
	return edge.Reply{Status: http.StatusOK, Body: state}, err
}

// start serves POST /api/timers/{timer}/run.
func (t TimerResource) start(r *http.Request) (edge.Reply, error) {
	slot, err := t.Timers.Start(r.Context(), r.PathValue("timer"))
	answer := struct {
		Timer string    `json:"timer"`
		Slot  time.Time `json:"slot"`
	}{r.PathValue("timer"), slot}
	return edge.Reply{Status: http.StatusAccepted, Body: answer}, err
}

// pause serves POST /api/timers/{timer}/pause, with an optional body
// {"reason":"…","by":"…"}.
func (t TimerResource) pause(r *http.Request) (edge.Reply, error) {
	return t.changePause(r, "timer paused", t.Timers.Pause)
}

// resume serves POST /api/timers/{timer}/resume, with the same body.
func (t TimerResource) resume(r *http.Request) (edge.Reply, error) {
	return t.changePause(r, "timer resumed", func(ctx context.Context, name string, _ control.Pause) (timers.State, error) {
		return t.Timers.Resume(ctx, name)
	})
}

// changePause makes a change and answers with the timer.
func (t TimerResource) changePause(r *http.Request, what string, do func(context.Context, string, control.Pause) (timers.State, error)) (edge.Reply, error) {
	p, err := t.pauseOf(r)
	if err != nil {
		return edge.Reply{}, err
	}
	state, err := do(r.Context(), r.PathValue("timer"), p)
	if err == nil {
		t.made(r, what, "timer", p)
	}
	return edge.Reply{Status: http.StatusOK, Body: state}, err
}
