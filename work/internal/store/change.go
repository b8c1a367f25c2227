package store

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"kennel/internal/table"
	"kennel/work/internal/format"
	"kennel/work/internal/model"
)

// maxCached is the rows of how many batches stay in memory, so that the next change needs
// no read.
const maxCached = 256

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
const PatiencePart = 8

// changeTime bounds a change of a row with all its requests.
const changeTime = time.Minute

// cache holds the rows that this process has changed lately, and the
// changes that wait to be written.
type cache struct {
	mu   sync.Mutex
	byID map[string]*entry // guarded by mu
}

// entry is the row of one batch. Changes that arrive while one is written are
// written together.
type entry struct {
	turn  chan struct{}    // held by the caller that writes; size 1
	known *format.BatchRow // last read or written; nil: unknown; guarded by turn; never modified

	// linger is how long the caller that writes waits for others before it does;
	// 0 until other processes were faster. Guarded by turn.
	linger time.Duration

	gathering chan struct{} // held by the caller that gathers; size 1

	users   int       // guarded by cache.mu
	used    time.Time // guarded by cache.mu
	waiting []*change // guarded by cache.mu
}

// change is a change of the row of a batch. When ended is closed, it was written or
// failed.
type change struct {
	apply  func(*format.BatchRow) (changed bool)
	ended  chan struct{}
	result format.BatchRow
	err    error
	gone   bool // its caller has returned; guarded by cache.mu
}

// BatchRow reads the row of a batch. ErrNotFound reports that it does not
// exist.
func (s *Store) BatchRow(ctx context.Context, id string) (format.BatchRow, error) {
	row, err := s.Rows.Get(ctx, id, format.BatchKey)
	switch {
	case errors.Is(err, table.ErrNotFound):
		return format.BatchRow{}, fmt.Errorf("batch %.80q: %w", id, model.ErrNotFound)
	case err != nil:
		return format.BatchRow{}, fmt.Errorf("read batch %s: %w", id, err)
	}
	return format.ReadBatchRow(row)
}

// Change changes the row of a batch, and returns it as it is then. apply
// changes the row that it gets, and reports whether it did. It is called
// again, with a newer row, if another process was faster or the outcome of a
// write is unknown, so it must find in the batch's row whether its change was made. It
// may see an older row than the stored one first; the last one that it sees
// is the stored one. What the requests cost is added to the operations of the
// batch.
//
// After an error, the change may be made.
func (s *Store) Change(ctx context.Context, id string, apply func(*format.BatchRow) (changed bool)) (format.BatchRow, error) {
	return s.ChangeWith(ctx, id, 0, apply)
}

// ChangeWith is change that waits up to patience for the results of parcels that
// this process works on.
func (s *Store) ChangeWith(ctx context.Context, id string, patience time.Duration, apply func(*format.BatchRow) (changed bool)) (format.BatchRow, error) {
	ctx, cancel := context.WithTimeout(ctx, changeTime)
	defer cancel()
	c := &change{apply: apply, ended: make(chan struct{})}
	p := s.cache.open(id, c)
	defer s.cache.close(p, c)
	select {
	case <-c.ended:
		return c.result, c.err
	case <-ctx.Done():
		return format.BatchRow{}, fmt.Errorf("change batch %s: %w", id, ctx.Err())
	case p.turn <- struct{}{}:
	}
	defer func() { <-p.turn }()
	select {
	case <-c.ended: // written by the caller before
		return c.result, c.err
	default:
	}
	if err := s.linger(ctx, p, patience); err != nil {
		return format.BatchRow{}, fmt.Errorf("change batch %s: %w", id, err)
	}
	group, result, err := s.write(ctx, id, p)
	if err != nil {
		err = fmt.Errorf("change batch %s: %w", id, err)
		if ctx.Err() != nil { // the others may have more time
			s.cache.putBack(p, slices.DeleteFunc(group, func(other *change) bool { return other == c }))
			return format.BatchRow{}, err
		}
	}
	for _, c := range group {
		c.result, c.err = result, err
		close(c.ended)
	}
	return result, err
}

// linger waits for changes to write together. Its caller has the turn.
func (s *Store) linger(ctx context.Context, p *entry, patience time.Duration) error {
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
	case <-s.Working.none():
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// write applies the changes that wait, also those that begin to wait before it
// succeeds, and stores the batch's row. It returns the changes. Its caller has the
// turn.
func (s *Store) write(ctx context.Context, id string, p *entry) (group []*change, l format.BatchRow, err error) {
	ctx, spent := WithTally(ctx)
	conflicts, failures, isStored := 0, 0, false
	for {
		group = append(group, s.cache.take(p)...)
		if p.known == nil {
			if l, err = s.BatchRow(ctx, id); err != nil {
				return group, format.BatchRow{}, err
			}
			p.known, isStored = new(l), true
		}
		next := *p.known
		next.Tried = slices.Clone(next.Tried)
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
		next.Operations += spent.Total() + 1
		versions, err := s.Rows.Submit(ctx, table.Write{Verb: table.Replace, Row: next.Row(), If: next.Version})
		if err == nil {
			next.Version, next.WrittenAt = versions[0], time.Time{}
			p.known = &next
			p.adapt(conflicts)
			return group, next, nil
		}
		// The write was not made, or its outcome is unknown. Even if it arrives
		// later, it does no harm: it requires the version that was read here.
		p.known = nil
		if !errors.Is(err, table.ErrUnclear) && !errors.Is(err, table.ErrChanged) && !errors.Is(err, table.ErrNotFound) {
			return group, format.BatchRow{}, err
		}
		if errors.Is(err, table.ErrChanged) {
			conflicts++
		}
		if failures++; table.Pause(ctx, rand.N(min(10*time.Millisecond<<min(failures, 8), 2*time.Second))) != nil {
			return group, format.BatchRow{}, err
		}
	}
}

// adapt sets how long the next write lingers, after one that other processes
// prevented so many times. Its caller has the turn.
func (p *entry) adapt(conflicts int) {
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
func (l *cache) open(id string, c *change) *entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.byID == nil {
		l.byID = make(map[string]*entry)
	}
	p := l.byID[id]
	if p == nil {
		p = &entry{turn: make(chan struct{}, 1), gathering: make(chan struct{}, 1)}
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
func (l *cache) close(p *entry, c *change) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p.users--
	if c != nil {
		c.gone = true
		p.waiting = slices.DeleteFunc(p.waiting, func(other *change) bool { return other.gone })
	}
	if len(l.byID) <= maxCached {
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
func (l *cache) take(p *entry) []*change {
	l.mu.Lock()
	defer l.mu.Unlock()
	group := p.waiting
	p.waiting = nil
	return group
}

// putBack lets the changes of a group wait again.
func (l *cache) putBack(p *entry, group []*change) {
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

// Begin begins a parcel. The function that it returns ends it, and may be called
// again.
func (w *working) Begin() (end func()) {
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

// Gathering waits until no other call in this process makes the report of a
// batch. The caller calls done after it.
func (s *Store) Gathering(ctx context.Context, id string) (done func(), err error) {
	p := s.cache.open(id, nil)
	select {
	case p.gathering <- struct{}{}:
		return func() { <-p.gathering; s.cache.close(p, nil) }, nil
	case <-ctx.Done():
		s.cache.close(p, nil)
		return nil, ctx.Err()
	}
}
