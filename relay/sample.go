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
	Partial  bool      // there is more than was read
}

// Waiting is what the backlog queues hold for one entity.
type Waiting struct {
	Entity   string
	Messages int64
	Oldest   time.Time // when the oldest one was stored, by the clock of the namespace
}

// samplePages is how many pages of each queue a sample reads.
const samplePages = 10

// Backlog reads up to 1,000 messages of each backlog queue, without locking
// them. After an error the sample is of the queues that were read.
func (s *Syphon) Backlog(ctx context.Context) (Backlog, error) {
	var (
		wg       sync.WaitGroup
		mu       sync.Mutex
		all      error
		sample   = Backlog{At: time.Now()}
		entities = make(map[string]Waiting)
	)
	for _, queue := range s.queues {
		wg.Go(func() {
			found, partial, err := s.waiting(ctx, queue)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				all = errors.Join(all, fmt.Errorf("read backlog queue %q: %w", queue, err))
			}
			sample.Partial = sample.Partial || partial
			for _, d := range found {
				entity, _ := d.Message.ApplicationProperties[propPath].(string)
				if entity == "" {
					continue // not from a relay
				}
				w := entities[entity]
				if w.Messages == 0 || d.Enqueued.Before(w.Oldest) {
					w.Oldest = d.Enqueued
				}
				w.Entity, w.Messages = entity, w.Messages+1
				entities[entity] = w
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

// waiting returns the first messages of a queue, and whether there may be more.
func (s *Syphon) waiting(ctx context.Context, queue string) (found []*Delivery, more bool, err error) {
	from := int64(0)
	for range samplePages {
		page, err := s.secondary.peek(ctx, s.opt.AttemptTimeout, queue, from)
		if err != nil || len(page) == 0 {
			return found, err != nil, err
		}
		found = append(found, page...)
		from = page[len(page)-1].Sequence + 1
	}
	return found, true, nil
}
