package client

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"time"
)

const (
	maxRepeats = 5                // after the first attempt
	maxPause   = 30 * time.Second // before each of them

	// retryInterval is the pause before a failed request is repeated, if the
	// answer does not ask for another one.
	retryInterval = 2 * time.Second
)

// Notice reports that a request is repeated, or that the app answers again.
type Notice struct {
	Err      error         // why the request is repeated; nil: the app responds again
	Wait     time.Duration // before it is repeated
	Attempt  int           // counts the repeats from 1; 0: there is no limit
	Attempts int           // how many repeats there are at most
}

// String returns the notice as a line for people.
func (n Notice) String() string {
	refused, _ := errors.AsType[*Error](n.Err)
	switch {
	case n.Err == nil:
		return "the app responds again"
	case n.Attempt == 0:
		return n.Err.Error() + "; still waiting"
	case refused != nil && refused.busy():
		return fmt.Sprintf("the app is busy; retrying in %v (%d of %d)", n.Wait, n.Attempt, n.Attempts)
	}
	return fmt.Sprintf("%v; retrying in %v (%d of %d)", n.Err, n.Wait, n.Attempt, n.Attempts)
}

// call sends a request and decodes the answer. It returns the status.
func (c *Client) call(ctx context.Context, r request, into keeper) (int, error) {
	answer, err := c.send(ctx, r)
	if err != nil {
		return 0, err
	}
	return answer.status, c.decode(answer, r, into)
}

// send sends a request, and repeats it where that is safe. Its error is
// ErrUnclear if any of the attempts may have had an effect.
func (c *Client) send(ctx context.Context, r request) (_ *response, last error) {
	reached, unclear := false, false
	defer func() {
		if last != nil && unclear && !errors.Is(last, ErrUnclear) {
			last = earlierError{last, r.effect}
		}
	}()
	began := time.Now()
	for attempt := 1; ; attempt++ {
		answer, err := c.once(ctx, r)
		if err == nil {
			return answer, nil
		}
		unclear = unclear || errors.Is(err, ErrUnclear)
		wait, again := r.repeats.after(err, reached)
		switch {
		case !again:
			return nil, err
		case attempt > maxRepeats, attempt > 1 && r.within > 0 && time.Since(began)+wait > r.within:
			return nil, fmt.Errorf("%w; gave up after %d attempts", err, attempt)
		case wait > maxPause:
			return nil, fmt.Errorf("%w; its Retry-After is %v, and a call waits at most %v", err, wait, maxPause)
		}
		reached = true
		c.opt.Notify(Notice{Err: err, Wait: wait, Attempt: attempt, Attempts: maxRepeats})
		if err := pauseAfter(ctx, err, wait); err != nil {
			return nil, err
		}
	}
}

// after returns how long to wait before a request that failed with err is
// repeated, and whether it may be. reached reports that the app was reached
// before.
func (r repeats) after(err error, reached bool) (time.Duration, bool) {
	if refused, ok := errors.AsType[*Error](err); ok {
		if refused.busy() && refused.RetryAfter > 0 {
			return refused.RetryAfter, r >= ifBusy || refused.unchanged()
		}
		return retryInterval, r == always && refused.Status >= 500 && refused.Code == "" && !refused.tooLong()
	}
	lost, ok := errors.AsType[*NoAnswerError](err)
	return retryInterval, ok && r == always && (lost.closedEarly() || reached && !lost.Connected)
}

// An outage follows the failures of a request that is repeated until it
// succeeds.
type outage struct {
	c       *Client
	reached bool   // the app has answered, or closed the connection
	last    string // the text of the error that was reported last
}

// pause reports an error after which the request may be repeated, and waits
// before that, for about maxWait at most. It returns any other error.
func (o *outage) pause(ctx context.Context, err error, maxWait time.Duration) error {
	wait := retryInterval
	refused, isError := errors.AsType[*Error](err)
	lost, isLost := errors.AsType[*NoAnswerError](err)
	switch {
	case isError && refused.final(), errors.Is(err, ctx.Err()):
		return err
	case isError:
		o.reached = true
		if refused.RetryAfter > 0 {
			wait = min(refused.RetryAfter, maxPause)
		}
	case isLost && lost.closedEarly():
		o.reached = true
	case !o.reached:
		return err // probably a wrong address
	}
	wait = min(wait, maxWait)
	if o.last != err.Error() {
		o.last = err.Error()
		o.c.opt.Notify(Notice{Err: err, Wait: wait})
	}
	// An outage ends for all waiters at once. Chance spreads their requests.
	return pauseAfter(ctx, err, wait+rand.N(wait/2+1))
}

// over reports that the app answered.
func (o *outage) over() {
	o.reached = true
	if o.last != "" {
		o.last = ""
		o.c.opt.Notify(Notice{})
	}
}

// watchInterval is how often the state of something that runs is read.
const watchInterval = time.Second

// follow yields v and then, every second, the result of read, while it runs. It
// yields the last value again if the app does not answer, and goes on. A
// permanent error or the end of ctx ends it with that error.
func follow[T any](ctx context.Context, c *Client, v T, runs func(T) bool, read func() (T, error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		o := &outage{c: c, reached: true}
		for yield(v, nil) && runs(v) {
			err := pause(ctx, watchInterval)
			if err == nil {
				newer, failed := read()
				if failed == nil {
					o.over()
					v = newer
				} else {
					err = o.pause(ctx, failed, watchInterval)
				}
			}
			if err != nil {
				yield(v, err)
				return
			}
		}
	}
}

// pauseAfter waits before a request that failed with err is repeated. Its error
// is that err, and why there was no repeat.
func pauseAfter(ctx context.Context, err error, wait time.Duration) error {
	if stopped := pause(ctx, wait); stopped != nil {
		return fmt.Errorf("%w; gave up: %w", err, stopped)
	}
	return nil
}

// pause waits for the given time or until ctx ends.
func pause(ctx context.Context, wait time.Duration) error {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
