package relay

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// pass is one pass of a syphon over one backlog queue.
type pass struct {
	s     *Syphon
	queue string

	mu    sync.Mutex
	sum   Result
	held  []*Delivery
	since time.Time // the first of them is held
}

func (p *pass) count(r Result) {
	p.mu.Lock()
	p.sum.add(r)
	p.mu.Unlock()
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	p.s.total.add(r)
}

func (p *pass) result(more bool) Result {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sum.More = more
	return p.sum
}

// hold keeps messages locked that cannot be moved now.
func (p *pass) hold(deliveries ...*Delivery) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.held) == 0 {
		p.since = time.Now()
	}
	p.held = append(p.held, deliveries...)
	p.sum.Held += int64(len(deliveries))
}

// release unlocks the messages that were held. If it fails, their locks end
// within a minute.
func (p *pass) release() {
	var wg sync.WaitGroup
	var next atomic.Int64
	for range parallel {
		wg.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(p.held)); i = next.Add(1) - 1 {
				d := p.held[i]
				if time.Now().Before(d.LockedUntil) && p.settle(d, Settlement{Action: Abandon}) != nil {
					return
				}
			}
		})
	}
	wg.Wait()
}

// settle is not cut short by a stop: a message that was sent must be completed.
func (p *pass) settle(d *Delivery, how Settlement) error {
	return p.s.secondary.of(p.queue).do(context.Background(), settleWithin, func(ctx context.Context, c Connection) error {
		return c.Settle(ctx, d, how)
	})
}

// move moves a batch: the messages of a session one after the other, the others
// side by side.
func (p *pass) move(ctx context.Context, batch []*Delivery) {
	var wg sync.WaitGroup
	slots := make(chan struct{}, parallel)
	for _, group := range p.groups(ctx, batch) {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			for i := range group {
				if !p.moveOne(ctx, group[i:]) {
					p.hold(group[i+1:]...)
					return
				}
			}
		})
	}
	wg.Wait()
}

// moveOne moves the first message of a group, and reports whether the others
// may follow.
func (p *pass) moveOne(ctx context.Context, group []*Delivery) bool {
	d := group[0]
	if ctx.Err() != nil {
		p.hold(d)
		return false
	}
	if !p.renew(ctx, group) {
		p.count(Result{LockLost: 1})
		return false
	}
	entity, m, err := unseal(d.Message, time.Now())
	switch {
	case errors.Is(err, errExpired):
		p.s.options.OnEvent(Event{At: time.Now(), Kind: Expired, Queue: p.queue, Entity: entity, Cause: err})
		if p.settle(d, Settlement{Action: Complete}) == nil {
			p.count(Result{Expired: 1})
		}
		return true
	case err != nil:
		return p.deadLetter(d, "", "InvalidEnvelope", err)
	}
	if !p.s.paths.enter(entity) {
		p.hold(d)
		return false
	}
	// A stop does not cut the send off, because then it would be sent again.
	err = p.s.primary.of(entity).do(context.WithoutCancel(ctx), p.s.options.attemptTimeout, func(ctx context.Context, c Connection) error {
		return c.Send(ctx, entity, m)
	})
	class := classOf(err)
	paused := p.s.paths.leave(entity, err)
	switch {
	case err == nil:
		if p.settle(d, Settlement{Action: Complete}) != nil {
			p.count(Result{Unsettled: 1}) // it will be sent again
		}
		p.count(Result{Moved: 1})
		return true
	case class == NotFound:
		return p.deadLetter(d, entity, "TargetMissing", err)
	case class == TooLarge:
		return p.deadLetter(d, entity, "TooLarge", err)
	case class == Invalid:
		return p.deadLetter(d, entity, "Invalid", err)
	}
	if !unsent(err) {
		p.count(Result{Ambiguous: 1})
	}
	if paused {
		p.s.options.OnEvent(Event{At: time.Now(), Kind: PathFailed, Queue: p.queue, Entity: entity, Cause: err})
	}
	p.hold(d)
	return false
}

// renew keeps the locks of a group, and reports whether that of the first
// message lasts for an attempt.
func (p *pass) renew(ctx context.Context, group []*Delivery) bool {
	for i, d := range group {
		if time.Until(d.LockedUntil) >= renewBefore {
			continue
		}
		err := p.s.secondary.of(p.queue).do(ctx, settleWithin, func(ctx context.Context, c Connection) error { return c.Renew(ctx, d) })
		if i == 0 && err != nil {
			return false
		}
	}
	return true
}

// deadLetter never guesses: a message that cannot be moved is kept with the
// reason.
func (p *pass) deadLetter(d *Delivery, entity, reason string, cause error) bool {
	if p.settle(d, Settlement{Action: DeadLetter, Reason: reason, Description: fmt.Sprintf("for %q: %.1000s", entity, cause)}) != nil {
		return true // it comes again
	}
	p.count(Result{DeadLettered: 1})
	p.s.options.OnEvent(Event{At: time.Now(), Kind: DeadLettered, Queue: p.queue, Entity: entity, Cause: cause})
	return true
}

// sessionKey names the messages that keep their order: a session of an entity.
type sessionKey struct{ path, session string }

func keyOf(sealed *Message) (sessionKey, bool) {
	session, ok := sealed.ApplicationProperties[propSession].(string)
	path, _ := sealed.ApplicationProperties[propPath].(string)
	return sessionKey{path, session}, ok
}

// groups returns the messages that may be moved now: those of a session
// together. It holds those that have an earlier message of their session in the
// queue, which another syphon may be about to send.
func (p *pass) groups(ctx context.Context, batch []*Delivery) [][]*Delivery {
	var groups [][]*Delivery
	sessions := make(map[sessionKey][]*Delivery)
	own := make(map[int64]bool)
	last := int64(-1)
	for _, d := range batch {
		own[d.Sequence] = true
		if key, ok := keyOf(d.Message); ok {
			sessions[key] = append(sessions[key], d)
			last = max(last, d.Sequence)
		} else {
			groups = append(groups, []*Delivery{d})
		}
	}
	if len(sessions) == 0 {
		return groups
	}
	foreign, read := p.foreign(ctx, own, last)
	for key, all := range sessions {
		n := 0
		for n < len(all) && all[n].Sequence <= read {
			if first, ok := foreign[key]; ok && first < all[n].Sequence {
				break
			}
			n++
		}
		if n > 0 {
			groups = append(groups, all[:n])
		}
		p.hold(all[n:]...)
	}
	return groups
}

// foreign returns the first message of each session that is not of this batch,
// and the sequence number before which it read all messages. That is less than
// last after an error. A peek shows messages that others lock, until they are
// completed.
func (p *pass) foreign(ctx context.Context, own map[int64]bool, last int64) (found map[sessionKey]int64, read int64) {
	found = make(map[sessionKey]int64)
	for read < last {
		page, err := p.s.secondary.peek(ctx, p.s.options.attemptTimeout, p.queue, read)
		if err != nil {
			return found, read
		}
		if len(page) == 0 {
			return found, last
		}
		for _, d := range page {
			read = d.Sequence + 1
			if key, ok := keyOf(d.Message); ok && !own[d.Sequence] {
				if _, known := found[key]; !known {
					found[key] = d.Sequence
				}
			}
		}
	}
	return found, read
}
