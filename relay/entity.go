package relay

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// State is where sends to an entity go.
type State int

const (
	Healthy    State = iota // to the primary
	Suspect                 // to the primary, one attempt at a time
	FailedOver              // to a backlog queue
)

func (s State) String() string { return [...]string{"healthy", "suspect", "failedOver"}[s] }

const (
	minPause   = 100 * time.Millisecond // between attempts while suspect
	maxPause   = time.Second
	minAttempt = 500 * time.Millisecond // at least, for the last attempt before a failover
)

// entity is what the process knows of an entity of the primary. It starts
// nothing and sends nothing.
type entity struct {
	name     string
	options  Options
	failover bool // there is a secondary
	moved    func(e *entity, from, to State, cause error)
	closed   <-chan struct{} // the sender is closed

	sends int         // under way; guarded by the sender's mu
	known atomic.Bool // the state of the entity is worth keeping

	mu        sync.Mutex
	changed   chan struct{} // closed and replaced when waiting sends must decide again
	state     State
	since     time.Time // of state
	lastErr   error     // of the primary; nil once healthy
	throttled bool
	probing   bool          // one attempt is under way while suspect, throttled or on trial
	nextTry   time.Time     // while suspect or throttled
	pause     time.Duration // to the next nextTry

	failing     time.Time // while suspect: the first failure
	lastFailure time.Time
	silent      silence // of callers that gave up

	// onTrial is set from a failback, or from BeginOnTrial, to the first answer.
	// A ping proves less than a send, so one send at a time goes to the primary
	// while the others still go to the backlog, and one failure is enough to
	// fail over again.
	onTrial bool

	failovers int // an attempt that began before one is no news after it

	holds map[int]*hold // by backlog queue; see barrier.go
}

// hold is what a sender knows of its messages in one backlog queue.
type hold struct {
	writes int       // begun or ended
	peekAt time.Time // not before
}

// admission is where one attempt may go.
type admission struct {
	backlog   bool
	probe     bool // the only attempt that is admitted
	failovers int  // of the entity before it
	began     time.Time
	timeout   time.Duration // of the attempt
}

// admit waits until an attempt may begin. Each admission to the primary must be
// reported to answered. The error is the context's, of the class Throttled if
// the context will end before an attempt may begin, or ErrClosed.
func (e *entity) admit(ctx context.Context) (admission, error) {
	end, hasEnd := ctx.Deadline()
	for {
		select {
		case <-e.closed:
			return admission{}, closed()
		default:
		}
		if ctx.Err() != nil {
			return admission{}, context.Cause(ctx)
		}
		e.mu.Lock()
		now := time.Now()
		a, ok, until := e.decide(now)
		a.failovers = e.failovers
		changed, throttled, onTrial := e.changed, e.throttled, e.onTrial
		e.mu.Unlock()
		if ok && onTrial && hasEnd {
			// Leave time for the backlog, should there be no answer.
			a.timeout = min(a.timeout, max(end.Sub(now)/2, minSilence))
		}
		if ok {
			return a, nil
		}
		if hasEnd && throttled && end.Before(until) {
			return a, &Error{Class: Throttled, After: until.Sub(now), Unsent: true, Err: errors.New("the namespace is busy, and the deadline is before the next attempt")}
		}
		var wait <-chan time.Time
		if !until.IsZero() {
			wait = time.After(until.Sub(now))
		}
		select {
		case <-changed:
		case <-wait:
		case <-e.closed:
		case <-ctx.Done():
			return a, context.Cause(ctx)
		}
	}
}

// decide returns an admission, or until when to wait for one; zero means until
// a change.
func (e *entity) decide(now time.Time) (a admission, ok bool, until time.Time) {
	switch {
	case e.state == FailedOver, e.onTrial && e.probing:
		return admission{backlog: true}, true, until
	case e.onTrial:
		e.probing = true
		return admission{probe: true, began: now, timeout: e.options.attemptTimeout}, true, until
	case e.state == Healthy && !e.throttled:
		return admission{began: now, timeout: e.options.attemptTimeout}, true, until
	}
	over := false // the failover interval
	if e.state == Suspect && e.failover {
		if !e.probing && now.Sub(e.lastFailure) > *e.options.Interval+e.options.attemptTimeout {
			e.failing = now // an old failure does not show that the failure lasts
		}
		until = e.failing.Add(*e.options.Interval)
		over = !now.Before(until)
	}
	switch {
	case over && (e.probing || now.Sub(e.lastFailure) <= maxPause):
		// One more attempt would show what the last one did, and delay a message
		// that has waited for the whole interval.
		e.move(FailedOver, e.lastErr)
		return admission{backlog: true}, true, until
	case e.probing:
		return a, false, until
	case now.Before(e.nextTry) && !over:
		if until.IsZero() || e.nextTry.Before(until) {
			until = e.nextTry
		}
		return a, false, until
	}
	e.probing = true
	timeout := e.options.attemptTimeout
	if !until.IsZero() && !over {
		// An attempt that has no answer yet when the interval is over must not
		// delay the failover of its message.
		timeout = min(timeout, max(until.Sub(now), minAttempt))
	}
	return admission{probe: true, began: now, timeout: timeout}, true, until
}

// answered reports how an attempt ended: with nil, with an error of the
// primary, or because the caller gave up.
func (e *entity) answered(a admission, err error, gaveUp bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if a.failovers != e.failovers {
		return // the pings and the trial decide
	}
	if a.probe {
		e.probing = false
		e.wake()
	}
	now := time.Now()
	class := classOf(err)
	switch {
	case err == nil, class == Unavailable, class == Throttled, class == Full:
		e.known.Store(true)
	}
	if gaveUp {
		// The end of a caller's patience is no failure of the primary. But
		// callers whose deadlines are shorter than an attempt may take would
		// otherwise never fail over.
		if e.silent.add(a.began, now) < e.options.attemptTimeout {
			return
		}
		class, err = Unavailable, fmt.Errorf("no attempt was answered for %v", e.options.attemptTimeout)
	}
	if err != nil && class == Unavailable {
		e.failed(a, err, now)
		return
	}
	e.silent = silence{until: now}
	e.onTrial = false
	switch {
	case err != nil && class == Throttled:
		wait := busyFor(err)
		e.throttled, e.lastErr = true, err
		e.nextTry = now.Add(wait + rand.N(wait/10))
	case e.throttled && !a.probe:
		return // it began before the namespace was busy
	default:
		e.throttled, e.lastErr = false, nil
	}
	if e.state == Suspect {
		e.move(Healthy, nil) // any answer shows that the primary is there
	}
	e.wake()
}

// failed counts an attempt that the primary did not answer, or answered with a
// fault of its own.
func (e *entity) failed(a admission, err error, now time.Time) {
	e.lastErr, e.lastFailure, e.silent = err, now, silence{until: now}
	e.throttled = false // it may be busy, but that is not why sends wait now
	switch e.state {
	case Healthy:
		e.failing, e.pause, e.nextTry = now, minPause, now.Add(minPause)
		if e.failover && (*e.options.Interval == 0 || e.onTrial) {
			e.move(FailedOver, err)
		} else {
			e.move(Suspect, err)
		}
	case Suspect:
		if e.failover && !now.Before(e.failing.Add(*e.options.Interval)) {
			e.move(FailedOver, err)
		} else if a.probe {
			e.pause = min(2*e.pause, maxPause)
			e.nextTry = now.Add(e.pause)
		}
	}
}

// failback ends a failover.
func (e *entity) failback() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.lastErr = nil
	e.move(Healthy, nil)
}

// pingFailed keeps the error of a ping for the status.
func (e *entity) pingFailed(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.lastErr = err
}

// withdrawn ends an admission that was not used.
func (e *entity) withdrawn(a admission) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if a.probe && a.failovers == e.failovers {
		e.probing = false
		e.wake()
	}
}

func (e *entity) move(to State, cause error) {
	from := e.state
	e.state, e.since, e.onTrial = to, time.Now(), from == FailedOver
	if to == FailedOver {
		e.failovers++
		e.probing, e.throttled = false, false
	}
	e.wake()
	e.moved(e, from, to, cause)
}

func (e *entity) wake() {
	close(e.changed)
	e.changed = make(chan struct{})
}

// Status is the state of an entity.
type Status struct {
	Entity    string
	State     State
	Since     time.Time
	Throttled bool  // sends wait because the namespace is busy
	LastErr   error // of the primary; nil once healthy
}

func (e *entity) status() Status {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := Status{e.name, e.state, e.since, e.throttled, e.lastErr}
	if e.throttled && !e.probing && !time.Now().Before(e.nextTry) { // and nothing was sent since
		s.Throttled, s.LastErr = false, nil
	}
	return s
}

// hold notes that a message with a session goes to a backlog queue.
func (e *entity) hold(queue int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	h := e.holds[queue]
	if h == nil {
		if e.holds == nil {
			e.holds = make(map[int]*hold)
		}
		h = &hold{}
		e.holds[queue] = h
	}
	h.writes++
}
