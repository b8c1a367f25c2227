package relay

import (
	"slices"
	"strings"
)

// Stats are counts since the sender was created.
type Stats struct {
	Primary, Backlog, Failed int64 // sends by where they ended

	// Ambiguous attempts ended without an answer: each may have stored a copy.
	Ambiguous int64

	Throttled            int64 // attempts
	Failovers, Failbacks int64
	Replaced             int64 // connections
	BadQueues            int64 // times that a backlog queue was left out
}

// Stats returns the counts.
func (s *Sender) Stats() Stats {
	c := &s.count
	return Stats{
		Primary: c.primary.Load(), Backlog: c.backlog.Load(), Failed: c.failed.Load(),
		Ambiguous: c.ambiguous.Load(), Throttled: c.throttled.Load(),
		Failovers: c.failovers.Load(), Failbacks: c.failbacks.Load(),
		Replaced: c.replaced.Load(), BadQueues: c.badQueues.Load(),
	}
}

// Status returns the entities that were sent to, by name.
func (s *Sender) Status() []Status {
	s.mu.Lock()
	entities := make([]*entity, 0, len(s.entities))
	for _, e := range s.entities {
		entities = append(entities, e)
	}
	s.mu.Unlock()
	all := make([]Status, 0, len(entities))
	for _, e := range entities { // an entity is locked only without s.mu
		all = append(all, e.status())
	}
	slices.SortFunc(all, func(a, b Status) int { return strings.Compare(a.Entity, b.Entity) })
	return all
}
