package work

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"kennel/internal/table"
)

// maxLedgers is how many ledgers stay in memory, so that the next change needs
// no read.
const maxLedgers = 256

// Processes that count results of one batch at the same time write the same row,
// and all but one of them in vain. So each gathers its changes for a time that
// doubles from minLinger up to maxLinger when another process was faster, and
// shrinks when none was.
const (
	minLinger = 20 * time.Millisecond
	maxLinger = time.Second
)

// Results wait for others up to a part of the time that they took, so that the
// wait costs few of those who process, and at most for maxLinger.
const patiencePart = 8

// changeTime bounds a change of a ledger with all its requests.
const changeTime = time.Minute

// ledgers holds the ledgers that this process has changed lately, and the
// changes that wait to be written.
type ledgers struct {
	mu   sync.Mutex
	byID map[string]*page // guarded by mu
}

// page is the ledger of one batch. Changes that arrive while one is written are
// written together.
type page struct {
	turn  chan struct{} // held by the caller that writes; size 1
	known *ledger       // last read or written; nil: unknown; guarded by turn; never modified

	// linger is how long the caller that writes waits for others before it does;
	// 0 until other processes were faster. Guarded by turn.
	linger time.Duration

	gathering chan struct{} // held by the caller that gathers; size 1

	users   int       // guarded by ledgers.mu
	used    time.Time // guarded by ledgers.mu
	waiting []*change // guarded by ledgers.mu
}

// change is a change of a ledger. When ended is closed, it was written or
// failed.
type change struct {
	apply  func(*ledger) (changed bool)
	ended  chan struct{}
	result ledger
	err    error
	gone   bool // its caller has returned; guarded by ledgers.mu
}

// ledger reads the ledger of a batch. ErrNotFound reports that it does not
// exist.
func (b *Batches) ledger(ctx context.Context, id string) (ledger, error) {
	row, err := b.rows.Get(ctx, id, ledgerKey)
	switch {
	case errors.Is(err, table.ErrNotFound):
		return ledger{}, fmt.Errorf("batch %.80q: %w", id, ErrNotFound)
	case err != nil:
		return ledger{}, fmt.Errorf("read batch %s: %w", id, err)
	}
	return readLedger(row)
}

// change changes the ledger of a batch, and returns it as it is then. apply
// changes the ledger that it gets, and reports whether it did. It is called
// again, with a newer ledger, if another process was faster or the outcome of a
// write is unknown, so it must find in the ledger whether its change was made. It
// may see an older ledger than the stored one first; the last one that it sees
// is the stored one. What the requests cost is added to the operations of the
// batch.
//
// After an error, the change may be made.
func (b *Batches) change(ctx context.Context, id string, apply func(*ledger) (changed bool)) (ledger, error) {
	return b.changeWith(ctx, id, 0, apply)
}

// changeWith is change that waits up to patience for the results of parcels that
// this process works on.
func (b *Batches) changeWith(ctx context.Context, id string, patience time.Duration, apply func(*ledger) (changed bool)) (ledger, error) {
	ctx, cancel := context.WithTimeout(ctx, changeTime)
	defer cancel()
	c := &change{apply: apply, ended: make(chan struct{})}
	p := b.ledgers.open(id, c)
	defer b.ledgers.close(p, c)
	select {
	case <-c.ended:
		return c.result, c.err
	case <-ctx.Done():
		return ledger{}, fmt.Errorf("change batch %s: %w", id, ctx.Err())
	case p.turn <- struct{}{}:
	}
	defer func() { <-p.turn }()
	select {
	case <-c.ended: // written by the caller before
		return c.result, c.err
	default:
	}
	if err := b.linger(ctx, p, patience); err != nil {
		return ledger{}, fmt.Errorf("change batch %s: %w", id, err)
	}
	group, result, err := b.write(ctx, id, p)
	if err != nil {
		err = fmt.Errorf("change batch %s: %w", id, err)
		if ctx.Err() != nil { // the others may have more time
			b.ledgers.putBack(p, slices.DeleteFunc(group, func(other *change) bool { return other == c }))
			return ledger{}, err
		}
	}
	for _, c := range group {
		c.result, c.err = result, err
		close(c.ended)
	}
	return result, err
}

// linger waits for changes to write together. Its caller has the turn.
func (b *Batches) linger(ctx context.Context, p *page, patience time.Duration) error {
	if p.linger > 0 {
		p.known = nil // another process has probably changed it
		return table.Pause(ctx, max(p.linger/2+rand.N(p.linger/2), min(patience, maxLinger)))
	}
	if patience == 0 {
		return nil
	}
	timer := time.NewTimer(min(patience, maxLinger))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-b.working.none():
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// write applies the changes that wait, also those that begin to wait before it
// succeeds, and stores the ledger. It returns the changes. Its caller has the
// turn.
func (b *Batches) write(ctx context.Context, id string, p *page) (group []*change, l ledger, err error) {
	ctx, spent := withTally(ctx)
	conflicts, failures, isStored := 0, 0, false
	for {
		group = append(group, b.ledgers.take(p)...)
		if p.known == nil {
			if l, err = b.ledger(ctx, id); err != nil {
				return group, ledger{}, err
			}
			p.known, isStored = new(l), true
		}
		next := *p.known
		next.counted = slices.Clone(next.counted)
		changed := false
		for _, c := range group {
			changed = c.apply(&next) || changed
		}
		if !changed && isStored {
			return group, next, nil
		}
		if !changed { // another process may have changed or removed it since
			p.known = nil
			continue
		}
		next.operations += spent.total() + 1
		versions, err := b.rows.Submit(ctx, table.Write{Verb: table.Replace, Row: next.row(), If: next.version})
		if err == nil {
			next.version, next.writtenAt = versions[0], time.Time{}
			p.known = &next
			p.adapt(conflicts)
			return group, next, nil
		}
		// The write was not made, or its outcome is unknown. Even if it arrives
		// later, it does no harm: it requires the version that was read here.
		p.known = nil
		if !errors.Is(err, table.ErrUnclear) && !errors.Is(err, table.ErrChanged) && !errors.Is(err, table.ErrNotFound) {
			return group, ledger{}, err
		}
		if errors.Is(err, table.ErrChanged) {
			conflicts++
		}
		if failures++; table.Pause(ctx, rand.N(min(10*time.Millisecond<<min(failures, 8), 2*time.Second))) != nil {
			return group, ledger{}, err
		}
	}
}

// adapt sets how long the next write lingers, after one that other processes
// prevented so many times. Its caller has the turn.
func (p *page) adapt(conflicts int) {
	switch {
	case conflicts > 0:
		p.linger = min(max(2*p.linger, minLinger), maxLinger)
	case p.linger > 0:
		if p.linger -= p.linger / 4; p.linger < minLinger {
			p.linger = 0
		}
	}
}

// open returns the page of a batch, which close releases, and adds a change.
func (l *ledgers) open(id string, c *change) *page {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.byID == nil {
		l.byID = make(map[string]*page)
	}
	p := l.byID[id]
	if p == nil {
		p = &page{turn: make(chan struct{}, 1), gathering: make(chan struct{}, 1)}
		l.byID[id] = p
	}
	p.users++
	p.used = time.Now()
	if c != nil {
		p.waiting = append(p.waiting, c)
	}
	return p
}

// close removes the change of a caller that returns, and the page that was not
// used for longest if there are too many.
func (l *ledgers) close(p *page, c *change) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p.users--
	if c != nil {
		c.gone = true
		p.waiting = slices.DeleteFunc(p.waiting, func(other *change) bool { return other.gone })
	}
	if len(l.byID) <= maxLedgers {
		return
	}
	oldest := ""
	for id, p := range l.byID {
		if p.users == 0 && (oldest == "" || p.used.Before(l.byID[oldest].used)) {
			oldest = id
		}
	}
	delete(l.byID, oldest)
}

// take returns the changes that wait.
func (l *ledgers) take(p *page) []*change {
	l.mu.Lock()
	defer l.mu.Unlock()
	group := p.waiting
	p.waiting = nil
	return group
}

// putBack lets the changes of a group wait again.
func (l *ledgers) putBack(p *page, group []*change) {
	l.mu.Lock()
	defer l.mu.Unlock()
	group = slices.DeleteFunc(group, func(c *change) bool { return c.gone })
	p.waiting = append(group, p.waiting...)
}

// working counts the parcels that a process works on whose results are still to
// be counted.
type working struct {
	mu    sync.Mutex
	n     int           // guarded by mu
	ended chan struct{} // closed when n becomes 0; nil: none waits; guarded by mu
}

// begin begins a parcel. The function that it returns ends it, and may be called
// again.
func (w *working) begin() (end func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.n++
	return sync.OnceFunc(func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.n--; w.n == 0 && w.ended != nil {
			close(w.ended)
			w.ended = nil
		}
	})
}

// none returns a channel that is closed when there is no parcel.
func (w *working) none() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended == nil {
		w.ended = make(chan struct{})
	}
	ended := w.ended
	if w.n == 0 {
		close(ended)
		w.ended = nil
	}
	return ended
}
