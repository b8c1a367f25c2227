package queues

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"kennel/internal/attempt"
	"kennel/internal/program"
	"kennel/queue"
)

// fate is what becomes of a delivery.
type fate int

const (
	fateDone  fate = iota // delete the message
	fateAgain             // put it back, with the text and after the wait
	fateDead              // put it among the dead letters
)

// ending is how a delivery ends.
type ending struct {
	fate     fate
	attempts int           // that have failed, as the message has it from now on
	wait     time.Duration // of fateAgain
	err      error         // why; nil: no attempt has failed
	dying    string        // of fateAgain: why it becomes a dead letter next
}

// again returns the end of a delivery whose attempt has not begun: the message
// goes back as it is, after a wait.
func (d *delivery) again(wait time.Duration, err error) ending {
	if d.envelope.Reason != "" {
		return ending{fate: fateAgain, attempts: d.envelope.Attempts, wait: wait, err: err, dying: d.envelope.Reason}
	}
	return ending{fate: fateAgain, attempts: d.number - 1, wait: wait, err: err}
}

// dying returns the end of a message that has no attempt left, and in how many
// deliveries its last word has begun, this one included.
func (d *delivery) dying() (end ending, words int, ok bool) {
	switch e, last := d.envelope, d.own.MaxAttempts; {
	case e.Reason != "":
		return ending{fate: fateDead, attempts: e.Attempts, err: errors.New(e.Reason)}, d.number - e.Attempts, true
	case d.number > last:
		return ending{fate: fateDead, attempts: last, err: errKilled}, d.number - last, true
	}
	return ending{}, 0, false
}

// unrecorded is how many deliveries a worker forgives that ended without a
// record: it receives more messages than it works on, and a kill ends them all.
const unrecorded = 4

// numberOf returns the number of the attempt that a delivery is: after the failed
// ones in the message, and the deliveries since, which ended with their process.
func numberOf(e queue.Envelope, deliveries int64, hosted bool) int {
	since := deliveries - e.Seen
	if !hosted {
		since = max(1, since-unrecorded)
	}
	return e.Attempts + int(max(1, since))
}

// errKilled is the reason of a message whose last attempt ended its process.
var errKilled = errors.New("its last attempt did not end: the process was killed or crashed")

// judge returns how the delivery of a message ends after an attempt.
func (q *Queues) judge(ctx context.Context, declared *program.Queue, a attempt.Attempt, v attempt.Verdict) ending {
	number := a.Number
	last := number >= declared.MaxAttempts
	switch v.Outcome {
	case attempt.Done:
		return ending{fate: fateDone}
	case attempt.PutBack:
		return ending{fate: fateAgain, attempts: number - 1}
	case attempt.Snoozed:
		return ending{fate: fateAgain, attempts: number - 1, wait: storable(v.Wait)}
	case attempt.Rejected:
		return ending{fate: fateDead, attempts: number, err: errors.New(v.Reason())}
	}
	if last {
		return ending{fate: fateDead, attempts: number, err: errors.New(v.Reason())}
	}
	wait := v.Wait
	if v.Outcome != attempt.RetriedLater {
		wait = attempt.WaitOrDefault(ctx, q.opt.Log, a, declared.Retry, v.Err)
	}
	return ending{fate: fateAgain, attempts: number, wait: storable(wait), err: errors.New(v.Reason())}
}

// storable returns a wait, or the longest one for which storage keeps a message
// back: with a longer one it would refuse the next attempt.
func storable(wait time.Duration) time.Duration { return min(wait, MaxDelay) }

// The waits of messages that this process cannot work on, and another may.
const (
	firstForeign = 10 * time.Second
	maxForeign   = 5 * time.Minute
)

// foreign returns the end of a delivery that this process cannot work on: no
// attempt, and again after a wait, within the limits.
func foreign(d *delivery, wait time.Duration, why error) ending {
	wait = min(max(wait, firstForeign), maxForeign)
	return d.again(wait/2+rand.N(wait/2), fmt.Errorf("not worked on here: %w", why))
}
