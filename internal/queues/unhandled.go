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
// another living one works, although messages are ready in them. A former name is
// a queue of its own here: it has a function of its own.
func (q *Queues) watchUnhandled(ctx context.Context, samples map[string]instances.QueueSample) {
	for _, d := range q.all {
		q.watch(ctx, d, d.Name, d.Storage(), samples)
		for _, former := range d.FormerNames {
			q.watch(ctx, d, former, former, samples)
		}
	}
}

// watch finds whether a storage queue of a declared queue is not worked on. name is
// the subject of the problem.
func (q *Queues) watch(ctx context.Context, d *program.Queue, name, storage string, samples map[string]instances.QueueSample) {
	sample, sampled := samples[storage]
	if q.worksOn(d, storage) || !sampled {
		return
	}
	if sample.Ready > 0 {
		handled, known := q.HandledBy(ctx, d, storage)
		if !known {
			return // what was found lasts for a time
		}
		if !handled && q.stalled.lasts(name, sample) >= unhandledAfter {
			q.unhandled.Occurred(name, sample.Ready, lateLasts)
			return
		}
		if !handled {
			q.unhandled.Solved(name)
			return
		}
	}
	q.stalled.ended(name)
	q.unhandled.Solved(name)
}

// worksOn returns whether this process works on the messages of a declared queue
// in one of its storage queues.
func (q *Queues) worksOn(d *program.Queue, storage string) bool {
	return d.Handled > 0 && !q.opt.Unserved[storage]
}

// HandledBy returns whether this process or another living one works on the
// messages of a declared queue in one of its storage queues. It returns false for
// known if the others cannot be read; then handled is about this process alone.
func (q *Queues) HandledBy(ctx context.Context, d *program.Queue, storage string) (handled, known bool) {
	if q.worksOn(d, storage) {
		return true, true
	}
	others, known := q.opt.Handlers(ctx)
	return slices.ContainsFunc(others, func(handles map[string][]string) bool {
		return slices.Contains(handles[d.Name], storage)
	}), known
}

// handles returns the declared queues on which this process works, each with its
// storage queues.
func (q *Queues) handles() map[string][]string {
	all := make(map[string][]string)
	for _, d := range q.all {
		for _, storage := range append([]string{d.Storage()}, d.FormerNames...) {
			if q.worksOn(d, storage) {
				all[d.Name] = append(all[d.Name], storage)
			}
		}
	}
	return all
}

// unhandledProblems returns the queues on which no living process works.
func (q *Queues) unhandledProblems() (all []instances.Problem) {
	for name, p := range q.unhandled.All() {
		what := fmt.Sprintf("No living instance works on queue %s; %d messages are ready in it.", name, p.Cause)
		if storage := q.storageOf(name); q.opt.Unserved[storage] {
			what += fmt.Sprintf(" The app was packaged without its function %s.", program.FunctionOfQueue(storage))
		}
		all = append(all, instances.Problem{
			Code: instances.QueueUnhandled, Subject: name, Since: p.Since, Count: p.Cause,
			What: what,
		})
	}
	return all
}

// storageOf returns the storage queue of a declared queue, or of a former name.
func (q *Queues) storageOf(name string) string {
	if o := q.declared[name]; o != nil {
		return o.Storage()
	}
	return name
}
