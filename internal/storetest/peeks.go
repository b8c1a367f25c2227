package storetest

import (
	"slices"
	"time"

	"kennel/queue"
)

// Peeking shows the messages that may be received, and changes nothing.
func peeked(t *queueTest) {
	put := t.put("hello", 0)
	t.put("later", time.Minute)
	for range 2 {
		m := t.peeks(32, "hello")[0]
		t.same(m, put)
		if m.DequeueCount != 0 {
			t.Errorf("dequeue count %d of a message that was not received, want 0", m.DequeueCount)
		}
	}
	held := t.one(time.Second)
	if held.DequeueCount != 1 {
		t.Errorf("dequeue count %d after peeks, want 1", held.DequeueCount)
	}
	t.peeks(32)
	t.update(held, 0)
	if m := t.peeks(32, "hello")[0]; m.DequeueCount != 1 {
		t.Errorf("dequeue count %d of a message that was received, want 1", m.DequeueCount)
	}
	t.put("more", 0)
	if messages, err := t.queues.Peek(t.ctx, t.queue, 1); len(messages) != 1 || err != nil {
		t.Errorf("peeked at %d messages, %v, want 1", len(messages), err)
	}
}

// Lists have the queues that exist, also empty ones.
func listed(t *queueTest) {
	list := func(prefix string, want ...string) {
		t.Helper()
		if names, err := t.queues.List(t.ctx, prefix); err != nil || !slices.Equal(names, want) {
			t.Errorf("listed %q with prefix %q, %v, want %q", names, prefix, err, want)
		}
	}
	prefix := t.queue
	list(prefix)
	for _, name := range []string{prefix + "-1", prefix + "-0", prefix + "-express"} {
		t.queue = name
		t.put("hello", 0)
	}
	t.delete(t.one(long))
	list(prefix, prefix+"-0", prefix+"-1", prefix+"-express")
	list(prefix+"-1", prefix+"-1")
	list(prefix + "-2")
}

// peeks checks the bodies at the front of the queue, in any order.
func (t *queueTest) peeks(max int, want ...string) (messages []queue.Message) {
	t.Helper()
	messages, err := t.queues.Peek(t.ctx, t.queue, max)
	var bodies []string
	for _, m := range messages {
		bodies = append(bodies, m.Body)
		if m.Receipt != "" || !m.NextVisible.IsZero() {
			t.Errorf("peeked at %+v, want no lease", m)
		}
	}
	slices.Sort(bodies)
	if err != nil || !slices.Equal(bodies, want) {
		t.Fatalf("peeked at %q, %v, want %q", bodies, err, want)
	}
	return messages
}
