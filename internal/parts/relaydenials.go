package parts

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"kennel/internal/instances"
	"kennel/internal/observe"
	"kennel/relay"
)

// allQueues is the subject of a problem with the backlog as a whole.
const allQueues = "the backlog"

// How long a refusal counts as a problem, unless something succeeds, and after
// what time a secondary namespace that does not answer is a problem.
const (
	denialLasts = 10 * time.Minute
	maxSilence  = 2 * time.Minute
)

// denials remembers the refusals of the namespaces, by entity or backlog queue,
// and whether the backlog cannot be read: while the primary works, nothing else shows
// that the secondary does not.
type denials struct {
	instances.Tracker[string, denial]
}

type denial struct {
	code string
	err  error
}

// note notes an error for an entity or a backlog queue.
func (d *denials) note(subject string, err error) {
	if cause := deniedOf(err); cause != nil {
		d.Occurred(subject, denial{instances.BusDenied, cause}, denialLasts)
	} else if subject == allQueues {
		d.Occurred(subject, denial{instances.BusDisconnected, err}, denialLasts)
	}
}

// deniedOf returns the refusal in an error, nil without one.
func deniedOf(err error) error {
	if sent, ok := errors.AsType[*relay.SendError](err); ok {
		for _, cause := range []error{sent.Primary, sent.Secondary} {
			if e, ok := errors.AsType[*relay.Error](cause); ok && e.Class == relay.Denied {
				return e.Err
			}
		}
		return nil
	}
	if e, ok := errors.AsType[*relay.Error](err); ok && e.Class == relay.Denied {
		return e.Err
	}
	return nil
}

// Problems returns the entities and queues to which access is refused, and
// whether the backlog cannot be read.
func (d *denials) Problems() []instances.Problem {
	var problems []instances.Problem
	for subject, p := range d.All() {
		what := "Service Bus refused access to it"
		if p.Cause.code == instances.BusDisconnected {
			if time.Since(p.Since) < maxSilence {
				continue
			}
			what = "The secondary namespace cannot be read"
		}
		problems = append(problems, instances.Problem{Code: p.Cause.code, Subject: subject, Since: p.Since, Count: p.Count,
			What: fmt.Sprintf("%s: %s.", what, instances.OneLine(p.Cause.err.Error()))})
	}
	return observe.Oldest(problems)
}

// maxRecent is how many entities are remembered. Callers choose the names.
const maxRecent = 1000

// recentSends remembers when messages were last sent to which entities.
type recentSends struct {
	mu   sync.Mutex
	last map[string]time.Time // guarded by mu
}

func (s *recentSends) add(entity string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last == nil {
		s.last = make(map[string]time.Time)
	}
	if _, ok := s.last[entity]; ok || len(s.last) < maxRecent {
		s.last[entity] = time.Now()
	}
}

// since returns the entities to which messages were sent after a time, and
// forgets the others.
func (s *recentSends) since(begin time.Time) map[string]bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	recent := make(map[string]bool, len(s.last))
	for entity, last := range s.last {
		if last.Before(begin) {
			delete(s.last, entity)
			continue
		}
		recent[entity] = true
	}
	return recent
}
