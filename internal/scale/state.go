package scale

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"
)

const (
	// formatOfState is the version of the stored state.
	formatOfState = 1

	// maxChanges is how many changes there are in an hour at most. The last of
	// them are kept for a backlog that would be late.
	maxChanges = 6
	maxOthers  = 4

	// memory is how far back the smoothed values reach.
	memory = 5 * time.Minute

	// maxGap is the time between two readings beyond which their difference means
	// nothing.
	maxGap = 2 * memory
)

// State is the memory of Advise from one reading to the next. The zero State
// remembers nothing. Its JSON form has a few hundred bytes for each queue.
type State struct {
	kept kept
}

// kept is the JSON form of a State. A member that is renamed or removed needs a
// new format.
type kept struct {
	Version   int             `json:"version"`
	At        time.Time       `json:"at"`        // of the last reading
	Instances int             `json:"instances"` // as advised
	Running   int             `json:"running"`
	Hands     int             `json:"hands"`   // of an instance
	Shown     float64         `json:"shown"`   // hands at work in an instance while the queues were full; 0: unknown
	Needed    []needed        `json:"needed"`  // within the last cool-down, the oldest first
	Changes   []change        `json:"changes"` // within the last hour, the oldest first
	Queues    map[string]seen `json:"queues"`
}

// needed is how many instances were enough at a time.
type needed struct {
	At        time.Time `json:"at"`
	Instances int       `json:"n"`
}

// change is a change of the advised instances.
type change struct {
	At time.Time `json:"at"`
	By int       `json:"by"`
}

// seen is the part of the state about a queue.
type seen struct {
	All      float64   `json:"all"`      // its approximate count
	Full     bool      `json:"full"`     // the peek was full
	Arrivals float64   `json:"arrivals"` // per second, smoothed; an error of the count can make it negative
	Seconds  float64   `json:"seconds"`  // for which a message keeps a hand, smoothed; 0: unknown
	Moved    time.Time `json:"moved"`    // when it last completed a message, or had none that waited
}

// MarshalJSON returns the state for storage.
func (s State) MarshalJSON() ([]byte, error) {
	s.kept.Version = formatOfState
	return json.Marshal(s.kept)
}

// UnmarshalJSON reads a stored state. After an error, use the zero State.
func (s *State) UnmarshalJSON(text []byte) error {
	var k kept
	if err := json.Unmarshal(text, &k); err != nil {
		return fmt.Errorf("the stored state of scaling cannot be read: %w", err)
	}
	if k.Version != formatOfState {
		return fmt.Errorf("the stored state of scaling has version %d; this program reads version %d", k.Version, formatOfState)
	}
	valid := k.Instances >= 0 && k.Running >= 0 && k.Hands >= 0 && k.Shown >= 0
	for _, q := range k.Queues {
		valid = valid && q.All >= 0 && q.Seconds >= 0
	}
	if !valid {
		return errors.New("the stored state of scaling has a negative number")
	}
	*s = State{k}
	return nil
}

// since returns a copy of the state without the parts that are too old at a
// time. A state from the future came from another clock; since ignores it.
func (k kept) since(at time.Time) kept {
	if k.At.Sub(at) > memory {
		return kept{}
	}
	k.Needed = slices.Clone(k.Needed)
	if at.Sub(k.At) > maxGap {
		k.Needed = nil // what happened since then is unknown
		queues := make(map[string]seen, len(k.Queues))
		for name, q := range k.Queues {
			queues[name] = seen{Seconds: q.Seconds}
		}
		k.Queues = queues
	}
	k.Changes = slices.DeleteFunc(slices.Clone(k.Changes), func(c change) bool { return at.Sub(c.At) >= time.Hour })
	return k
}

// most returns the maximum that was needed within a time, and removes older
// entries. It reports whether the readings reach back as far.
func (k *kept) most(now time.Time, within time.Duration) (n int, whole bool) {
	for len(k.Needed) > 1 && now.Sub(k.Needed[1].At) >= within {
		k.Needed = k.Needed[1:]
	}
	for _, before := range k.Needed {
		n = max(n, before.Instances)
	}
	return n, len(k.Needed) > 0 && now.Sub(k.Needed[0].At) >= within
}

// lastOf returns when the instances were last changed in a direction.
func (k *kept) lastOf(up bool) (at time.Time) {
	for _, c := range k.Changes {
		if c.By > 0 == up {
			at = c.At
		}
	}
	return at
}

// lastChange returns when the instances were last changed.
func (k *kept) lastChange() (at time.Time) {
	if n := len(k.Changes); n > 0 {
		at = k.Changes[n-1].At
	}
	return at
}

// smooth moves an old value towards a new one, by how much time passed.
func smooth(old, now float64, passed time.Duration) float64 {
	return old + (now-old)*(1-math.Exp(-passed.Seconds()/memory.Seconds()))
}
