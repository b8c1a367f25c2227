package queues

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"kennel/internal/instances"
	"kennel/internal/program"
)

// unhandledAfter is for how long the same message is ready, and no living process
// works on its queue, before that is a problem: a worker that scales from zero,
// or is replaced, takes less.
const unhandledAfter = 3 * time.Minute

// sameMessage bounds the error of the time at which a message was sent, as two
// samples of it show.
const sameMessage = 2 * time.Second

// stalled are the queues without a living handler in which messages are ready.
type stalled struct {
	mu  sync.Mutex
	all map[string]stall // by declared queue; guarded by mu
}

// stall is a queue whose oldest message is not taken.
type stall struct {
	sent  time.Time // the oldest message
	since time.Time // when a sample first showed it
}

// lasts returns for how long nobody took the oldest message of a sample. If an
// older one was taken meanwhile, a program works on the queue that does not
// report: it begins again.
func (s *stalled) lasts(name string, sample instances.QueueSample) time.Duration {
	now := time.Now()
	sent := now.Add(-time.Duration(sample.OldestSeconds * float64(time.Second)))
	s.mu.Lock()
	defer s.mu.Unlock()
	known, ok := s.all[name]
	if !ok || sent.After(known.sent.Add(sameMessage)) {
		if s.all == nil {
			s.all = make(map[string]stall)
		}
		known.since = now
	}
	s.all[name] = stall{sent, known.since}
	return now.Sub(known.since)
}

func (s *stalled) ended(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.all, name)
}

// watchUnhandled finds the declared queues on which neither this process nor
// another living one works, from samples by storage queue.
func (q *Queues) watchUnhandled(ctx context.Context, samples map[string]instances.QueueSample) {
	for _, d := range q.all {
		sample, sampled := samples[d.Storage()]
		if d.Handled > 0 || !sampled {
			continue
		}
		if sample.Ready > 0 {
			handled, known := q.HandledBy(ctx, d)
			if !known {
				continue // what was found lasts for a time
			}
			if !handled && q.stalled.lasts(d.Name, sample) >= unhandledAfter {
				q.unhandled.Occurred(d.Name, sample.Ready, lateLasts)
				continue
			}
			if !handled {
				q.unhandled.Solved(d.Name)
				continue
			}
		}
		q.stalled.ended(d.Name)
		q.unhandled.Solved(d.Name)
	}
}

// HandledBy returns whether this process or another living one works on a
// declared queue. It returns false for known if the others cannot be read; then
// handled is about this process alone.
func (q *Queues) HandledBy(ctx context.Context, d *program.Queue) (handled, known bool) {
	if d.Handled > 0 {
		return true, true
	}
	others, known := q.opt.Handlers(ctx)
	return slices.ContainsFunc(others, func(handles map[string][]string) bool {
		return slices.Contains(handles[d.Name], d.Storage())
	}), known
}

// handles returns the declared queues on which this process works, each with its
// storage queues.
func (q *Queues) handles() map[string][]string {
	all := make(map[string][]string)
	for _, d := range q.all {
		if d.Handled > 0 {
			all[d.Name] = append([]string{d.Storage()}, d.FormerNames...)
		}
	}
	return all
}

// unhandledProblems returns the queues on which no living process works.
func (q *Queues) unhandledProblems() (all []instances.Problem) {
	for name, p := range q.unhandled.All() {
		all = append(all, instances.Problem{
			Code: instances.QueueUnhandled, Subject: name, Since: p.Since, Count: p.Cause,
			What: fmt.Sprintf("No living instance works on queue %s; %d messages are ready in it.", name, p.Cause),
		})
	}
	return all
}
