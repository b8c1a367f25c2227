package relay

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"sync"
	"time"
)

// BacklogQueues returns the names of n backlog queues for a primary namespace,
// whose short name is that before the first dot of its host.
func BacklogQueues(primary string, n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("%s/x-servicebus-transfer/%d", primary, i)
	}
	return names
}

// EnsureQueues creates the backlog queues that are missing and returns those
// that exist then, in order. It tries each queue three times. The error is not
// nil if none exists, or if the namespace denies access.
func EnsureQueues(ctx context.Context, admin Queues, names []string) ([]string, error) {
	var found []string
	var failures []error
	for _, name := range names {
		err := admin.Ensure(ctx, name)
		for range 2 {
			if class := classOf(err); err == nil || class == Denied || class == Invalid {
				break
			}
			select {
			case <-time.After(30 * time.Second):
				err = admin.Ensure(ctx, name)
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		}
		switch {
		case err == nil:
			found = append(found, name)
		case classOf(err) == Denied:
			return nil, fmt.Errorf("create backlog queue %q: %w; the app needs the role to manage the secondary namespace", name, err)
		default:
			failures = append(failures, fmt.Errorf("create backlog queue %q: %w", name, err))
		}
	}
	if len(found) == 0 {
		return nil, errors.Join(failures...)
	}
	return found, nil
}

// backlog sends to the backlog queues of the secondary.
type backlog struct {
	link   *link
	queues []string
	opt    *Options
	failed func(queue string, err error)

	mu  sync.Mutex
	bad []time.Time // by queue: until when it is left out
}

func newBacklog(l *link, queues []string, o *Options, failed func(string, error)) *backlog {
	return &backlog{link: l, queues: queues, opt: o, failed: failed, bad: make([]time.Time, len(queues))}
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
		return b.attempt(ctx, i, sealed, note)
	}
	var err error
	tried := make([]bool, len(b.queues))
	for range b.queues {
		i := b.choose(tried)
		tried[i] = true
		err = b.attempt(ctx, i, sealed, note)
		if err == nil || refused(err) || ctx.Err() != nil {
			return err
		}
	}
	return err
}

// attempt leaves the queue out for a while if it fails.
func (b *backlog) attempt(ctx context.Context, i int, sealed *Message, note func(error)) error {
	err := b.link.do(ctx, b.opt.AttemptTimeout, func(ctx context.Context, c Connection) error {
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
	case !refused(err) && ctx.Err() == nil:
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
