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

// How long a refusal counts as a problem, unless something succeeds, how many
// entities or backlog queues are remembered (callers choose the names), and
// after what time a secondary namespace that does not answer is a problem.
const (
	denialLasts = 10 * time.Minute
	maxDenials  = 100
	maxSilence  = 2 * time.Minute
)

// denials remembers what the namespaces deny, and whether the backlog cannot be
// read: while the primary works, nothing else shows that the secondary does not.
type denials struct {
	mu  sync.Mutex
	all map[string]denial // by entity or backlog queue; guarded by mu
}

type denial struct {
	code        string
	since, last time.Time
	count       int64
	err         error
}

// note notes an error for an entity or a backlog queue.
func (d *denials) note(subject string, err error) {
	cause, code := deniedOf(err), instances.BusDenied
	switch {
	case cause != nil:
	case subject == allQueues:
		cause, code = err, instances.BusDisconnected
	default:
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	known, ok := d.all[subject]
	if !ok {
		d.expire(now)
		if len(d.all) >= maxDenials {
			return
		}
		if d.all == nil {
			d.all = make(map[string]denial)
		}
		known.since = now
	}
	known.code, known.last, known.count, known.err = code, now, known.count+1, cause
	d.all[subject] = known
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

// worked notes that a request for an entity was not denied.
func (d *denials) worked(subject string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.all, subject)
}

// expire forgets what is over. The caller holds mu.
func (d *denials) expire(now time.Time) {
	for subject, known := range d.all {
		if now.Sub(known.last) > denialLasts {
			delete(d.all, subject)
		}
	}
}

func (d *denials) Problems() []instances.Problem {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	d.expire(now)
	var problems []instances.Problem
	for subject, known := range d.all {
		what := "Service Bus refused access to it"
		if known.code == instances.BusDisconnected {
			if now.Sub(known.since) < maxSilence {
				continue
			}
			what = "The secondary namespace cannot be read"
		}
		problems = append(problems, instances.Problem{Code: known.code, Subject: subject, Since: known.since.UTC(), Count: known.count,
			What: fmt.Sprintf("%s: %s.", what, observe.OneLine(known.err.Error()))})
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
