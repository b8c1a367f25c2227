package timers

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"kennel/internal/attempt"
	"kennel/internal/program"
	"kennel/internal/table"
	"kennel/internal/trace"
)

const (
	requestTimeout = 10 * time.Second
	firstPause     = time.Second // after a request without an answer; doubling to
	maxPause       = 15 * time.Second

	// maxRest bounds a rest, after which the clock is read again: it may have
	// been set, or the machine may have slept.
	maxRest = time.Minute

	// stopTimeout is how long a stop tries to record how attempts ended.
	stopTimeout = 15 * time.Second
)

// timer carries out the protocol of one timer. All fields but those guarded by
// mu are those of its loop.
type timer struct {
	*program.Timer
	all   *Timers
	zone  string
	wraps []func(attempt.Work) attempt.Work
	opt   Options
	claim claim
	wake  chan struct{}
	ended chan ending // of the attempt

	cancel context.CancelCauseFunc // of the attempt that runs
	guard  *time.Timer             // ends it with its lease
	pause  time.Duration           // after the next request without an answer
	reason string                  // of the problem; "": none

	mu    sync.Mutex
	must  bool            // a request to read the row was not taken; guarded by mu
	ticks []chan struct{} // closed when nothing is to be done; guarded by mu
}

// rouse ends a rest of the loop.
func (t *timer) rouse(must bool) {
	t.mu.Lock()
	t.must = t.must || must
	t.mu.Unlock()
	select {
	case t.wake <- struct{}{}:
	default: // it is woken already
	}
}

func (t *timer) run(ctx context.Context) {
	if t.opt.Ready(ctx) != nil {
		return // it ended before the program began
	}
	t.claim.since = attempt.Now(ctx)
	var ticks []chan struct{}
	if t.opt.Hosted && !t.idle(ctx, nil, &ticks) {
		return
	}
	var stopped <-chan time.Time // the stop has taken too long
	for {
		if t.claim.stopping = ctx.Err() != nil; t.claim.stopping {
			if !t.claim.running && t.claim.pending == nil && !t.claim.ours() {
				return
			}
			if stopped == nil {
				stopped = time.After(t.opt.Drain + stopTimeout)
				if cancel := t.cancel; cancel != nil { // of the last attempt: no other one begins
					drained := time.AfterFunc(t.opt.Drain, func() { cancel(attempt.ErrStopping) })
					defer drained.Stop()
				}
			}
		}
		select {
		case <-stopped:
			t.opt.Log.Warn("cannot record how the attempt of a timer ended; another process makes another one", "timer", t.Name)
			return
		default:
		}
		step := t.claim.next(attempt.Now(ctx))
		if t.claim.lost && t.cancel != nil {
			t.cancel(attempt.ErrLeaseLost)
			t.cancel = nil
			t.opt.Log.Warn("another process has taken the slot of a timer; the result of this attempt does not count", "timer", t.Name)
		}
		switch step.do {
		case read:
			t.read(ctx)
		case send:
			t.send(ctx)
		case begin:
			t.begin(ctx)
		case rest:
			if step.idle && t.opt.Hosted && !t.claim.stopping {
				if !t.idle(ctx, ticks, &ticks) {
					return
				}
				continue
			}
			t.rest(ctx, step.until.Sub(attempt.Now(ctx)), step.until.IsZero(), &ticks)
		}
	}
}

// idle waits for a tick, behind a host, and releases those before. It returns
// false if ctx ends first.
func (t *timer) idle(ctx context.Context, done []chan struct{}, next *[]chan struct{}) bool {
	for _, tick := range done {
		close(tick)
	}
	*next = nil
	select {
	case <-t.wake:
		t.woken(ctx, next)
		return true
	case <-ctx.Done():
		return false
	}
}

func (t *timer) woken(ctx context.Context, ticks *[]chan struct{}) {
	t.mu.Lock()
	must := t.must
	t.claim.ticked = t.claim.ticked || len(t.ticks) > 0
	*ticks = append(*ticks, t.ticks...)
	t.must, t.ticks = false, nil
	t.mu.Unlock()
	t.claim.woken(attempt.Now(ctx), must)
}

// rest waits for some time, or until something happens.
func (t *timer) rest(ctx context.Context, d time.Duration, forever bool, ticks *[]chan struct{}) {
	if forever || d > maxRest {
		d = maxRest
	}
	over := time.NewTimer(d)
	defer over.Stop()
	stop := ctx.Done()
	if t.claim.stopping {
		stop = nil
	}
	select {
	case <-over.C:
	case <-stop:
	case <-t.wake:
		t.woken(ctx, ticks)
	case end := <-t.ended:
		t.claim.finished = &end
	}
}

// request returns the context of a request.
func request(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), requestTimeout)
}

func (t *timer) read(ctx context.Context) {
	limited, cancel := request(ctx)
	defer cancel()
	sent := attempt.Now(ctx)
	stored, err := t.all.rows.Get(limited, partition, t.Name)
	var r row
	found := err == nil
	if errors.Is(err, table.ErrNotFound) {
		err = nil
	}
	if found {
		r, err = readRow(stored)
	}
	if !t.answered(ctx, err) {
		return
	}
	t.claim.loaded(r, stored.Version, found, sent, attempt.Now(ctx))
	t.know(ctx)
}

func (t *timer) send(ctx context.Context) {
	limited, cancel := request(ctx)
	defer cancel()
	p := t.claim.pending
	w := table.Write{Verb: table.Replace, Row: table.Row{Partition: partition, Key: t.Name, Values: p.next.values()}, If: p.old}
	if p.old == "" {
		w.Verb = table.Insert
	}
	versions, err := t.all.rows.Submit(limited, w)
	version := ""
	if err == nil {
		version = versions[0]
	}
	if !t.claim.wrote(version, err, attempt.Now(ctx)) {
		t.answered(ctx, err)
		return
	}
	t.pause = 0
	t.know(ctx)
}

// answered waits after a request without an answer, and returns false.
func (t *timer) answered(ctx context.Context, err error) bool {
	if err == nil {
		t.pause = 0
		return true
	}
	t.pause = min(max(firstPause, 2*t.pause), maxPause)
	t.opt.Log.WarnContext(ctx, "cannot read or write the row of a timer; trying again", "timer", t.Name, "error", err)
	over := time.NewTimer(t.pause/2 + rand.N(t.pause/2))
	defer over.Stop()
	stop := ctx.Done()
	if t.claim.stopping {
		stop = nil
	}
	select {
	case <-over.C:
	case <-stop:
	}
	return false
}

// know takes what the row says.
func (t *timer) know(ctx context.Context) {
	c := &t.claim
	if !c.known {
		return
	}
	if c.ours() && t.guard != nil && !c.leased.IsZero() {
		t.guard.Reset(c.leased.Add(lease).Sub(attempt.Now(ctx)))
	}
	reason := ""
	if c.row.last.outcome == outcomeFailed {
		reason = c.row.last.slot.Format(time.RFC3339) + ": " + c.row.last.reason
	}
	switch {
	case reason == "":
		t.all.failed.Solved(t.Name)
	case reason != t.reason:
		t.all.failed.Occurred(t.Name, reason, 0)
	}
	t.reason = reason
}

// begin begins the attempt of the row's slot.
func (t *timer) begin(ctx context.Context) {
	c := &t.claim
	a := attempt.Attempt{Timer: t.Name, ID: t.Name + "/" + c.row.slot.Format(time.RFC3339Nano), Number: c.row.failed + 1, MaxAttempts: c.max, Slot: c.row.slot}
	work, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	t.cancel = cancel
	t.guard = time.AfterFunc(c.leased.Add(lease).Sub(attempt.Now(ctx)), func() { cancel(attempt.ErrLeaseLost) })
	guard := t.guard
	began := time.Now()
	go func() {
		defer cancel(nil)
		defer guard.Stop()
		work, span := trace.Start(work, "timer "+t.Name, trace.Consumer)
		defer span.End()
		span.Number(trace.Attempt, int64(a.Number))
		v := attempt.DoApart(work, a, t.Timeout, t.Work, t.wraps...)
		span.Text(trace.Outcome, v.Outcome.String())
		if v.Outcome == attempt.Failed || v.Outcome == attempt.Rejected || v.Outcome == attempt.RetriedLater {
			span.Fail(v.Reason())
			t.opt.Log.WarnContext(work, "the attempt of a timer failed", "timer", t.Name, "slot", a.Slot, "attempt", a.Number, "outcome", v.Outcome.String(), "error", v.Err)
		}
		t.ended <- ending{a, v, attempt.Now(ctx), time.Since(began)}
	}()
}
