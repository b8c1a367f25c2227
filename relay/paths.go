package relay

import (
	"sync"
	"time"
)

// paths are the entities that a syphon sends to. One that fails is left alone
// for a while, and then one message at a time tries it.
type paths struct {
	mu  sync.Mutex
	all map[string]*path // those that failed
}

type path struct {
	until   time.Time
	pause   time.Duration
	probing bool
}

const maxPathPause = 30 * time.Second

// enter reports whether a message may be sent to the entity. Each message that
// may must be reported to leave.
func (p *paths) enter(entity string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	e := p.all[entity]
	if e == nil {
		return true
	}
	if e.probing || time.Now().Before(e.until) {
		return false
	}
	e.probing = true
	return true
}

// leave reports how a send ended, and returns whether the entity is left alone
// from now on.
func (p *paths) leave(entity string, err error) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	e := p.all[entity]
	if e != nil {
		e.probing = false
	}
	class := classOf(err)
	switch {
	case err == nil || class == NotFound || class == TooLarge || class == Invalid:
		delete(p.all, entity) // it answers
		return false
	case e == nil:
		e = &path{}
		p.all[entity] = e
	case time.Now().Before(e.until):
		return false // of several sends that fail, one counts
	}
	e.pause = max(min(max(2*e.pause, time.Second), maxPathPause), busyFor(err))
	e.until = time.Now().Add(e.pause)
	return true
}

// until returns when an entity may be tried again; zero if it did not fail.
func (p *paths) until(entity string) time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	if e := p.all[entity]; e != nil {
		return e.until
	}
	return time.Time{}
}
