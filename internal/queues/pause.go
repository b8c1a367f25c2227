package queues

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"kennel/internal/control"
	"kennel/internal/instances"
	"kennel/internal/observe"
)

// The waits of messages of a paused queue that were received. They grow with the
// age of the pause, because behind a host each put makes a new message, which
// has no memory of the others.
const (
	firstHeld = 10 * time.Second
	maxHeld   = 10 * time.Minute
)

// held returns the end of a delivery of a paused queue: no attempt, and again
// after a wait.
func (d *delivery) held(p *control.Pause) ending { return d.again(heldFor(time.Since(p.At)), nil) }

// heldFor returns the wait in a pause of this age: half of it, within the limits.
// Then most of what waits when the queue is resumed comes back within half of the
// time for which it was paused.
func heldFor(age time.Duration) time.Duration {
	wait := min(max(age/2, firstHeld), maxHeld)
	return wait/2 + rand.N(wait/2)
}

// isHeld reports whether all queues of a storage queue are paused on which the
// program works. Of one to which it only sends, all must be paused.
func (q *Queues) isHeld(storageQueue string, pauses map[string]*control.Pause) bool {
	works := slices.Contains(q.working, storageQueue)
	for _, o := range q.storage[storageQueue] {
		if (o.Handled > 0 || !works) && pauses[o.Name] == nil {
			return false
		}
	}
	return true
}

// admit implements [queue.ListenerOptions.Admit].
func (q *Queues) admit(storageQueue string) (admitted bool, changed <-chan struct{}) {
	pauses, changed := q.opt.Pauses.Known()
	return !q.isHeld(storageQueue, pauses), changed
}

// markHeld marks the samples of paused queues, whose messages are not late. It
// reads the pauses only if messages wait.
func (q *Queues) markHeld(ctx context.Context, samples map[string]instances.QueueSample) {
	for name, sample := range samples {
		if sample.Ready == 0 {
			continue
		}
		q.opt.Pauses.Refresh(ctx)
		pauses, _ := q.opt.Pauses.Known()
		sample.Held = q.isHeld(name, pauses)
		samples[name] = sample
	}
}

// whyHeld returns a sentence that names a pause of a storage queue, "" without
// one.
func (q *Queues) whyHeld(storageQueue string) string {
	for _, o := range q.storage[storageQueue] {
		if p := q.opt.Pauses.Of(o.Name); p != nil {
			return fmt.Sprintf(" The queue %s is paused since %s.", o.Name, p.At.Format(time.RFC3339))
		}
	}
	return ""
}

// Describe implements a source of the status.
func (q *Queues) Describe(ctx context.Context, answer *observe.Status) {
	q.opt.Pauses.Refresh(ctx)
	answer.Paused, _ = q.opt.Pauses.Known()
}
