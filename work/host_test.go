package work_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"kennel/internal/chance"
	"kennel/internal/table"
	"kennel/queue"
	"kennel/work"
)

const (
	lease      = 10 * time.Minute // of a message, as that of the Functions host
	retryAfter = 10 * time.Second // after a failure
	maxIdle    = 20 * time.Second // between two polls
	sweepEvery = 3 * time.Minute
)

// host receives messages for a process and passes them to it, like the Functions
// host or a worker. It polls a queue only if a message can be received, so that
// its requests are those of messages.
type host struct {
	p       *process
	hands   int
	random  *chance.Source // nil: in order
	free    chan struct{}  // a slot for each message that is worked on
	running sync.WaitGroup
}

func (p *process) host(hands int, random *chance.Source) *host {
	return &host{p: p, hands: hands, random: random, free: make(chan struct{}, hands)}
}

// run works until ctx ends, and then waits for the messages that it works on.
func (h *host) run(ctx context.Context) {
	idle := time.Second
	for ctx.Err() == nil && !h.p.Dead() {
		received, next := h.poll(ctx)
		switch {
		case received:
			idle = time.Second
			continue
		case len(h.free) > 0:
			idle = time.Second
		}
		idle = min(maxIdle, idle*3/2)
		wait := idle
		if left := time.Until(next); !next.IsZero() && (left < wait || len(h.free) == 0) {
			wait = max(100*time.Millisecond, min(left, sweepEvery)) // of a message that is known, a poll is no help
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
		}
	}
	h.running.Wait()
}

// poll receives what may be received, and returns when more may be.
func (h *host) poll(ctx context.Context) (received bool, next time.Time) {
	names := queueNames(h.p.partitions)
	if h.random != nil {
		from := h.random.Below(len(names))
		names = append(names[from:], names[:from]...)
	}
	for _, name := range names {
		free := min(32, h.hands-len(h.free))
		visible := false
		for _, m := range h.p.w.queues.All(name) {
			if m.NextVisible.After(time.Now()) {
				if next.IsZero() || m.NextVisible.Before(next) {
					next = m.NextVisible
				}
			} else {
				visible = true
			}
		}
		if !visible || free == 0 {
			continue
		}
		one, cancel := context.WithTimeout(ctx, 15*time.Second)
		messages, _ := h.p.queues.Receive(one, name, free, lease)
		cancel()
		for _, m := range messages {
			received = true
			h.free <- struct{}{}
			h.running.Go(func() {
				h.p.handle(name, m, len(messages))
				<-h.free
			})
		}
	}
	return received, next
}

// handle works on a message and then deletes it, or returns it after a failure.
func (p *process) handle(name string, m queue.Message, together int) {
	p.w.messages.Add(1)
	defer p.w.messages.Done()
	ctx, cancel := context.WithTimeout(p.Context(), lease-30*time.Second)
	defer cancel()
	if p.w.lose != nil && p.w.lose() {
		p.deleted(ctx, name, m)
		return
	}
	message := work.Message{Text: m.Body, Redelivered: m.DequeueCount > 1, Share: 1 / float64(together)}
	err := p.Batches.Process(ctx, name, message)
	if p.Dead() {
		return
	}
	switch {
	case err == nil:
		if p.deleted(ctx, name, m) {
			_ = p.Forget(ctx, m.Body) // the claim expires
		}
	case errors.Is(err, work.ErrHeld):
		p.deleted(ctx, name, m)
	case errors.Is(err, work.ErrMessage):
		p.w.t.Errorf("dead letter of %s: %v\n%.300s", name, err, m.Body)
		p.deleted(ctx, name, m)
	default:
		one, cancel := context.WithTimeout(ctx, 15*time.Second)
		defer cancel()
		_, _ = p.queues.Update(one, name, m, retryAfter) // else its lease ends
	}
}

// deleted deletes a message and reports whether that is confirmed.
func (p *process) deleted(ctx context.Context, name string, m queue.Message) bool {
	_, err := table.RetryWrite(ctx, func(ctx context.Context) (struct{}, error) {
		err := p.queues.Delete(ctx, name, m)
		if errors.Is(err, queue.ErrLeaseLost) {
			err = table.ErrNotFound // an answer: another receiver has the message
		}
		return struct{}{}, err
	})
	return err == nil
}

// sweeps sweeps every few minutes until ctx ends.
func (p *process) sweeps(ctx context.Context) {
	for ctx.Err() == nil && !p.Dead() {
		select {
		case <-time.After(sweepEvery/2 + rand.N(sweepEvery)):
			one, cancel := context.WithTimeout(ctx, 4*time.Minute)
			_, _ = p.Sweep(one) // the next one repeats it
			cancel()
		case <-ctx.Done():
		}
	}
}

// live runs the process until ctx ends or it is killed.
func (p *process) live(ctx context.Context, hands int, random *chance.Source) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(p.Context(), cancel)()
	var running sync.WaitGroup
	running.Go(func() { p.host(hands, random).run(ctx) })
	running.Go(func() { p.sweeps(ctx) })
	running.Wait()
}
