package queue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"kennel/internal/trace"
)

// delivery is one received message on its way through a listener. Its goroutine
// owns the lease.
type delivery[T any] struct {
	*Listener[T]
	p     *partition
	lease lease
	received
	body    string                      // as received; the lease may have one with another attempt
	id      string                      // of the content
	cleanUp func(context.Context) error // Done of the content, without its body; nil: nothing
}

// deliver begins the delivery of a message.
func (l *Listener[T]) deliver(p *partition, m Message, r received) {
	d := &delivery[T]{Listener: l, p: p, lease: newLease(p, m, r.began), received: r, body: m.Body}
	l.delivered.Add(1)
	l.crew.run(d.run)
}

// run ends when the message is deleted or put back, or its lease is lost.
func (d *delivery[T]) run() {
	defer d.delivered.Done()
	defer d.p.finish()
	p, m := d.p, d.lease.m
	if d.done.has(m.ID) {
		if !p.lane.leave(d.turn) {
			p.lane.release(0)
		}
		d.remove(true)
		return
	}
	if !d.awaitHand() {
		d.putBack()
		return
	}
	d.startSpan()
	defer d.lease.span.End()
	failed, next := d.codec.Attempts(m)
	if limit := int64(d.opt.MaxAttempts); limit > 0 && m.DequeueCount > limit && !d.returned.has(m.ID) && !d.record(failed, next) {
		p.lane.release(0)
		return
	}
	// A record whose reply was lost may have counted this attempt already.
	attempt := failed + 1
	if d.opt.MaxAttempts > 0 {
		attempt = min(attempt, int64(d.opt.MaxAttempts))
	}
	d.lease.span.Number(trace.Attempt, attempt)
	begun := time.Now()
	returned, err := d.attempt(attempt)
	took := max(time.Since(begun), 1)
	p.lane.release(took)
	if returned {
		p.handTime.Add(int64(took))
		if err != nil {
			d.returned.add(m.ID)
		}
	}
	if !returned {
		// The handler may go on, but the process ends.
		d.putBack()
		return
	}
	d.conclude(attempt, next, err)
}

// conclude does what follows from an attempt that returned err. next is the body
// in which it counts.
func (d *delivery[T]) conclude(attempt int64, next string, err error) {
	p, m := d.p, d.lease.m
	switch fateOf(attemptEnd{
		err: err, last: attempt == int64(d.opt.MaxAttempts),
		leaseLost: d.lease.lost, stopping: d.work.Err() != nil, copyDone: d.copies.has(d.id),
	}) {
	case fateDone:
		d.remove(false)
	case fateElsewhere:
		d.lease.ended("lost", err)
	case fateCopyDone:
		d.opt.Log.InfoContext(d.end, "message deleted without work; another copy of it was done", "queue", p.queue, "message", m.ID, "error", err.Error())
		d.remove(true)
	case fateDead:
		d.deadLetter(err, attempt)
	case fateReturned:
		d.putBack()
	case fateFreeRetry:
		d.retryLater(err)
	case fateRetry:
		d.retry(err, attempt, next)
	case fateAgain:
		d.again(err)
	}
}

// record records the attempt of a message before it is made, because the
// message was received often and no attempt has returned in this process: each
// one may have killed its process, or could not be recorded because storage
// failed. It reports whether to make the attempt.
func (d *delivery[T]) record(failed int64, next string) bool {
	m, limit := d.lease.m, int64(d.opt.MaxAttempts)
	canRecord := next != d.body
	if kills(m.DequeueCount, failed, limit, canRecord) {
		d.deadLetter(fmt.Errorf("received %d times; the attempts of the last times did not end", m.DequeueCount), failed)
		return false
	}
	if !canRecord {
		return true
	}
	if err := d.lease.store(next); err != nil {
		// It may be recorded. The next attempt here is not recorded again, or
		// an outage would use up the attempts.
		d.returned.add(m.ID)
		d.lease.ended("returned", err)
		d.warn("cannot record the attempt of a message that was received often; it is received again when its lease ends", err)
		return false
	}
	return true
}

// awaitHand waits for a hand until half of the lease is over or the listener
// stops. It reports whether to begin.
func (d *delivery[T]) awaitHand() bool {
	if turn := d.turn; turn != nil {
		timer := time.NewTimer(time.Until(d.lease.renewAt))
		defer timer.Stop()
		select {
		case <-turn.granted:
		case <-timer.C:
		case <-d.stopping.Done():
		}
		if d.p.lane.leave(turn) {
			return false
		}
	}
	// The receive may have taken until the stop, or longer than the lease.
	if d.stopping.Err() != nil || !time.Now().Before(d.lease.until) {
		d.p.lane.release(0)
		return false
	}
	return true
}

// attempt decodes the message and calls the handler, and renews the lease
// meanwhile. It reports returned false if the handler still runs although it is
// waited for no longer.
func (d *delivery[T]) attempt(n int64) (returned bool, err error) {
	ctx, cancel := context.WithCancelCause(d.lease.span.Around(d.work))
	defer cancel(nil)
	result, begun := make(chan error, 1), make(chan struct{})
	m := d.lease.m
	m.Body = d.body
	d.handling.Add(1)
	d.crew.run(func() {
		err := errors.New("the handler ended its goroutine") // by runtime.Goexit, which runs only what is deferred
		defer func() {
			d.handling.Add(-1)
			result <- err
		}()
		err = d.handle(ctx, m, n, begun)
	})
	renewal := time.NewTimer(time.Until(d.lease.renewAt))
	defer renewal.Stop()
	var tooLong <-chan time.Time
	for {
		select {
		case err := <-result:
			if err != nil && ctx.Err() != nil {
				err = fmt.Errorf("%w (%w)", err, context.Cause(ctx))
			}
			return true, err
		case <-d.abandon:
			return false, nil
		case <-begun:
			begun, tooLong = nil, time.After(d.opt.MaxWork)
			continue
		case <-tooLong:
			cancel(errTooLong)
		case <-renewal.C:
		}
		if ctx.Err() != nil {
			continue // an attempt that must end keeps its message for this lease only
		}
		d.lease.renew()
		if d.lease.lost {
			d.p.lost.Add(1)
			d.opt.Log.WarnContext(ctx, "lease lost; the attempt is cancelled", "queue", d.p.queue, "message", m.ID)
			cancel(ErrLeaseLost)
			continue
		}
		renewal.Reset(time.Until(d.lease.renewAt))
	}
}

// handle calls the codec and the handler, and returns a panic as an error. It
// closes begun when there is memory for the body.
func (d *delivery[T]) handle(ctx context.Context, m Message, attempt int64, begun chan<- struct{}) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("the handler panicked: %v", r)
			d.opt.Log.ErrorContext(ctx, "handler panicked", "queue", d.p.queue, "message", m.ID, "panic", fmt.Sprint(r), "stack", string(debug.Stack()))
		}
	}()
	free, err := d.awaitMemory(ctx, m)
	if err != nil {
		return err
	}
	defer free()
	close(begun)
	content, err := d.codec.Decode(ctx, m)
	d.id, d.cleanUp = content.ID, content.Done // read after the attempt
	if err != nil {
		return err
	}
	return d.handler(ctx, Delivery[T]{
		Queue: d.p.queue, Body: content.Body, ID: cmp.Or(content.ID, m.ID),
		Attempt: attempt, Inserted: m.Inserted, Message: m,
		Redelivered: m.DequeueCount > 1, Share: d.share,
	})
}

// shortBody is the number of bytes up to which a body needs no room. The text of
// any message is as short.
const shortBody = MaxBody

// awaitMemory waits until there is memory for the body.
func (d *delivery[T]) awaitMemory(ctx context.Context, m Message) (free func(), err error) {
	size := 0
	if d.sizer != nil {
		size = d.sizer.Size(m)
	}
	if size <= shortBody {
		return func() {}, nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(d.stopping, cancel)()
	n := int64(min(size, d.opt.memory))
	if d.memory.Acquire(ctx, n) != nil {
		return nil, errNotBegun
	}
	return func() { d.memory.Release(n) }, nil
}

// remove deletes a message whose work is done.
func (d *delivery[T]) remove(before bool) {
	outcome := "done"
	if before {
		outcome = "repeated"
	}
	d.lease.ended(outcome, nil)
	d.lease.done = &d.done
	if err := d.lease.remove(); err != nil {
		d.warn("cannot delete a message whose work is done; it may be received again", err)
		return
	}
	if before {
		d.p.repeated.Add(1)
		return
	}
	d.p.done.Add(1)
	d.p.lastDone.Store(time.Now().UnixNano())
	d.p.latencies.Add(d.lease.m.Inserted)
	if d.cleanUp == nil {
		return
	}
	d.copies.add(d.id) // now, because they cannot be read without it
	ctx, cancel := context.WithTimeout(d.lease.span.Around(d.end), callTimeout)
	defer cancel()
	if err := d.cleanUp(ctx); err != nil {
		d.warn("cannot remove what belongs to a deleted message; a sweep removes it", err)
	}
}

// putBack makes a message visible at once whose attempt does not count.
func (d *delivery[T]) putBack() {
	d.lease.ended("returned", nil)
	body := d.body
	if d.returner != nil {
		body = d.returner.Returned(d.lease.m)
	}
	if err := d.lease.putBack(body, 0); err != nil {
		d.warn("cannot put a message back; it is received again when its lease ends", err)
		return
	}
	d.p.returned.Add(1)
}

// again does what the handler decided.
func (d *delivery[T]) again(cause error) {
	a, _ := errors.AsType[*again](cause)
	body := cmp.Or(a.body, d.body)
	outcome, count := "retried", &d.p.retried
	if a.err == nil {
		outcome, count = "returned", &d.p.returned
	}
	d.lease.ended(outcome, a.err)
	if err := d.lease.putBack(body, a.wait); err != nil {
		d.warn("cannot put a message back; it is received again when its lease ends", err)
		return
	}
	count.Add(1)
}

// Retries back off exponentially from firstRetry to maxRetry, with jitter of up
// to half.
const (
	firstRetry = 2 * time.Second
	maxRetry   = 5 * time.Minute
)

// retry makes a message visible after a wait that grows with its attempts.
func (d *delivery[T]) retry(cause error, attempt int64, body string) {
	wait := jittered(backOff(firstRetry, int(attempt), maxRetry))
	d.p.retried.Add(1)
	d.lease.ended("retried", cause)
	d.opt.Log.WarnContext(d.end, "attempt failed; trying again later", "queue", d.p.queue, "message", d.lease.m.ID,
		"attempt", attempt, "in", wait.String(), "error", cause.Error())
	if err := d.lease.putBack(body, wait); err != nil {
		d.warn("cannot put a message back; it is received again when its lease ends", err)
	}
}

// maxNoAttempt is the maximum wait after an attempt that does not count: what
// failed works again for all messages at the same time.
const maxNoAttempt = time.Minute

// retryLater makes a message visible, with the body that it had, after a wait
// that grows with its deliveries.
func (d *delivery[T]) retryLater(cause error) {
	wait := jittered(backOff(firstRetry, int(d.lease.m.DequeueCount), maxNoAttempt))
	d.p.retried.Add(1)
	d.lease.ended("retried", cause)
	d.opt.Log.WarnContext(d.end, "attempt failed and does not count; trying again later", "queue", d.p.queue, "message", d.lease.m.ID,
		"in", wait.String(), "error", cause.Error())
	if err := d.lease.putBack(d.body, wait); err != nil {
		d.warn("cannot put a message back; it is received again when its lease ends", err)
	}
}

// deadLetter moves a message to the dead-letter queue. If the process ends
// between the two requests, the message is in both queues and is moved again.
func (d *delivery[T]) deadLetter(reason error, attempts int64) {
	m, dead := d.lease.m, d.p.queue+PoisonSuffix
	d.lease.ended("dead_letter", reason)
	ctx, cancel := context.WithDeadline(d.lease.span.Around(d.end), d.lease.until)
	defer cancel()
	body, err := d.codec.DeadLetter(ctx, DeadLetter{
		Queue: d.p.queue, Message: m.ID, Reason: reason.Error(), Attempts: attempts, At: time.Now(), Text: d.body,
	})
	if err == nil {
		err = d.lease.settle(func(ctx context.Context, _ *lease) error {
			d.p.puts.Add(1)
			_, err := d.store.Put(ctx, dead, body, 0)
			return err
		})
	}
	if err != nil {
		d.warn("cannot move a message to the dead letters; it is received again", err)
		return
	}
	d.p.deadLetters.Add(1)
	d.opt.Log.WarnContext(d.end, "message put among the dead letters", "queue", dead, "message", m.ID, "reason", reason.Error())
	if err := d.lease.remove(); err != nil {
		d.warn("cannot delete a message that is among the dead letters; it will be there twice", err)
	}
}

// warn logs an error, unless it only reports that the lease was lost, which
// happens.
func (d *delivery[T]) warn(text string, err error) {
	d.lease.span.Fail(text + ": " + err.Error())
	log := d.opt.Log.WarnContext
	if errors.Is(err, ErrLeaseLost) {
		log = d.opt.Log.DebugContext
	}
	log(d.end, text, "queue", d.p.queue, "message", d.lease.m.ID, "error", err.Error())
}

// startSpan starts the span of a delivery that has a hand, within the trace of
// its message, and records the receive that is over. A message without a trace
// gets none.
func (d *delivery[T]) startSpan() {
	if d.tracer == nil || !trace.IsOn(d.work) {
		return
	}
	ctx := trace.Within(d.work, d.traceParent())
	_, receive := trace.StartAt(ctx, "receive "+d.p.queue, trace.Client, d.began)
	_, d.lease.span = trace.Start(ctx, "process "+d.p.queue, trace.Consumer)
	d.lease.describe(receive, "receive")
	d.lease.describe(d.lease.span, "process")
	receive.EndAt(d.answered)
}

// traceParent returns the trace of the message. A panic of the codec is left to
// Decode.
func (d *delivery[T]) traceParent() (parent string) {
	defer func() { _ = recover() }()
	return d.tracer.TraceParent(d.lease.m)
}
