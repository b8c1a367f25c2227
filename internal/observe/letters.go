package observe

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"sync"
	"time"

	"kennel/internal/instances"
	"kennel/queue"
)

const (
	// MaxDeliveries is how often the host delivers a message before it moves it
	// to the dead letters: maxDequeueCount in host.json. It is as often as a
	// worker receives one. The host counts deliveries to workers that were
	// killed too, and interrupted is not failed.
	MaxDeliveries = 20

	// MoveTimeout is how long the host takes at most to move a message after its
	// last delivery has failed.
	MoveTimeout = 10 * time.Second

	// SampleTimeout limits the requests of a sample.
	SampleTimeout = 2 * time.Second

	// RecountInterval is how often a process that knows of dead letters counts
	// them, so that it notices that another process removed them.
	RecountInterval = 30 * time.Second
)

// LetterCount is what this process knows of the dead letters of a queue.
type LetterCount struct {
	Queue string

	mu      sync.Mutex
	count   int64
	since   time.Time
	reason  string    // of the last one that this process met; "" if unknown
	settled time.Time // a sample that began before may lack a letter that this process knows of
}

// Added counts a letter, which is in its queue at a time in the future at the
// latest.
func (d *LetterCount) Added(reason error, within time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	if d.count == 0 {
		d.since = now
	}
	d.count++
	d.reason, d.settled = reason.Error(), now.Add(within)
}

// counted takes the number of letters in a sample that began at a time. Azure's
// count is never too low, but it may be from before the last letter.
func (d *LetterCount) counted(began time.Time, count int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case count < d.count && began.Before(d.settled):
		return
	case count == 0:
		d.reason = ""
	case d.count == 0:
		d.since = time.Now()
	}
	d.count = count
}

// Known reports whether there are dead letters, as far as this process knows.
func (d *LetterCount) Known() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.count > 0
}

// Recount counts the letters of this process's queue while any are known, until
// ctx ends.
func (d *LetterCount) Recount(ctx context.Context, queues queue.Counter) {
	Every(ctx, RecountInterval, func() {
		if d.Known() {
			d.CountNow(ctx, queues) // an error is a problem of storage
		}
	})
}

// CountNow counts the letters with one request.
func (d *LetterCount) CountNow(ctx context.Context, queues queue.Counter) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, SampleTimeout)
	defer cancel()
	began := time.Now()
	count, err := queues.Count(ctx, d.Queue+queue.PoisonSuffix)
	if err == nil {
		d.counted(began, count)
	}
	return count, err
}

// Problems returns that there are dead letters.
func (d *LetterCount) Problems() []instances.Problem {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.count == 0 {
		return nil
	}
	what := fmt.Sprintf("Dead letters in queue %s: %d.", d.Queue+queue.PoisonSuffix, d.count)
	if d.reason != "" {
		what += fmt.Sprintf(" The last reason that this process knows: %s.", d.reason)
	}
	return []instances.Problem{{Code: instances.DeadLetters, Subject: d.Queue, What: what, Since: d.since, Count: d.count}}
}

// samplable is a client for queues.
type samplable interface {
	queue.Counter
	queue.Peeker
}

// SampleQueue returns the depth of a queue and of its dead letters, with three
// requests at once. Storage does not return which invisible messages are leased
// and which are delayed: all count as InFlight. It returns 32 visible messages
// at most: if there are more, all messages count as Ready.
func SampleQueue(ctx context.Context, queues samplable, dead *LetterCount) (instances.QueueSample, error) {
	name := dead.Queue
	ctx, cancel := context.WithTimeout(ctx, SampleTimeout)
	defer cancel()
	began := time.Now()
	var (
		all, poison     int64
		front           []queue.Message
		err1, err2, err error
		requests        sync.WaitGroup
	)
	requests.Go(func() { all, err1 = queues.Count(ctx, name) })
	requests.Go(func() { front, err2 = queues.Peek(ctx, name, queue.MaxReceive) })
	requests.Go(func() { poison, err = dead.CountNow(ctx, queues) })
	requests.Wait()
	if err = errors.Join(err1, err2, err); err != nil {
		return instances.QueueSample{}, fmt.Errorf("sample queue %s: %w", name, err)
	}
	return depth(began, all, front, poison), nil
}

// depth returns the sample from what the requests returned that began at a
// time.
func depth(began time.Time, all int64, front []queue.Message, poison int64) instances.QueueSample {
	sample := instances.QueueSample{At: began.UTC(), Ready: int64(len(front)), Poison: poison}
	if len(front) == queue.MaxReceive {
		sample.Ready = max(sample.Ready, all)
	}
	sample.InFlight = max(0, all-sample.Ready)
	for _, m := range front {
		sample.OldestSeconds = max(sample.OldestSeconds, began.Sub(m.Inserted).Seconds())
	}
	return sample
}

// SampleCheaply is sampleQueue with one request for a queue that is empty and has
// no dead letters.
func SampleCheaply(ctx context.Context, queues samplable, dead *LetterCount, hasLetters bool) (sample instances.QueueSample, err error) {
	began := time.Now()
	all, err := queues.Count(ctx, dead.Queue)
	var front []queue.Message
	if err == nil && all > 0 {
		front, err = queues.Peek(ctx, dead.Queue, queue.MaxReceive)
	}
	var poison int64
	if err == nil && hasLetters {
		poison, err = dead.CountNow(ctx, queues)
	}
	return depth(began, all, front, poison), err
}

// SampleAll samples the queues of all sources at once, and publishes what it
// could sample.
func (m *Members) SampleAll(ctx context.Context) (map[string]instances.QueueSample, error) {
	var (
		mu       sync.Mutex
		all      = make(map[string]instances.QueueSample) // guarded by mu
		failed   error                                    // guarded by mu
		sampling sync.WaitGroup
	)
	for s := range m.sampled() {
		sampling.Go(func() {
			samples, err := s.Sample(ctx)
			mu.Lock()
			defer mu.Unlock()
			failed = errors.Join(failed, err)
			if err == nil {
				m.Publish(samples)
				maps.Copy(all, samples)
			}
		})
	}
	sampling.Wait()
	return all, failed
}

// sampled returns the sources with queues.
func (m *Members) sampled() iter.Seq[sampled] {
	return func(yield func(sampled) bool) {
		for _, s := range m.sources {
			if queues, ok := s.(sampled); ok && !yield(queues) {
				return
			}
		}
	}
}

// Wake signals waiting work in a queue.
func (m *Members) Wake(queue string) {
	for s := range m.sampled() {
		s.Wake(queue)
	}
}

// LetterCount returns what this process knows of the dead letters of a queue,
// nil for nothing.
func (m *Members) LetterCount(queue string) *LetterCount {
	for s := range m.sampled() {
		if known := s.LetterCounts()[queue]; known != nil {
			return known
		}
	}
	return nil
}
