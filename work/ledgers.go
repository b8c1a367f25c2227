package work

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"kennel/table"
)

// maxLedgers is how many ledgers stay in memory, so that the next change needs
// no read.
const maxLedgers = 256

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
	group := b.ledgers.take(p)
	result, err := b.write(ctx, id, p, group)
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

// write applies the changes of a group and stores the ledger. Its caller has the
// turn.
func (b *Batches) write(ctx context.Context, id string, p *page, group []*change) (ledger, error) {
	ctx, spent := withTally(ctx)
	for failures, isStored := 0, false; ; {
		if p.known == nil {
			l, err := b.ledger(ctx, id)
			if err != nil {
				return ledger{}, err
			}
			p.known, isStored = &l, true
		}
		next := *p.known
		next.counted = slices.Clone(next.counted)
		changed := false
		for _, c := range group {
			changed = c.apply(&next) || changed
		}
		if !changed && isStored {
			return next, nil
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
			return next, nil
		}
		// The write was not made, or its outcome is unknown. Even if it arrives
		// later, it does no harm: it requires the version that was read here.
		p.known = nil
		if !errors.Is(err, table.ErrUnclear) && !errors.Is(err, table.ErrChanged) && !errors.Is(err, table.ErrNotFound) {
			return ledger{}, err
		}
		if failures++; table.Pause(ctx, rand.N(min(10*time.Millisecond<<min(failures, 8), 2*time.Second))) != nil {
			return ledger{}, err
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
