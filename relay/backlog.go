package relay

import (
	"context"
	"hash/fnv"
	"math/rand/v2"
	"sync"
	"time"
)

// backlog sends to the backlog queues of the secondary.
type backlog struct {
	links  *links
	queues []string
	opt    *Options
	failed func(queue string, err error)

	mu  sync.Mutex
	bad []time.Time // by queue: until when it is left out
}

func newBacklog(l *links, queues []string, o *Options, failed func(string, error)) *backlog {
	return &backlog{links: l, queues: queues, opt: o, failed: failed, bad: make([]time.Time, len(queues))}
}

// send stores a message in a backlog queue, and calls note after each attempt
// that fails. It tries each queue once; the messages of a session have only one
// queue while the drain barrier is on.
func (b *backlog) send(ctx context.Context, e *entity, m *Message, note func(error)) error {
	sealed := seal(e.name, m, time.Now())
	if session := m.Properties.GroupID; session != nil && !b.opt.WithoutDrainBarrier {
		i := b.queueOf(*session)
		e.hold(i)       // before: a peek that is under way must not miss it
		defer e.hold(i) // after: it is stored only now
		return b.attempt(ctx, b.opt.AttemptTimeout, i, sealed, note)
	}
	var err error
	tried := make([]bool, len(b.queues))
	for range b.queues {
		i := b.choose(tried)
		tried[i] = true
		timeout := b.opt.AttemptTimeout
		if end, ok := ctx.Deadline(); ok && len(b.queues) > 1 {
			timeout = min(timeout, max(time.Until(end)/2, minSilence)) // leave time for another queue
		}
		err = b.attempt(ctx, timeout, i, sealed, note)
		if err == nil || refused(err) || ctx.Err() != nil {
			return err
		}
	}
	return err
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
	switch {
	case err == nil:
		b.bad[i] = time.Time{}
	case !refused(err) && (ctx.Err() == nil || time.Since(began) >= minSilence):
		b.bad[i] = time.Now().Add(b.opt.Readmit)
		b.failed(b.queues[i], err)
	}
	return err
}

// choose returns a queue that was not tried: one of those that work, or else
// the one whose failure is the oldest.
func (b *backlog) choose(tried []bool) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	chosen, good := -1, 0
	for i, until := range b.bad {
		switch {
		case tried[i]:
		case !until.After(now):
			if good++; rand.N(good) == 0 {
				chosen = i // each of them with the same chance
			}
		case good == 0 && (chosen < 0 || until.Before(b.bad[chosen])):
			chosen = i
		}
	}
	return chosen
}

// queueOf returns the queue of a session.
func (b *backlog) queueOf(session string) int {
	h := fnv.New64a()
	h.Write([]byte(session))
	return int(h.Sum64() % uint64(len(b.queues)))
}
