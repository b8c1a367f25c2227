package observe

import (
	"fmt"
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

// Problems returns that there are dead letters.
func (d *LetterCount) Problems() []instances.Problem {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.count == 0 {
		return nil
	}
	what := fmt.Sprintf("Dead letters in queue %s: %d.", d.Queue+queue.PoisonSuffix, d.count)
	if d.reason != "" {
		what += fmt.Sprintf(" The last reason that this process knows: %s.", instances.OneLine(d.reason))
	}
	return []instances.Problem{{Code: instances.DeadLetters, Subject: d.Queue, What: what, Since: d.since, Count: d.count}}
}
