package scale

import (
	"cmp"
	"fmt"
	"time"
)

// maxPeek is how many messages a peek returns at most.
const maxPeek = 32

// maxNumber is more than any number of a sample can be.
const maxNumber = 1e12

// defaultTarget replaces a latency target that is not positive.
const defaultTarget = 15 * time.Minute

// Reading is the state of the queues and of the worker's instances at one time,
// as the caller read it.
type Reading struct {
	At            time.Time     // by the store's clock
	LatencyTarget time.Duration // from the submission of work until it is done
	Instances     int           // that run
	Hands         int           // of each instance, for all queues together; 0: unknown
	Samples       []Sample      // of each queue that exists
}

// Sample is a queue at one time. The instances measure rates and durations,
// each by its own clock, so that wrong clocks do not matter.
type Sample struct {
	Queue string

	// Ready is how many messages may be received now. Below 32 it is the result
	// of a peek, and so exact. From 32 on, the peek was full, and the number
	// follows from the approximate count; it may include messages in flight.
	// InFlight and Delayed always follow from the count.
	Ready, InFlight, Delayed int64
	OldestSeconds            float64 // age of the oldest message that is ready
	Held                     bool    // a closed gate holds the messages: they are not late

	CompletionsPerSecond float64 // of all instances together
	ResponseSeconds      float64 // for which a message keeps a hand, as a mean; 0 if none was completed
	Working              int64   // messages that hands work on now
	CPU                  float64 // share of the processors, as a mean of the instances; 0: unknown
	P95LatencySeconds    float64 // from the submission until it was done; 0: unknown
}

// fault returns which number of the sample is impossible, or "".
func (s *Sample) fault() string {
	for _, n := range []struct {
		name  string
		value float64
	}{
		{"ready", float64(s.Ready)}, {"inFlight", float64(s.InFlight)}, {"delayed", float64(s.Delayed)}, {"oldestSeconds", s.OldestSeconds},
		{"completionsPerSecond", s.CompletionsPerSecond}, {"responseSeconds", s.ResponseSeconds}, {"working", float64(s.Working)},
		{"cpu", s.CPU}, {"p95LatencySeconds", s.P95LatencySeconds},
	} {
		if !(n.value >= 0 && n.value <= maxNumber) { // NaN is neither
			return fmt.Sprintf("%s is %v", n.name, n.value)
		}
	}
	return ""
}

// full reports whether there are more messages than a peek returns.
func (s *Sample) full() bool { return s.Ready >= maxPeek }

// all returns the approximate count.
func (s *Sample) all() float64 { return float64(s.Ready) + float64(s.InFlight) + float64(s.Delayed) }

// depth is how many messages are there to be worked on. Leased messages count
// only if a hand works on them: the others are stale counts or delayed messages.
func (s *Sample) depth() float64 { return float64(s.Ready) + float64(min(s.InFlight, s.Working)) }

// sane replaces impossible numbers.
func (r Reading) sane() Reading {
	r.LatencyTarget = cmp.Or(max(r.LatencyTarget, 0), defaultTarget)
	r.Instances, r.Hands = min(max(r.Instances, 0), maxInstances), min(max(r.Hands, 0), maxHands)
	return r
}
