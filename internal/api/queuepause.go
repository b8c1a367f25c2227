package api

import (
	"context"
	"net/http"

	"kennel/internal/control"
	"kennel/internal/edge"
)

// pause serves POST /api/queues/{queue}/pause, with an optional body
// {"reason":"…","by":"…"}.
func (q QueueResource) pause(r *http.Request) (edge.Reply, error) {
	return q.changePause(r, "queue paused", func(ctx context.Context, name string, p control.Pause) error {
		_, err := q.Pauses.Pause(ctx, name, p)
		return err
	})
}

// resume serves POST /api/queues/{queue}/resume, with the same body.
func (q QueueResource) resume(r *http.Request) (edge.Reply, error) {
	return q.changePause(r, "queue resumed", func(ctx context.Context, name string, _ control.Pause) error { return q.Pauses.Resume(ctx, name) })
}

// changePause makes a change and answers with the queue. A queue can be paused
// also while it cannot be sampled: its numbers are then those of the last sample.
func (q QueueResource) changePause(r *http.Request, what string, do func(context.Context, string, control.Pause) error) (edge.Reply, error) {
	p, err := q.pauseOf(r)
	if err != nil {
		return edge.Reply{}, err
	}
	name := r.PathValue("queue")
	if _, err := q.sendable(name); err != nil {
		return edge.Reply{}, err
	}
	if err := do(r.Context(), name, p); err != nil {
		return edge.Reply{}, err
	}
	q.made(r, what, "queue", p)
	s := seen{rates: q.Members.Rates(r.Context())}
	if s.samples, err = q.Members.SampleAll(r.Context()); err != nil {
		s.samples = q.Members.Samples()
	}
	s.pauses, _ = q.Pauses.Known()
	return edge.Reply{Status: http.StatusOK, Body: q.item(r.Context(), name, s)}, nil
}
