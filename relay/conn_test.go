package relay_test

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"

	"kennel/relay"
)

type conn struct {
	bus     *bus
	process *process
	once    sync.Once
	closed  chan struct{}

	mu   sync.Mutex
	dead map[string]time.Time // until then, nothing is answered for an entity
}

func (c *conn) Close(ctx context.Context) error {
	c.once.Do(func() {
		close(c.closed)
		c.bus.mu.Lock()
		c.bus.open--
		c.bus.mu.Unlock()
	})
	return nil
}

func fails(class relay.Class, unsent bool, text string) error {
	return &relay.Error{Class: class, Unsent: unsent || class != relay.Unavailable, Err: errors.New(text)}
}

// request runs do unless a fault prevents it.
func (c *conn) request(ctx context.Context, op, entity string, do func(*store) error) error {
	b := c.bus
	if op != "wait" && c.process.begin() {
		return fails(relay.Unavailable, false, "the process was killed")
	}
	b.mu.Lock()
	f := none
	if b.fault != nil {
		f = b.fault(op, entity)
	}
	latency := b.latency
	b.mu.Unlock()
	c.mu.Lock()
	dead := c.dead[entity]
	if f == hang || f == storeHang {
		c.dead[entity] = time.Now().Add(time.Minute)
	}
	c.mu.Unlock()
	if time.Now().Before(dead) {
		f = hang
	}
	if f != hang && f != refuse {
		select {
		case <-time.After(latency):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	run := func() error {
		b.mu.Lock()
		defer b.mu.Unlock()
		s := b.entities[entity]
		if s == nil {
			return fails(relay.NotFound, false, "amqp:not-found")
		}
		err := do(s)
		if c.process.end() {
			return fails(relay.Unavailable, false, "the process was killed")
		}
		return err
	}
	switch f {
	case refuse:
		return fails(relay.Unavailable, true, "connection refused")
	case drop:
		return fails(relay.Unavailable, false, "connection lost")
	case internal:
		return fails(relay.Unavailable, true, "amqp:internal-error")
	case busy:
		return &relay.Error{Class: relay.Throttled, Unsent: true, Err: errors.New("server busy")}
	case denied:
		return fails(relay.Denied, false, "unauthorized")
	case full:
		return fails(relay.Full, false, "quota")
	case bad:
		return fails(relay.Invalid, false, "amqp:decode-error")
	case storeDrop:
		return errors.Join(fails(relay.Unavailable, false, "connection lost"), run())
	case storeHang:
		run()
	case none:
		return run()
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-c.closed:
		return fails(relay.Unavailable, false, "connection closed")
	}
}

func (c *conn) Send(ctx context.Context, entity string, m *relay.Message) error {
	c.bus.mu.Lock()
	c.bus.attempts[entity] = append(c.bus.attempts[entity], time.Now())
	c.bus.mu.Unlock()
	return c.request(ctx, "send", entity, func(s *store) error {
		if id := m.Properties.MessageID; c.bus.dedup && s.seen[id] {
			return nil
		} else if c.bus.dedup {
			s.seen[id] = true
		}
		c.bus.wake()
		s.last++
		s.all = append(s.all, m)
		s.messages = append(s.messages, &stored{m: delivered(m, s.last), sequence: s.last, enqueued: time.Now()})
		return nil
	})
}

// delivered returns a message with what Service Bus adds to it.
func delivered(m *relay.Message, sequence int64) *relay.Message {
	c := *m
	c.MessageAnnotations = maps.Clone(m.MessageAnnotations)
	if c.MessageAnnotations == nil {
		c.MessageAnnotations = make(map[any]any)
	}
	maps.Copy(c.MessageAnnotations, map[any]any{"x-opt-sequence-number": sequence, "x-opt-enqueued-time": time.Now(), "x-opt-locked-until": time.Now(), "x-opt-message-state": int32(0)})
	header := azservicebus.AMQPAnnotatedMessageHeader{Priority: 4}
	if m.Header != nil {
		header = *m.Header
	}
	header.DeliveryCount = 3
	c.Header = &header
	c.DeliveryAnnotations = map[any]any{"x-opt-lock-token": "token"}
	c.DeliveryTag = []byte("tag")
	return &c
}

func (c *conn) Ping(ctx context.Context, entity string) error {
	return c.request(ctx, "ping", entity, func(*store) error { return nil })
}

func (c *conn) Peek(ctx context.Context, queue string, from int64, n int) (found []*relay.Delivery, err error) {
	err = c.request(ctx, "peek", queue, func(s *store) error {
		for _, m := range s.messages {
			if len(found) == n {
				break
			}
			if !m.gone && m.sequence >= from {
				if m.m.ApplicationProperties["poison"] != nil {
					return fails(relay.Unreadable, false, "the SDK panics")
				}
				found = append(found, &relay.Delivery{Message: m.m, Sequence: m.sequence, Enqueued: m.enqueued})
			}
		}
		return nil
	})
	time.Sleep(c.bus.answer)
	if err != nil {
		return nil, err
	}
	return found, nil
}

func (c *conn) Receive(ctx context.Context, queue string, n int) (got []*relay.Delivery, err error) {
	c.bus.mu.Lock()
	c.bus.received++
	c.bus.mu.Unlock()
	for op := "receive"; ; op = "wait" { // waiting is no request
		var changed chan struct{}
		unlocked := time.Now().Add(time.Hour)
		err = c.request(ctx, op, queue, func(s *store) error {
			changed = c.bus.changed
			for _, m := range s.messages {
				if len(got) == n {
					break
				}
				if m.gone {
					continue
				}
				if time.Now().Before(m.locked) {
					if m.locked.Before(unlocked) {
						unlocked = m.locked
					}
					continue
				}
				if m.m.ApplicationProperties["poison"] != nil {
					err = fails(relay.Unreadable, false, "the SDK panics")
				}
				m.locked, m.token, m.count = time.Now().Add(lockTime), m.token+1, m.count+1
				got = append(got, &relay.Delivery{Message: m.m, Sequence: m.sequence, Enqueued: m.enqueued, LockedUntil: m.locked, Handle: handle{queue, m, m.token}})
			}
			if err != nil {
				got = nil
			}
			return err
		})
		if ctx.Err() != nil && len(got) == 0 {
			return nil, nil
		}
		if err != nil || len(got) > 0 {
			return got, err
		}
		select {
		case <-changed:
		case <-time.After(time.Until(unlocked)):
		case <-ctx.Done():
		}
	}
}

// holder returns the message of a delivery while its lock is valid.
func holder(d *relay.Delivery) (*stored, error) {
	h := d.Handle.(handle)
	if h.m.gone || h.m.token != h.token || !time.Now().Before(h.m.locked) {
		return nil, fails(relay.LockLost, false, "message-lock-lost")
	}
	return h.m, nil
}

func (c *conn) Settle(ctx context.Context, d *relay.Delivery, how relay.Settlement) error {
	return c.request(ctx, "settle", d.Handle.(handle).queue, func(s *store) error {
		m, err := holder(d)
		if err != nil {
			return err
		}
		if how.Action == relay.Abandon {
			m.locked = time.Time{}
			c.bus.wake()
			return nil
		}
		m.gone = true
		for len(s.messages) > 0 && s.messages[0].gone {
			s.messages = s.messages[1:]
		}
		if how.Action == relay.DeadLetter {
			s.dead = append(s.dead, m)
			s.reasons = append(s.reasons, how.Reason+": "+how.Description)
		}
		return nil
	})
}

func (c *conn) Renew(ctx context.Context, d *relay.Delivery) error {
	return c.request(ctx, "renew", d.Handle.(handle).queue, func(*store) error {
		m, err := holder(d)
		if err == nil {
			m.locked = time.Now().Add(lockTime)
			d.LockedUntil = m.locked
		}
		return err
	})
}
