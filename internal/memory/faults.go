package memory

import (
	"context"
	"sync"
	"time"

	"kennel/internal/table"
)

// Call names one request to a store.
type Call struct {
	N   int64  // counts from 1 in each store, in the order of sending
	Op  string // the method's name, such as "Load" or "Replace"
	Key string // the sequence, gate, partition or queue
}

// Fault is the fault of one request. With the zero Fault the request succeeds
// and takes no time.
type Fault struct {
	Delay time.Duration // until the store receives the request
	Back  time.Duration // from its execution until the caller receives the reply

	// Err is returned to the caller instead of the result; nil returns the
	// result. A request with an Err is still executed, unless it is Lost.
	Err error

	// Lost requests never reach the store. Without an Err, the caller waits
	// until its ctx ends.
	Lost bool

	// After, with Err and without Lost, delays the execution by this time after
	// the caller has received Err.
	After time.Duration
}

// Options are the options of a store; nil and zero mean none.
type Options struct {
	// Fault returns the fault of a request. It is called once per request,
	// concurrently. Nil: no faults.
	Fault func(Call) Fault

	// OnMisuse is called for every request that a correct caller never sends,
	// even if the store can execute it. It is called concurrently and must not
	// call the store. Nil: no checks.
	OnMisuse func(problem string)

	// ShuffleSeed makes Queues deliver in a random order, which depends only on
	// the seed and the requests. 0: in the order of becoming visible.
	ShuffleSeed uint64

	// Endless makes messages never expire.
	Endless bool

	// CountLag makes Queues.Count return the count of that long ago.
	CountLag time.Duration
}

// RefuseNth loses the n-th request and returns err to its caller: the write has
// no effect, and the caller cannot know that.
func RefuseNth(n int64, err error) func(Call) Fault {
	return func(c Call) Fault {
		if c.N == n {
			return Fault{Err: err, Lost: true}
		}
		return Fault{}
	}
}

// LoseReplyNth executes the n-th request and returns err to its caller: the
// write takes effect, and the caller cannot know that.
func LoseReplyNth(n int64, err error) func(Call) Fault {
	return func(c Call) Fault {
		if c.N == n {
			return Fault{Err: err}
		}
		return Fault{}
	}
}

// wire is the network between the callers and one store. Its mutex also guards
// the store.
type wire struct {
	fault  func(Call) Fault
	misuse func(string) // nil: no checks

	late sync.WaitGroup // requests that continue without their caller

	mu    sync.Mutex
	calls int64            // guarded by mu
	byOp  map[string]int64 // guarded by mu
}

func newWire(o *Options) wire {
	if o == nil {
		o = &Options{}
	}
	return wire{fault: o.Fault, misuse: o.OnMisuse, byOp: make(map[string]int64)}
}

// Calls returns how many requests were sent so far, including lost ones.
func (w *wire) Calls() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.calls
}

// CallsOf returns how many requests of one kind were sent so far.
func (w *wire) CallsOf(op string) int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.byOp[op]
}

// Wait waits for the requests that continue without their caller. Call it when
// no more requests are sent: in a synctest bubble, before the test returns.
func (w *wire) Wait() { w.late.Wait() }

// send sends one request to the store, runs do there with w.mu held, and
// returns the reply. It returns as soon as ctx ends, but the request is not
// cancelled.
func send[T any](ctx context.Context, w *wire, op, key string, do func() (T, error)) (T, error) {
	var none T
	if err := ctx.Err(); err != nil {
		return none, err // nothing was sent
	}
	if w.misuse != nil {
		if _, ok := ctx.Deadline(); !ok {
			w.misuse(op + " of " + key + " has no deadline")
		}
	}

	w.mu.Lock()
	w.calls++
	w.byOp[op]++
	call := Call{N: w.calls, Op: op, Key: key}
	if w.fault == nil {
		defer w.mu.Unlock()
		return do()
	}
	w.mu.Unlock()

	serve := func() (T, error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		return do()
	}
	fault := w.fault(call)
	sent := time.Now()
	if err := pause(ctx, fault.Delay); err != nil {
		if !fault.Lost {
			w.later(fault.Delay-time.Since(sent)+fault.After, func() { serve() })
		}
		return none, err
	}
	var answer T
	var err error
	switch {
	case fault.Lost && fault.Err == nil:
		<-ctx.Done() // there is no reply
		return none, ctx.Err()
	case fault.Lost:
	case fault.Err != nil && fault.After > 0:
		w.later(fault.Back+fault.After, func() { serve() })
	default:
		answer, err = serve()
	}
	if err := pause(ctx, fault.Back); err != nil {
		return none, err
	}
	if fault.Err != nil {
		return none, fault.Err
	}
	return answer, err
}

// later runs serve after d, without a caller that waits for the reply.
func (w *wire) later(d time.Duration, serve func()) {
	w.late.Go(func() {
		time.Sleep(d)
		serve()
	})
}

// pause waits for d. If ctx ends first, pause returns its error.
func pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	return table.Pause(ctx, d)
}
