package memory

import (
	"context"
	"sync"
	"time"
)

// Call names one request to a store.
type Call struct {
	N   int64  // counts from 1 in each store, in the order of sending
	Op  string // the method's name, such as "Load" or "Replace"
	Key string // the sequence or queue concerned
}

// Fate is what becomes of a request. The zero Fate is an undisturbed one that
// takes no time.
type Fate struct {
	Delay time.Duration // until the store sees the request
	Back  time.Duration // from the store's doing until the caller hears of it

	// Err is what the caller is told instead of the truth; nil is the truth.
	// A request with an Err is carried out nevertheless, unless it is Lost.
	Err error

	// Lost requests never reach the store. Without an Err nobody tells the
	// caller, who waits until its ctx ends.
	Lost bool

	// After, with Err and not Lost, makes a straggler: the caller hears Err
	// first, and the store carries the request out this much later.
	After time.Duration
}

// Options are the optional parts of a store; nil and zero mean none.
type Options struct {
	// Fate decides what becomes of each request. It is called once per
	// request, concurrently. Nil: nothing ever goes wrong.
	Fate func(Call) Fate

	// Police is told of every request that no correct caller makes, even if
	// the store could carry it out. It is called concurrently and must not
	// call the store. Nil: nobody looks.
	Police func(problem string)

	// ShuffleSeed makes Queues deliver in a random order, the same for the
	// same seed and requests. 0: in the order of becoming visible.
	ShuffleSeed uint64
}

// RefuseNth loses the n-th request and tells its caller err: the write is not
// done, and the caller cannot know.
func RefuseNth(n int64, err error) func(Call) Fate {
	return func(c Call) Fate {
		if c.N == n {
			return Fate{Err: err, Lost: true}
		}
		return Fate{}
	}
}

// LoseReplyNth carries the n-th request out and tells its caller err: the
// write is done, and the caller cannot know.
func LoseReplyNth(n int64, err error) func(Call) Fate {
	return func(c Call) Fate {
		if c.N == n {
			return Fate{Err: err}
		}
		return Fate{}
	}
}

// wire is the way from the callers to one store. Its mutex is the store's too.
type wire struct {
	fate   func(Call) Fate
	police func(string)

	late sync.WaitGroup // requests that go on without their caller

	mu    sync.Mutex
	calls int64            // guarded by mu
	byOp  map[string]int64 // guarded by mu
}

func newWire(o *Options) wire {
	if o == nil {
		o = &Options{}
	}
	return wire{fate: o.Fate, police: o.Police, byOp: make(map[string]int64)}
}

// Calls returns how many requests were sent so far, the lost ones included.
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

// Wait returns when no request is on its way any more without its caller.
// Call it when nobody sends: in a synctest bubble, before the test returns.
func (w *wire) Wait() { w.late.Wait() }

// send carries one request to the store, runs do there with w.mu held and
// brings the answer back. A caller whose ctx ends hears so at once; its
// request is not called back by that.
func send[T any](ctx context.Context, w *wire, op, key string, do func() (T, error)) (T, error) {
	var none T
	if err := ctx.Err(); err != nil {
		return none, err // nothing was sent
	}
	if w.police != nil {
		if _, ok := ctx.Deadline(); !ok {
			w.police(op + " of " + key + " has no deadline")
		}
	}

	w.mu.Lock()
	w.calls++
	w.byOp[op]++
	call := Call{N: w.calls, Op: op, Key: key}
	if w.fate == nil {
		defer w.mu.Unlock()
		return do()
	}
	w.mu.Unlock()

	serve := func() (T, error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		return do()
	}
	fate := w.fate(call)
	sent := time.Now()
	if err := pause(ctx, fate.Delay); err != nil {
		if !fate.Lost {
			w.later(fate.Delay-time.Since(sent)+fate.After, func() { serve() })
		}
		return none, err
	}
	var answer T
	var err error
	switch {
	case fate.Lost && fate.Err == nil:
		<-ctx.Done() // no answer will ever come
		return none, ctx.Err()
	case fate.Lost:
	case fate.Err != nil && fate.After > 0:
		w.later(fate.Back+fate.After, func() { serve() })
	default:
		answer, err = serve()
	}
	if gone := pause(ctx, fate.Back); gone != nil {
		return none, gone
	}
	if fate.Err != nil {
		return none, fate.Err
	}
	return answer, err
}

// later runs serve after d without anybody waiting for the answer.
func (w *wire) later(d time.Duration, serve func()) {
	w.late.Go(func() {
		time.Sleep(d)
		serve()
	})
}

// pause waits for d or until ctx ends, and then returns its error.
func pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
