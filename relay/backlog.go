package relay

import (
	"cmp"
	"context"
	"hash/fnv"
	"math/rand/v2"
	"sync"
	"time"
)

// readmitAfter is how long after a failure a backlog queue is left out.
const readmitAfter = time.Minute

// backlog sends to the backlog queues of the secondary.
type backlog struct {
	links   *links
	queues  []string
	timeout time.Duration // of an attempt
	failed  func(queue string, err error)

	mu     sync.Mutex
	states []queueState // by queue
}

// queueState is what a sender knows of a backlog queue.
type queueState struct {
	err     error     // of the last attempt; nil: the queue works
	until   time.Time // it is left out, unless no other queue works
	nextTry time.Time // also then
	trying  bool      // one attempt is under way; only after an error
	silent  silence   // of callers that gave up
}

func newBacklog(l *links, queues []string, timeout time.Duration, failed func(string, error)) *backlog {
	return &backlog{links: l, queues: queues, timeout: timeout, failed: failed, states: make([]queueState, len(queues))}
}

// send stores a message in a backlog queue, and calls note after each attempt
// that fails. It tries each queue at most once; the messages of a session have
// only one queue. If no queue may be tried now, it returns the error of an
// earlier attempt.
func (b *backlog) send(ctx context.Context, e *entity, m *Message, note func(error)) error {
	sealed := seal(e.name, m, time.Now())
	if session := m.Properties.GroupID; session != nil {
		i := b.queueOf(*session)
		if err := b.try(i); err != nil {
			return err
		}
		e.hold(i)       // before: a peek that is under way must not miss it
		defer e.hold(i) // after: it is stored only now
		return b.attempt(ctx, b.timeout, i, sealed, note)
	}
	tried := make([]bool, len(b.queues))
	var err error
	for {
		i, earlier := b.choose(tried)
		if i < 0 {
			return cmp.Or(err, earlier)
		}
		tried[i] = true
		timeout := b.timeout
		if end, ok := ctx.Deadline(); ok && len(b.queues) > 1 {
			timeout = min(timeout, max(time.Until(end)/2, minSilence)) // leave time for another queue
		}
		err = b.attempt(ctx, timeout, i, sealed, note)
		if err == nil || refused(err) || ctx.Err() != nil {
			return err
		}
	}
}

// attempt leaves the queue out for a while if it fails.
func (b *backlog) attempt(ctx context.Context, timeout time.Duration, i int, sealed *Message, note func(error)) error {
	began := time.Now()
	err := b.links.of(b.queues[i]).do(ctx, timeout, func(ctx context.Context, c Connection) error {
		return c.Send(ctx, b.queues[i], sealed)
	})
	if err != nil {
		note(err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	now, q := time.Now(), &b.states[i]
	q.trying = false
	switch {
	case err == nil:
		*q = queueState{}
	case refused(err):
	case ctx.Err() != nil && q.silent.add(began, now) < minSilence: // it may work
	default:
		q.err, q.nextTry, q.silent = err, now.Add(max(maxPause, busyFor(err))), silence{until: now}
		if !now.Before(q.until) {
			q.until = now.Add(readmitAfter)
			b.failed(b.queues[i], err)
		}
	}
	return err
}

// choose returns a queue to try that was not tried: one of those that work or
// were left out for long enough, or else the one whose failure is the oldest. It
// returns -1 and the error of a queue if none may be tried now.
func (b *backlog) choose(tried []bool) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	chosen, good := -1, 0
	var err error
	for i := range b.states {
		q := &b.states[i]
		if q.err != nil {
			err = q.err
		}
		switch {
		case tried[i], !q.ready(now):
		case q.err == nil, !q.until.After(now):
			if good++; rand.N(good) == 0 {
				chosen = i // each of them with the same chance
			}
		case good == 0 && (chosen < 0 || q.nextTry.Before(b.states[chosen].nextTry)):
			chosen = i
		}
	}
	if chosen < 0 {
		return -1, err
	}
	q := &b.states[chosen]
	q.trying = q.err != nil
	return chosen, nil
}

// try begins an attempt at a queue, or returns its error if it may not be tried
// now.
func (b *backlog) try(i int) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	q := &b.states[i]
	if !q.ready(time.Now()) {
		return q.err
	}
	q.trying = q.err != nil
	return nil
}

// ready reports whether an attempt may begin. After an error it is one at a
// time, and not at once: without other queues, each send would repeat them all.
func (q *queueState) ready(now time.Time) bool {
	return q.err == nil || !q.trying && !q.nextTry.After(now)
}

// queueOf returns the queue of a session.
func (b *backlog) queueOf(session string) int {
	h := fnv.New64a()
	h.Write([]byte(session))
	return int(h.Sum64() % uint64(len(b.queues)))
}
