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
	scheduled     shelf
	history       history
}

func (t *topic) accept(batch []*content) ([]int64, *amqp.Error) {
	t.touch()
	held := t.size()
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

// size returns the bytes that count towards MaxBytes.
func (t *topic) size() int64 {
	size := int64(0)
	for _, q := range t.subscriptions {
		size += q.size()
	}
	for _, m := range t.scheduled {
		size += m.content.size()
	}
	return size
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
	if due := t.b.due(c); due.After(time.Now()) {
		m := &message{content: c, sequence: t.sequence, enqueued: t.b.stamp(time.Now()), state: stateScheduled}
		t.scheduled.add(m)
		t.b.alarms.set(&m.alarm, due, ringFunc(func() { t.activate(m) }))
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

// activate publishes a scheduled message.
func (t *topic) activate(m *message) {
	t.touch() // a scheduled message uses the topic until now
	t.scheduled.remove(m)
	t.sequence++
	t.fanOut(m.content, t.sequence)
	t.pump()
}

func (t *topic) cancelScheduled(sequence int64) bool {
	m := t.scheduled.get(sequence)
	if m == nil {
		return false
	}
	t.touch()
	t.b.alarms.cancel(&m.alarm)
	t.scheduled.remove(m)
	return true
}

func (t *topic) clear() {
	for _, m := range t.scheduled {
		t.b.alarms.cancel(&m.alarm)
	}
	t.scheduled = nil
}
