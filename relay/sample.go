package relay

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// Backlog is a sample of the backlog queues.
type Backlog struct {
	At       time.Time
	Entities []Waiting // by name
	Partial  bool      // there is more than was counted
}

// Waiting is what the backlog queues hold for one entity.
type Waiting struct {
	Entity string

	// Messages is exact for a queue with up to 100 messages. Of more, it is the
	// share that the entity has in the first 100 of them.
	Messages int64

	Oldest time.Time // when the oldest one was stored, by the clock of the namespace
}

// Backlog reads the first messages of each backlog queue, without locking them.
// It reads no more, because the namespace counts each message that is read
// towards its limit of requests, which the sends to the backlog need. The admin
// reports how many messages a queue has; if it fails, only those that were read
// count. After an error the sample is of the queues that were read.
func (s *Syphon) Backlog(ctx context.Context, admin Queues) (Backlog, error) {
	var (
		wg       sync.WaitGroup
		mu       sync.Mutex
		all      error
		sample   = Backlog{At: time.Now()}
		entities = make(map[string]Waiting)
	)
	for _, queue := range s.queues {
		wg.Go(func() {
			found, partial, err := s.waiting(ctx, admin, queue)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				all = errors.Join(all, fmt.Errorf("read backlog queue %q: %w", queue, err))
			}
			sample.Partial = sample.Partial || partial
			for _, w := range found {
				sum, known := entities[w.Entity]
				if !known || w.Oldest.Before(sum.Oldest) {
					sum.Oldest = w.Oldest
				}
				sum.Entity, sum.Messages = w.Entity, sum.Messages+w.Messages
				entities[w.Entity] = sum
			}
		})
	}
	wg.Wait()
	for _, w := range entities {
		sample.Entities = append(sample.Entities, w)
	}
	slices.SortFunc(sample.Entities, func(a, b Waiting) int { return strings.Compare(a.Entity, b.Entity) })
	return sample, all
}

// waiting returns how much a queue holds for each entity, and whether it may
// hold more.
func (s *Syphon) waiting(ctx context.Context, admin Queues, queue string) (found []Waiting, more bool, err error) {
	page, err := s.secondary.peek(ctx, s.options.attemptTimeout, queue, 0)
	if err != nil {
		return nil, true, err
	}
	entities := make(map[string]Waiting)
	for _, d := range page {
		entity, _ := d.Message.ApplicationProperties[propPath].(string)
		if entity == "" {
			continue // not from a relay
		}
		w, known := entities[entity]
		if !known {
			w = Waiting{Entity: entity, Oldest: d.Enqueued} // they are in the order of their numbers
		}
		w.Messages++
		entities[entity] = w
	}
	if len(entities) == 0 {
		return nil, false, nil
	}
	// A namespace may return fewer messages than it has, even below a full page.
	bounded, cancel := context.WithTimeout(ctx, s.options.attemptTimeout)
	defer cancel()
	depth, err := admin.Depth(bounded, queue)
	more = err != nil // the app may lack the right to manage
	depth = max(depth, int64(len(page)))
	for _, w := range entities {
		w.Messages = w.Messages * depth / int64(len(page))
		found = append(found, w)
	}
	return found, more, nil
}
