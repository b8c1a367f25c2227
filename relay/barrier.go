package relay

import (
	"context"
	"time"
)

// The drain barrier keeps the messages of a session in order after a failback.
// While a backlog queue holds messages of an entity that this sender put there,
// the entity's messages with a session of that queue follow them into it.
//
// A peek shows locked messages as well, and a syphon completes a message only
// after it is stored in its entity. So a peek that finds none proves that all
// of them arrived.

const (
	peekPause = 200 * time.Millisecond // between the peeks of one entity and queue
	peekPages = 10
)

// mustFollow reports whether a message must go to the backlog although the
// primary works, because earlier messages of its session may be there.
func (s *Sender) mustFollow(ctx context.Context, e *entity, m *Message) bool {
	if s.backlog == nil || m.Properties.GroupID == nil {
		return false
	}
	queue := s.backlog.queueOf(*m.Properties.GroupID)
	now := time.Now()
	e.mu.Lock()
	h := e.holds[queue]
	if h == nil {
		e.mu.Unlock()
		return false
	}
	writes, due := h.writes, !now.Before(h.peekAt)
	if due {
		h.peekAt = now.Add(peekPause)
	}
	e.mu.Unlock()
	if !due || !s.backlog.drained(ctx, queue, e.name) {
		return true
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.holds[queue] != h || h.writes != writes {
		return true // the peek may have missed a message
	}
	delete(e.holds, queue)
	return false
}

// drained reports whether a queue certainly has no message for an entity.
func (b *backlog) drained(ctx context.Context, queue int, entity string) bool {
	from := int64(0)
	for range peekPages {
		page, err := b.links.peek(ctx, b.timeout, b.queues[queue], from)
		if err != nil {
			return false
		}
		if len(page) == 0 {
			return true
		}
		for _, d := range page {
			if d.Message.ApplicationProperties[propPath] == entity {
				return false
			}
			from = d.Sequence + 1
		}
	}
	return false
}
