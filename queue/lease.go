package queue

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"kennel/internal/table"
	"kennel/internal/trace"
)

// lease owns the receipt of one received message. One goroutine uses it, so
// that no request is sent with an older receipt.
type lease struct {
	p       *partition
	m       Message   // with the newest receipt
	until   time.Time // its end, by this process's clock, at the earliest
	renewAt time.Time
	fails   int  // of renewals in a row
	lost    bool // another receiver may have the message

	span trace.Span // of the delivery; requests that end it are parts of it

	done *finished // remembers the message if its work is done but not its delete; nil: it is not done
}

func newLease(p *partition, m Message, began time.Time) lease {
	l := lease{p: p, m: m}
	l.renewedAt(began)
	return l
}

func (l *lease) renewedAt(began time.Time) {
	l.until, l.renewAt, l.fails = began.Add(l.p.opt.Lease), began.Add(l.p.opt.Lease/2), 0
}

// renew renews the lease. Renewals have slots of their own, so they never wait
// for other requests. A renewal that fails is due again soon.
func (l *lease) renew() {
	p := l.p
	ctx, cancel := context.WithDeadline(p.end, l.until)
	defer cancel()
	select {
	case p.renewals <- struct{}{}:
	case <-ctx.Done():
		l.lost = true
		return
	}
	began := time.Now()
	one, cancelOne := context.WithTimeout(ctx, min(callTimeout, p.opt.Lease/8))
	p.updates.Add(1)
	m, err := p.store.Update(one, p.queue, l.m, p.opt.Lease)
	cancelOne()
	<-p.renewals
	now := time.Now()
	switch {
	case err == nil:
		l.m = m
		l.renewedAt(began)
	case errors.Is(err, ErrLeaseLost):
		// Perhaps through our own renewal, whose new receipt did not arrive:
		// then the message is received again when that one ends.
		l.lost = true
	default:
		l.fails++
		l.renewAt = now.Add(jittered(backOff(firstFailed, l.fails, p.opt.Lease/16)))
		l.lost = !l.renewAt.Before(l.until)
	}
}

// settle sends a request that ends the delivery until it is answered, and keeps
// the lease meanwhile. The error is nil, the answer, or that of the last try.
func (l *lease) settle(request func(context.Context, *lease) error) error {
	p := l.p
	giveUp := time.Now().Add(2 * p.opt.Lease)
	for fails, unclear := 0, false; ; {
		select {
		case p.writes <- struct{}{}:
		case <-p.end.Done():
			return p.end.Err()
		}
		ctx, cancel := context.WithTimeout(l.span.Around(p.end), callTimeout)
		err := request(ctx, l)
		cancel()
		<-p.writes
		switch {
		case errors.Is(err, ErrLeaseLost) && unclear && l.fails == 0:
			return nil // by the earlier try, because no renewal is unclear
		case err == nil, IsAnswer(err):
			return err
		}
		unclear = true
		fails++
		wait := jittered(backOff(firstFailed, fails, maxFailed/2))
		now := time.Now()
		if next := now.Add(wait); next.After(giveUp) || table.Pause(p.end, wait) != nil {
			return err
		}
		if !l.lost && !time.Now().Before(l.renewAt) {
			l.renew()
		}
		if l.lost && time.Now().After(l.until) {
			return err // it was probably received again
		}
	}
}

// remove deletes the message.
func (l *lease) remove() error {
	return l.settle(func(ctx context.Context, l *lease) error {
		l.p.deletes.Add(1)
		err := l.p.store.Delete(ctx, l.p.queue, l.m)
		if err != nil && l.done != nil {
			l.done.add(l.m.ID) // now, because it may be received again before the next try
		}
		return err
	})
}

// store stores another body of the message, and renews its lease.
func (l *lease) store(body string) error {
	ctx, cancel := context.WithTimeout(l.span.Around(l.p.end), min(callTimeout, l.p.opt.Lease/4))
	defer cancel()
	began, m := time.Now(), l.m
	m.Body = body
	l.p.updates.Add(1)
	m, err := l.p.store.Update(ctx, l.p.queue, m, l.p.opt.Lease)
	if err == nil {
		l.m = m
		l.renewedAt(began)
	}
	return err
}

// putBack makes the message visible after a while, with this body.
func (l *lease) putBack(body string, after time.Duration) error {
	return l.settle(func(ctx context.Context, l *lease) error {
		m := l.m
		m.Body = body
		l.p.updates.Add(1)
		_, err := l.p.store.Update(ctx, l.p.queue, m, after)
		return err
	})
}

// jittered returns a random duration between d/2 and d.
func jittered(d time.Duration) time.Duration { return d/2 + rand.N(d/2+1) }

// describe gives a span the attributes of the message.
func (l *lease) describe(span trace.Span, operation string) {
	span.Text(trace.System, trace.Queues)
	span.Text(trace.Operation, operation)
	span.Text(trace.Queue, l.p.queue)
	span.Text(trace.Message, l.m.ID)
}

// ended records how the delivery ended, and the error of its attempt.
func (l *lease) ended(outcome string, err error) {
	l.span.Text(trace.Outcome, outcome)
	if err != nil {
		l.span.Fail(err.Error())
	}
}
