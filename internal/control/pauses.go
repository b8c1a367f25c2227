package control

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"kennel/internal/signal"
	"kennel/internal/table"
)

// Signal wakes other processes after a change. It has no content: the receiver
// reads the rows.
type Signal struct{}

// Signals carries signals from process to process.
type Signals = signal.Signals[Signal]

// Options are the optional parts of pauses; nil and zero fields mean the
// defaults.
type Options struct {
	Signals Signals      // default: none; other processes read later
	Log     *slog.Logger // default: discard
}

// Pauses is what this process knows of the queues that people have paused. Each
// queue that was ever paused has a row. What was read last holds; before the
// first read, and without rows, no queue is paused.
//
// A process reads when it is about to work and its last read is old, with one
// request. While it has no work it reads nothing, unless a queue is paused: then
// Run reads, so that it notices the resume.
//
// Nil pauses are those of a program in which none can be: Of, Known and Refresh
// find none.
type Pauses struct {
	rows   *table.Table
	queues []string // those that this program declares
	opt    Options
	wake   chan struct{} // a signal arrived; size 1

	mu      sync.Mutex
	known   map[string]*Pause // by queue; it is replaced, never changed; guarded by mu
	begun   int               // reads, and writes that were confirmed; guarded by mu
	applied int               // the newest of them that known has; guarded by mu
	due     time.Time         // no read before; guarded by mu
	reading chan struct{}     // closed when the read that runs has ended; nil: none runs; guarded by mu
	changed chan struct{}     // closed when known changes; guarded by mu
}

const (
	// lasts is for how long a read serves a process that works.
	lasts = 30 * time.Second

	// afterFailure is when the next read comes after one that failed.
	afterFailure = 10 * time.Second

	// pollEvery is how often Run reads while a queue is paused, at most.
	pollEvery = 15 * time.Second

	readTimeout   = 2 * time.Second // work waits for it
	signalTimeout = 3 * time.Second
)

// New returns the pauses of declared queues, in a table that other rows share.
// It makes no request.
func New(store table.Store, queues []string, options *Options) (*Pauses, error) {
	rows, err := table.New(store)
	if err != nil {
		return nil, err
	}
	var opt Options
	if options != nil {
		opt = *options
	}
	opt.Log = cmp.Or(opt.Log, slog.New(slog.DiscardHandler))
	return &Pauses{rows: rows, queues: queues, opt: opt, wake: make(chan struct{}, 1), changed: make(chan struct{})}, nil
}

// Of returns the pause of a queue as it was last read, nil if it is not paused.
// It makes no request.
func (p *Pauses) Of(queue string) *Pause {
	all, _ := p.Known()
	return all[queue]
}

// Known returns the pauses of all queues as they were last read, and a channel
// that is closed when they have changed.
func (p *Pauses) Known() (all map[string]*Pause, changed <-chan struct{}) {
	if p == nil {
		return nil, nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.known, p.changed
}

// Refresh reads the pauses if the last read is old. If it cannot, what was read
// last holds.
func (p *Pauses) Refresh(ctx context.Context) {
	if p == nil {
		return
	}
	p.mu.Lock()
	if time.Now().Before(p.due) {
		p.mu.Unlock()
		return
	}
	if running := p.reading; running != nil {
		p.mu.Unlock()
		select {
		case <-running:
		case <-ctx.Done():
		}
		return
	}
	running := make(chan struct{})
	p.reading = running
	p.mu.Unlock()

	p.readSoon(ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reading = nil
	close(running)
}

// readSoon reads the pauses, and decides when the next read is due. Others wait
// for it, so it does not end with its caller.
func (p *Pauses) readSoon(ctx context.Context) {
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), readTimeout)
	defer cancel()
	due := time.Now().Add(lasts)
	if _, err := p.Read(limited); err != nil {
		p.opt.Log.WarnContext(ctx, "cannot read which queues are paused; what was read last holds", "error", err)
		due = time.Now().Add(afterFailure)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.due.Before(due) {
		p.due = due
	}
}

// Read reads the pauses.
func (p *Pauses) Read(ctx context.Context) (map[string]*Pause, error) {
	p.mu.Lock()
	p.begun++
	number := p.begun
	p.mu.Unlock()
	rows, _, err := table.ReadPartition(ctx, p.rows, partition)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if number < p.applied {
		return p.known, nil // a later read, or a write of this process, was faster
	}
	p.applied = number
	all := make(map[string]*Pause)
	for _, queue := range p.queues {
		i := slices.IndexFunc(rows, func(r table.Row) bool { return r.Key == keyOf(queue) })
		if i < 0 {
			continue
		}
		pause, err := read(rows[i])
		if err != nil {
			p.opt.Log.WarnContext(ctx, "cannot read whether a queue is paused; what was read last holds", "queue", queue, "error", err)
			pause = p.known[queue]
		}
		if pause != nil {
			all[queue] = pause
		}
	}
	p.learn(ctx, all)
	return all, nil
}

// learn replaces what is known. Its caller holds mu.
func (p *Pauses) learn(ctx context.Context, all map[string]*Pause) {
	same := func(a, b *Pause) bool { return a.Text() == b.Text() }
	if maps.EqualFunc(all, p.known, same) {
		return
	}
	for _, queue := range p.queues {
		switch was, now := p.known[queue], all[queue]; {
		case was == nil && now != nil:
			p.opt.Log.InfoContext(ctx, "queue is paused", "queue", queue, "by", now.By.Name, "verified", now.By.Verified, "reason", now.Reason)
		case was != nil && now == nil:
			p.opt.Log.InfoContext(ctx, "queue is resumed", "queue", queue)
		}
	}
	p.known = all
	close(p.changed)
	p.changed = make(chan struct{})
}

// The rows of pauses, in a partition of their own.
const (
	partition = "paused"
	format    = "1"
	column    = "pause"
)

func keyOf(queue string) string { return "queue-" + queue }

var errCorrupt = errors.New("the row of a pause is unreadable")

func read(row table.Row) (*Pause, error) {
	c := table.ReadColumns(row, format, errCorrupt)
	text := c.Text(column)
	if err := c.Err(); err != nil {
		return nil, err
	}
	pause, err := ParsePause(text)
	if err != nil {
		c.Fail(column)
	}
	return pause, c.Err()
}

// Pause pauses a queue, unless it is paused: then it keeps its pause, which is
// returned. An error that wraps table.ErrUnclear means that it may be paused.
func (p *Pauses) Pause(ctx context.Context, queue string, by Pause) (*Pause, error) {
	by = by.Cut()
	by.At = time.Now().UTC().Truncate(time.Millisecond)
	return p.change(ctx, queue, &by)
}

// Resume ends a pause.
func (p *Pauses) Resume(ctx context.Context, queue string) error {
	_, err := p.change(ctx, queue, nil)
	return err
}

// change writes the row of a queue if it is not as next already. A row is never
// deleted, and each write names the version that it replaces, so a late second
// arrival of a write changes nothing.
func (p *Pauses) change(ctx context.Context, queue string, next *Pause) (*Pause, error) {
	if !slices.Contains(p.queues, queue) {
		return nil, fmt.Errorf("the program declares no queue %q", queue)
	}
	now := next
	err := p.rows.Change(ctx, partition, keyOf(queue), func(stored *table.Row) (map[string]string, error) {
		is, err := readStored(stored)
		if err != nil || (is == nil) == (next == nil) {
			now = is
			return nil, err
		}
		return map[string]string{table.FormatColumn: format, column: next.Text()}, nil
	}, func(stored *table.Row) bool { // by this write, or by another person
		is, err := readStored(stored)
		if err != nil || (is == nil) != (next == nil) {
			return false
		}
		now = is
		return true
	})
	if err != nil {
		return nil, err
	}
	p.made(ctx, queue, now)
	return now, nil
}

// readStored reads the row of a queue, which has none before its first pause.
func readStored(stored *table.Row) (*Pause, error) {
	if stored == nil {
		return nil, nil
	}
	return read(*stored)
}

// made takes a change that the store has confirmed, and wakes the other
// processes.
func (p *Pauses) made(ctx context.Context, queue string, pause *Pause) {
	p.mu.Lock()
	all := maps.Clone(p.known)
	if all == nil {
		all = make(map[string]*Pause)
	}
	if all[queue] = pause; pause == nil {
		delete(all, queue)
	}
	p.begun++
	p.applied = p.begun // reads that have begun before may not have it
	p.learn(ctx, all)
	p.mu.Unlock()
	if p.opt.Signals == nil {
		return
	}
	limited, cancel := context.WithTimeout(ctx, signalTimeout)
	defer cancel()
	if err := p.opt.Signals.Publish(limited, Signal{}); err != nil {
		p.opt.Log.WarnContext(ctx, "cannot signal a pause or resume; other processes read it within 30 s", "error", err)
	}
}

// Run keeps a worker up to date until ctx ends: it reads at a signal, and often
// while a queue is paused.
func (p *Pauses) Run(ctx context.Context) error {
	var listening sync.WaitGroup
	defer listening.Wait()
	if s := p.opt.Signals; s != nil {
		listening.Go(func() {
			for ctx.Err() == nil {
				if err := s.Listen(ctx, listener{p}); err != nil {
					p.opt.Log.WarnContext(ctx, "cannot receive signals of pauses; reading them when there is work", "error", err)
					return
				}
			}
		})
	}
	for {
		all, changed := p.Known()
		var poll <-chan time.Time
		if len(all) > 0 {
			poll = time.After(pollEvery - rand.N(pollEvery/5))
		}
		select {
		case <-changed:
			continue
		case <-p.wake:
		case <-poll:
		case <-ctx.Done():
			return nil
		}
		p.readSoon(ctx)
	}
}

// listener receives signals.
type listener struct{ *Pauses }

func (l listener) Up()        {}
func (l listener) Down(error) {} // a change that is missed is read later

func (l listener) Received(Signal) {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}
