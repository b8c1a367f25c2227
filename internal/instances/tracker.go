package instances

import (
	"maps"
	"sync"
	"sync/atomic"
	"time"
)

// maxTracked is how many subjects a tracker remembers: callers choose some of
// the names.
const maxTracked = 1000

// A Tracker remembers which subjects have a problem of one kind: since when,
// how often it occurred, and its last cause. The zero value is ready to use. Its
// methods may be called concurrently.
type Tracker[Subject comparable, Cause any] struct {
	any   atomic.Bool // known is not empty
	mu    sync.Mutex
	known map[Subject]Tracked[Cause] // guarded by mu
}

// Tracked is a problem of one subject.
type Tracked[Cause any] struct {
	Since time.Time // of the first occurrence
	Count int64     // of occurrences
	Cause Cause     // of the last one

	until time.Time // zero: until it is solved
}

// isOver reports whether the problem did not occur again in time.
func (p Tracked[Cause]) isOver(now time.Time) bool { return !p.until.IsZero() && now.After(p.until) }

// Occurred counts a problem of a subject, and returns it with all earlier
// occurrences. It is over when the subject is solved, or when it did not occur
// again for a time; 0 means for ever.
func (t *Tracker[Subject, Cause]) Occurred(subject Subject, cause Cause, lasts time.Duration) Tracked[Cause] {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	p, ok := t.known[subject]
	if !ok || p.isOver(now) {
		p = Tracked[Cause]{Since: now.UTC()}
	}
	p.Count++
	p.Cause, p.until = cause, time.Time{}
	if lasts > 0 {
		p.until = now.Add(lasts)
	}
	if !ok {
		t.expire(now)
	}
	if ok || len(t.known) < maxTracked {
		if t.known == nil {
			t.known = make(map[Subject]Tracked[Cause])
		}
		t.known[subject] = p
		t.any.Store(true)
	}
	return p
}

// Solved ends the problem of a subject, if it has one.
func (t *Tracker[Subject, Cause]) Solved(subject Subject) {
	if t.IsEmpty() {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.known, subject)
	t.any.Store(len(t.known) > 0)
}

// IsEmpty reports whether there is no problem, not even one that is over and was
// not forgotten yet. It takes no lock.
func (t *Tracker[Subject, Cause]) IsEmpty() bool { return !t.any.Load() }

// All returns the problems that are not over.
func (t *Tracker[Subject, Cause]) All() map[Subject]Tracked[Cause] {
	if t.IsEmpty() {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.expire(time.Now())
	return maps.Clone(t.known)
}

// expire forgets the problems that are over. The caller holds mu.
func (t *Tracker[Subject, Cause]) expire(now time.Time) {
	maps.DeleteFunc(t.known, func(_ Subject, p Tracked[Cause]) bool { return p.isOver(now) })
	t.any.Store(len(t.known) > 0)
}
