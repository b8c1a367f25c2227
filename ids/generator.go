package ids

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// Errors of a Generator, besides ErrCorrupt and ErrExhausted.
var (
	// ErrClosed reports that the generator is closed.
	ErrClosed = errors.New("the generator is closed")

	// ErrUnavailable reports that the store reserved no numbers within
	// Options.MaxWait. A later call may succeed.
	ErrUnavailable = errors.New("the store did not reserve numbers in time")
)

// callTimeout bounds each request to the store by default.
const callTimeout = 5 * time.Second

// maxRange bounds the size of a range, far from where sums overflow.
const maxRange = 1 << 40

// Options adjusts a Generator. Nil and zero fields mean the defaults.
type Options struct {
	// First is the first number of a sequence that does not exist yet. Default
	// 1.
	First int64

	// Last is the last number of the sequence. Default MaxExact.
	Last int64

	// RangeSize is the smallest range that is reserved, and the first one. While
	// ranges are used up faster than in RangeLasts, each is up to four times as
	// large as the last one. Default 10.
	RangeSize int64

	// MaxRangeSize is the largest range that is reserved ahead, whatever the
	// demand. A reservation may be up to twice as large if callers are waiting. A
	// kill loses at most two ranges and the numbers that its callers wait for.
	// Default 1,000,000, or RangeSize if that is larger.
	MaxRangeSize int64

	// RangeLasts is how long a range should serve the measured demand. The next
	// range is reserved when half of that time is left. Callers therefore do
	// not notice a storage outage of up to half of it. Default 60 s.
	RangeLasts time.Duration

	// CallTimeout bounds each request to the store. Default 5 s.
	CallTimeout time.Duration

	// Reported returns the reports of other processes on all sequences:
	// Writer, Serial, From, End and Used of their Stats, which they wrote within the last
	// day. A generator reads it at its first reservation, after it was not used
	// for a while, and where the stored history does not reach back far enough.
	// If it fails, the reservation goes on. Nil: other processes are not known.
	Reported func(ctx context.Context) (map[string][]Reported, error)

	// MaxWait bounds the time that a call waits for the store, even if its
	// context lasts longer. By default only the context bounds it.
	MaxWait time.Duration
}

func (o *Options) withDefaults() (Options, error) {
	var opt Options
	if o != nil {
		opt = *o
	}
	opt.First = cmp.Or(opt.First, 1)
	opt.Last = cmp.Or(opt.Last, MaxExact)
	opt.RangeSize = cmp.Or(opt.RangeSize, 10)
	opt.MaxRangeSize = cmp.Or(opt.MaxRangeSize, max(1_000_000, opt.RangeSize))
	opt.RangeLasts = cmp.Or(opt.RangeLasts, time.Minute)
	opt.CallTimeout = cmp.Or(opt.CallTimeout, callTimeout)
	switch {
	case opt.First < 0:
		return opt, fmt.Errorf("ids.Options.First is %d: use a number that is not negative", opt.First)
	case opt.Last < opt.First || opt.Last >= maxNext:
		return opt, fmt.Errorf("ids.Options.Last is %d: use a number from First (%d) to %d", opt.Last, opt.First, int64(maxNext-1))
	case opt.RangeSize < 0 || opt.RangeSize > maxRange:
		return opt, fmt.Errorf("ids.Options.RangeSize is %d: use 1 to %d", opt.RangeSize, int64(maxRange))
	case opt.MaxRangeSize < opt.RangeSize || opt.MaxRangeSize > maxRange:
		return opt, fmt.Errorf("ids.Options.MaxRangeSize is %d: use RangeSize (%d) to %d", opt.MaxRangeSize, opt.RangeSize, int64(maxRange))
	case opt.RangeLasts < 0:
		return opt, fmt.Errorf("ids.Options.RangeLasts is %v: use a positive duration", opt.RangeLasts)
	case opt.CallTimeout < 0:
		return opt, fmt.Errorf("ids.Options.CallTimeout is %v: use a positive duration", opt.CallTimeout)
	case opt.MaxWait < 0:
		return opt, fmt.Errorf("ids.Options.MaxWait is %v: use a positive duration", opt.MaxWait)
	}
	return opt, nil
}

// Generator issues the numbers of one sequence. Its methods may be called
// concurrently.
type Generator struct {
	word atomic.Int64 // the open window; mu is held to open or shut it

	store    Store
	sequence string
	opt      Options
	jitter   func(bound time.Duration) time.Duration // a random wait below bound
	counts   counts
	reports  *reports // nil: other processes are not known

	stop  chan struct{}  // closed by Close: no new waits, no new reservations
	abort func()         // ends the request in flight; set while a filler runs
	fills sync.WaitGroup // the running filler, at most one

	claim    claim     // owned by the filler while one runs, else by Close
	copied   string    // the version of the last copy that was found; like claim
	copiedAt time.Time // when it was found

	mu         sync.Mutex
	closed     bool
	stopping   bool // calls that would wait fail
	filling    bool
	low        bool     // too few numbers are available
	usedUp     bool     // no number of the sequence is left to reserve
	opened     int64    // size of the open window when it was opened
	openedLast int64    // its last number
	ready      []Range  // reserved, in order, after the open window
	leases     []*lease // of the callers that wait, in order
	round      *round   // ends the current waits
	waiting    int      // callers that wait
	called     bool     // a caller needed the lock since the filler last looked
	pace       pace
	nextSize   int64 // of the range being reserved, without the numbers that callers wait for

	issued    int64 // without those from the open window
	reserved  int64
	lost      int64
	returned  int64
	takenBack int64
	waits     int64
	highest   int64 // the highest number reserved, and not returned
	place     place // the newest write
	lastUsed  int64 // the highest number issued; what callers give back does not lower it
	era       int64 // see currentEra

	lastError    error // of the store, since the last success
	lastErrorAt  time.Time
	problem      error     // why no numbers can be reserved; nil after a reservation
	unusable     *Unusable // why the stored number cannot be used; nil if it can, as far as this node knows
	lookedAt     time.Time // when the store last confirmed a write of this generator
	refusedUntil time.Time // the store refused a request: callers do not wait until then
}

// counts are the requests made to the store.
type counts struct {
	loads, writes, conflicts, failures atomic.Int64
}

// round is one reservation that any number of callers wait for.
type round struct {
	done chan struct{}
	err  error // set before done is closed: why the callers fail
}

// lease is a caller that waits for n consecutive numbers.
type lease struct {
	n    int64
	got  Range
	err  error
	done bool
}

// wake makes all waiting callers try again, or fail with err.
func (g *Generator) wake(err error) {
	g.round.err = err
	close(g.round.done)
	g.round = &round{done: make(chan struct{})}
}
