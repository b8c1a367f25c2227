package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"kennel/internal/instances"
	"kennel/internal/names"
	"kennel/queue"
)

const (
	// maxDeliveries is how often the host delivers a message before it moves it
	// to the dead letters: maxDequeueCount in host.json. It is as often as a
	// worker receives one. The host counts deliveries to workers that were
	// killed too, and interrupted is not failed.
	maxDeliveries = 20

	// moveTimeout is how long the host takes at most to move a message after its
	// last delivery has failed.
	moveTimeout = 10 * time.Second

	// sampleTimeout limits the requests of a sample.
	sampleTimeout = 2 * time.Second

	// recountInterval is how often a process that knows of dead letters counts
	// them, so that it notices that another process removed them.
	recountInterval = 30 * time.Second
)

// letterCount is what this process knows of the dead letters of a queue.
type letterCount struct {
	queue string

	mu      sync.Mutex
	count   int64
	since   time.Time
	reason  string    // of the last one that this process met; "" if unknown
	settled time.Time // a sample that began before may lack a letter that this process knows of
}

// added counts a letter, which is in its queue at a time in the future at the
// latest.
func (d *letterCount) added(reason error, within time.Duration) {
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
func (d *letterCount) counted(began time.Time, count int64) {
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

// known reports whether there are dead letters, as far as this process knows.
func (d *letterCount) known() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.count > 0
}

// recount counts the letters of this process's queue while any are known, until
// ctx ends.
func (d *letterCount) recount(ctx context.Context, queues queue.Counter) {
	every(ctx, recountInterval, func() {
		if d.known() {
			d.countNow(ctx, queues) // an error is a problem of storage
		}
	})
}

// countNow counts the letters with one request.
func (d *letterCount) countNow(ctx context.Context, queues queue.Counter) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, sampleTimeout)
	defer cancel()
	began := time.Now()
	count, err := queues.Count(ctx, d.queue+queue.PoisonSuffix)
	if err == nil {
		d.counted(began, count)
	}
	return count, err
}

// problems returns that there are dead letters.
func (d *letterCount) problems() []instances.Problem {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.count == 0 {
		return nil
	}
	what := fmt.Sprintf("Dead letters in queue %s: %d.", d.queue+queue.PoisonSuffix, d.count)
	if d.reason != "" {
		what += fmt.Sprintf(" The last reason that this process knows: %s.", d.reason)
	}
	return []instances.Problem{{Code: instances.DeadLetters, Subject: d.queue, What: what, Since: d.since, Count: d.count}}
}

// samplable is a client for queues.
type samplable interface {
	queue.Counter
	queue.Peeker
}

// sampleQueue returns the depth of a queue and of its dead letters, with three
// requests at once. Storage does not return which invisible messages are leased
// and which are delayed: all count as InFlight. It returns 32 visible messages
// at most: if there are more, all messages count as Ready.
func sampleQueue(ctx context.Context, queues samplable, dead *letterCount) (instances.QueueSample, error) {
	name := dead.queue
	ctx, cancel := context.WithTimeout(ctx, sampleTimeout)
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
	requests.Go(func() { poison, err = dead.countNow(ctx, queues) })
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

// run counts the dead letters of channels while there are any, and sends the
// signals of messages.
func (c channelFunctions) run(ctx context.Context) error {
	var counting sync.WaitGroup
	defer counting.Wait()
	counting.Go(func() { c.letters.recount(ctx, c.queues) })
	return c.signals.Run(ctx)
}

// wake signals work in the queue of channels.
func (c channelFunctions) wake(queue string) {
	if queue == names.CleanupQueue {
		c.signals.Announce(queue)
	}
}

// sample samples the work queue of channels.
func (c channelFunctions) sample(ctx context.Context) (map[string]instances.QueueSample, error) {
	sample, err := sampleQueue(ctx, c.queues, c.letters)
	if err != nil {
		return nil, err
	}
	return map[string]instances.QueueSample{names.CleanupQueue: sample}, nil
}
