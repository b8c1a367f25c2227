package parts

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"kennel/internal/instances"
	"kennel/internal/observe"
	"kennel/relay"
)

// backlogSample is the newest sample that this process made.
type backlogSample struct {
	mu      sync.Mutex
	last    *instances.Backlog // is replaced, never changed; guarded by mu
	triedAt time.Time          // guarded by mu
	news    bool               // something happened since the last try; guarded by mu
}

// begin reports whether a sample may be made now, and notes that it is.
func (b *backlogSample) begin() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if now := time.Now(); now.Sub(b.triedAt) >= observe.OfBacklog.Every {
		b.triedAt, b.news = now, false
		return true
	}
	return false
}

// isDue reports whether a process that moves the backlog should sample it.
func (b *backlogSample) isDue() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	isEmpty := b.last != nil && len(b.last.Entities) == 0
	return b.news || !isEmpty || time.Since(b.triedAt) >= observe.OfEmptyBacklog.Every
}

// changed notes that the backlog may have changed.
func (b *backlogSample) changed() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.news = true
}

func (b *backlogSample) set(sample *instances.Backlog) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.last = sample
}

// latest returns the newest sample, nil if it describes the backlog no longer.
func (b *backlogSample) latest() *instances.Backlog {
	b.mu.Lock()
	defer b.mu.Unlock()
	pace := observe.OfBacklog
	if b.last == nil || len(b.last.Entities) == 0 {
		pace = observe.OfEmptyBacklog
	}
	if b.last == nil || time.Since(b.last.At) > pace.Lasts {
		return nil
	}
	return b.last
}

// maxBacklogAge is how old a message in the backlog may be. An outage of the
// primary namespace that lasts longer is a problem.
const maxBacklogAge = 5 * time.Minute

// Problems returns the entities whose messages wait for too long.
func (b *backlogSample) Problems() []instances.Problem {
	sample := b.latest()
	if sample == nil {
		return nil
	}
	var old []instances.Problem
	for _, e := range sample.Entities {
		age := time.Duration(e.OldestSeconds * float64(time.Second))
		if age <= maxBacklogAge {
			continue
		}
		more := ""
		if sample.More {
			more = "at least "
		}
		old = append(old, instances.Problem{
			Code: instances.BacklogOld, Subject: e.Entity, Since: sample.At.Add(maxBacklogAge - age), Count: e.Messages,
			What: fmt.Sprintf("In the secondary namespace %s%d messages wait for it, the oldest for %v.", more, e.Messages, age.Round(time.Second)),
		})
	}
	return observe.Oldest(old)
}

// backlogOf returns a sample as it is reported.
func backlogOf(b relay.Backlog) *instances.Backlog {
	sample := &instances.Backlog{At: b.At.UTC(), More: b.Partial}
	for _, w := range b.Entities {
		sample.Entities = append(sample.Entities, instances.BacklogEntity{
			Entity: w.Entity, Messages: w.Messages, OldestSeconds: max(0, b.At.Sub(w.Oldest).Seconds()), // its clock may be ahead
		})
	}
	slices.SortFunc(sample.Entities, func(a, b instances.BacklogEntity) int {
		return cmp.Or(cmp.Compare(b.OldestSeconds, a.OldestSeconds), strings.Compare(a.Entity, b.Entity))
	})
	return sample
}
