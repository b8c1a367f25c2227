package relay

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

const (
	// maxSilence is how long attempts wait in vain for any answer before a
	// connection is replaced. The SDK itself notices a network that swallows
	// everything only after a minute, and until then no new link helps.
	maxSilence = 3 * time.Second

	minSilence   = time.Second
	closeTimeout = 5 * time.Second
)

// silence is how long attempts waited in vain since the last answer. Attempts
// side by side count once.
type silence struct {
	total time.Duration
	until time.Time
}

// add adds an attempt and returns the total.
func (s *silence) add(began, now time.Time) time.Duration {
	if s.until.After(began) {
		began = s.until
	}
	s.total, s.until = s.total+now.Sub(began), now
	return s.total
}

// links are the connections to a namespace: one for each entity or queue, so
// that one that does not answer leaves the others alone.
type links struct {
	namespace Namespace
	replaced  func() // counts

	mu     sync.Mutex
	all    map[string]*link
	closed bool

	forgotten sync.WaitGroup // connections that are being closed

	// patience ends with the context of close: then connections that are being
	// closed in the background are given up.
	patience context.Context
	giveUp   context.CancelFunc
}

func newLinks(n Namespace, replaced func()) *links {
	l := &links{namespace: n, replaced: replaced, all: make(map[string]*link)}
	l.patience, l.giveUp = context.WithCancel(context.Background())
	return l
}

// of returns the link of an entity or queue.
func (l *links) of(name string) *link {
	l.mu.Lock()
	defer l.mu.Unlock()
	one := l.all[name]
	if one == nil {
		one = &link{links: l, closed: l.closed}
		l.all[name] = one
	}
	return one
}

// forget closes the connection of an entity in the background.
func (l *links) forget(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	one := l.all[name]
	if one == nil || l.closed {
		return
	}
	delete(l.all, name)
	l.forgotten.Go(func() {
		ctx, cancel := context.WithTimeout(l.patience, closeTimeout)
		defer cancel()
		one.close(ctx) // ignore the error: the connection never worked
	})
}

// close closes all connections and waits for those that were replaced.
func (l *links) close(ctx context.Context) error {
	defer l.giveUp()
	defer context.AfterFunc(ctx, l.giveUp)()
	l.mu.Lock()
	l.closed = true
	errs := make(chan error, len(l.all))
	for _, one := range l.all {
		go func() { errs <- one.close(ctx) }()
	}
	l.mu.Unlock()
	var all error
	for range cap(errs) {
		all = errors.Join(all, <-errs)
	}
	l.forgotten.Wait()
	return all
}

// link is the current connection for one entity or queue.
type link struct {
	links *links

	mu      sync.Mutex
	conn    Connection // nil: none yet
	silent  silence
	closed  bool
	closing sync.WaitGroup // of replaced connections
}

// do makes one attempt, of at most timeout. If the attempt takes longer than
// that, the error is of the class Unavailable.
func (l *link) do(ctx context.Context, timeout time.Duration, attempt func(ctx context.Context, c Connection) error) error {
	c, err := l.current()
	if err != nil {
		return err
	}
	began := time.Now()
	bounded, cancel := context.WithTimeout(ctx, timeout)
	err = attempt(bounded, c)
	silent := err != nil && bounded.Err() != nil
	cancel()
	l.judge(c, silent, err, began)
	if silent && ctx.Err() == nil && classOf(err) == Unavailable {
		return &Error{Class: Unavailable, Unsent: unsent(err), Err: fmt.Errorf("no answer within %v: %w", timeout, err)}
	}
	return err
}

// peekPage is how many messages a page of a peek has at most.
const peekPage = 100

// peek reads a page of a queue. If a message of it cannot be decoded, it returns
// those before that one; the error is not nil only if that one is the first.
func (l *links) peek(ctx context.Context, timeout time.Duration, queue string, from int64) (page []*Delivery, err error) {
	for n := peekPage; ; n /= 2 {
		err = l.of(queue).do(ctx, timeout, func(ctx context.Context, c Connection) error {
			page, err = c.Peek(ctx, queue, from, n)
			return err
		})
		if classOf(err) != Unreadable || n == 1 {
			return page, err
		}
	}
}

// current returns the connection for the next attempt.
func (l *link) current() (Connection, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, closed()
	}
	if l.conn == nil {
		c, err := l.links.namespace.Connect()
		if err != nil {
			return nil, err
		}
		l.conn = c
	}
	return l.conn, nil
}

// judge replaces a connection that no longer answers.
func (l *link) judge(c Connection, silent bool, err error, began time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case c != l.conn:
	case silent:
		if l.silent.add(began, time.Now()) >= maxSilence {
			l.drop()
		}
	case err == nil || classOf(err) != Unavailable:
		l.silent = silence{until: time.Now()}
	}
}

// renew replaces the connection: its last attempts failed.
func (l *link) renew() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conn != nil {
		l.drop()
	}
}

// drop closes the connection in the background, because closing one that does
// not answer takes until its timeout.
func (l *link) drop() {
	c := l.conn
	l.conn, l.silent = nil, silence{}
	l.links.replaced()
	l.closing.Go(func() {
		ctx, cancel := context.WithTimeout(l.links.patience, closeTimeout)
		defer cancel()
		c.Close(ctx) // ignore the error: the connection was given up
	})
}

// close closes the connection and waits for those that were replaced.
func (l *link) close(ctx context.Context) error {
	l.mu.Lock()
	c := l.conn
	l.conn, l.closed = nil, true
	l.mu.Unlock()
	var err error
	if c != nil {
		err = c.Close(ctx)
	}
	l.closing.Wait()
	return err
}
