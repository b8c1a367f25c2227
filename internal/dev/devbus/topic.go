package devbus

import (
	"time"

	"kennel/internal/dev/devbus/amqp"
)

// topic copies each message into all its subscriptions. It stores only
// scheduled messages.
type topic struct {
	entity
	subscriptions []*queue
	sequence      int64
	scheduled     map[int64]*scheduledMessage
	history       history
}

type scheduledMessage struct {
	alarm
	t        *topic
	sequence int64
	content  *content
}

func (t *topic) accept(batch []*content) ([]int64, *amqp.Error) {
	t.touch()
	held := int64(0) // bytes in all subscriptions, which MaxBytes of the topic limits
	for _, q := range t.subscriptions {
		held += q.bytes
	}
	for _, c := range batch {
		held += c.size() * int64(len(t.subscriptions))
	}
	if held > t.settings.MaxBytes {
		return nil, t.full()
	}
	numbers := make([]int64, len(batch))
	for i, c := range batch {
		numbers[i] = t.put(c)
	}
	t.pump()
	return numbers, nil
}

func (t *topic) pump() {
	for _, q := range t.subscriptions {
		q.pump()
	}
}

// put does the same as queue.put. The caller must call pump.
func (t *topic) put(c *content) int64 {
	if sequence, seen := t.history.seen(c.id, t.settings.DuplicateWindow); seen {
		t.b.stats.Duplicates++
		return sequence
	}
	t.sequence++
	t.history.remember(c.id, t.sequence, t.settings.DuplicateWindow)
	if due := t.b.due(c); due > 0 {
		s := &scheduledMessage{t: t, sequence: t.sequence, content: c}
		t.scheduled[s.sequence] = s
		t.b.alarms.set(&s.alarm, time.Now().Add(due), s)
	} else {
		t.fanOut(c, t.sequence)
	}
	return t.sequence
}

func (t *topic) fanOut(c *content, sequence int64) {
	if limit := t.settings.TimeToLive; limit > 0 && (c.ttl == 0 || c.ttl > limit) {
		limited := *c
		limited.ttl = limit
		c = &limited
	}
	for _, q := range t.subscriptions {
		q.sequence++
		q.enqueue(&message{content: c, q: q, sequence: q.sequence, topicSequence: sequence})
	}
}

func (s *scheduledMessage) ring() {
	t := s.t
	t.touch() // a scheduled message uses the topic until now
	delete(t.scheduled, s.sequence)
	t.sequence++
	t.fanOut(s.content, t.sequence)
	t.pump()
}

func (t *topic) cancelScheduled(sequence int64) bool {
	s := t.scheduled[sequence]
	if s == nil {
		return false
	}
	t.touch()
	t.b.alarms.cancel(&s.alarm)
	delete(t.scheduled, sequence)
	return true
}

func (t *topic) clear() {
	for _, s := range t.scheduled {
		t.b.alarms.cancel(&s.alarm)
	}
	clear(t.scheduled)
}
