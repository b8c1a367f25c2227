package cost

import "math"

// Messages is messages that are put, received and deleted.
type Messages struct {
	Messages   float64
	PerReceive float64 // messages of a receive, as measured; up to 32
}

// Lines returns the requests, which count for a job.
func (m Messages) Lines(job string) []Line {
	t := tally{job: job}
	t.add("queue", "put", m.Messages)
	t.add("queue", "receive", m.Messages/m.PerReceive)
	t.add("queue", "delete", m.Messages)
	return t.lines
}

// The requests of a listener of package queue for a queue that is idle, deep,
// or signalled although it is empty.
const (
	safetyMinutes = 11.0 // between two checks of a queue that signals announce, on average
	idleShare     = 0.9  // of the maximum interval of polling one without signals, on average
	heldSeconds   = 4.5  // up to this interval no count shows that other workers hold messages
	leaseSeconds  = 30.0 // of a message, in which one such count is made
	deepSeconds   = 5.0  // between two counts of a deep queue
	wakeReceives  = 6.0  // after a signal of a message that another process deleted
	wakeCounts    = 2.0  // … and counts
)

const hourSeconds = 3600.0

// Idle returns the requests of a listener to one idle queue in an hour. With
// push, signals announce messages; without it, the queue is polled at least
// every idlePoll seconds.
func Idle(job string, push bool, idlePoll float64) []Line {
	t := tally{job: job}
	if push {
		t.add("queue", emptyReceive, 60/safetyMinutes)
		t.add("queue", "head", 60/safetyMinutes)
	} else {
		interval := idleShare * idlePoll
		t.add("queue", emptyReceive, hourSeconds/interval)
		if idlePoll > heldSeconds {
			t.add("queue", "head", hourSeconds/(interval*max(1, math.Floor(leaseSeconds/interval))))
		}
	}
	return t.lines
}

// Wake returns the requests of a listener that a signal wakes, and that finds
// no message.
func Wake(job string) []Line {
	t := tally{job: job}
	t.add("queue", emptyReceive, wakeReceives)
	t.add("queue", "head", wakeCounts)
	return t.lines
}

// deepQueue returns the requests in an hour by which a listener counts a deep queue.
func deepQueue(job string) []Line {
	t := tally{job: job}
	t.add("queue", "head", hourSeconds/deepSeconds)
	return t.lines
}
