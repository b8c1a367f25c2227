package localhost

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"testing"
	"time"
)

// fakeQueues is a strict queue service in memory, on the clock of the test's bubble: a hidden message cannot be
// received, and only the newest receipt renews or deletes it.
type fakeQueues struct {
	fail func(op, queue string) error // nil: nothing fails

	mu       sync.Mutex
	queues   map[string][]*QueueMessage // guarded by mu
	receives []time.Time                // of every Receive; guarded by mu
	serial   int                        // guarded by mu
	changed  chan struct{}              // closed and replaced at each change; guarded by mu
}

var errStale = errors.New("pop receipt mismatch")

func newFakeQueues() *fakeQueues {
	return &fakeQueues{queues: map[string][]*QueueMessage{}, changed: make(chan struct{})}
}

func (q *fakeQueues) failing(op, queue string) error {
	if q.fail == nil {
		return nil
	}
	return q.fail(op, queue)
}

func (q *fakeQueues) next() string {
	q.serial++
	return strconv.Itoa(q.serial)
}

func (q *fakeQueues) Receive(_ context.Context, queue string, max int, visibility time.Duration) ([]QueueMessage, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := time.Now()
	q.receives = append(q.receives, now)
	if err := q.failing("Receive", queue); err != nil {
		return nil, err
	}
	var got []QueueMessage
	for _, m := range q.queues[queue] {
		if len(got) < max && !m.NextVisible.After(now) {
			m.DequeueCount++
			m.Receipt, m.NextVisible = q.next(), now.Add(visibility)
			got = append(got, *m)
		}
	}
	return got, nil
}

func (q *fakeQueues) Hide(_ context.Context, queue string, m QueueMessage, visibility time.Duration) (QueueMessage, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if err := q.failing("Hide", queue); err != nil {
		return QueueMessage{}, err
	}
	for _, stored := range q.queues[queue] {
		if stored.ID == m.ID && stored.Receipt == m.Receipt {
			stored.Receipt, stored.NextVisible = q.next(), time.Now().Add(visibility)
			return *stored, nil
		}
	}
	return QueueMessage{}, errStale
}

func (q *fakeQueues) Delete(_ context.Context, queue string, m QueueMessage) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if err := q.failing("Delete", queue); err != nil {
		return err
	}
	for i, stored := range q.queues[queue] {
		if stored.ID == m.ID && stored.Receipt == m.Receipt {
			q.queues[queue] = append(q.queues[queue][:i:i], q.queues[queue][i+1:]...)
			q.change()
			return nil
		}
	}
	return errStale
}

func (q *fakeQueues) Put(_ context.Context, queue, body string) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if err := q.failing("Put", queue); err != nil {
		return err
	}
	now := time.Now()
	q.queues[queue] = append(q.queues[queue], &QueueMessage{ID: "m" + q.next(), Body: body, Inserted: now, Expires: now.Add(7 * 24 * time.Hour), NextVisible: now})
	q.change()
	return nil
}

func (q *fakeQueues) change() {
	close(q.changed)
	q.changed = make(chan struct{})
}

// bodies are those of all messages of a queue, visible or not.
func (q *fakeQueues) bodies(queue string) []string {
	q.mu.Lock()
	defer q.mu.Unlock()
	var bodies []string
	for _, m := range q.queues[queue] {
		bodies = append(bodies, m.Body)
	}
	return bodies
}

// put appends a message, which must not fail.
func (q *fakeQueues) put(t *testing.T, queue, body string) {
	t.Helper()
	if err := q.Put(t.Context(), queue, body); err != nil {
		t.Fatal(err)
	}
}

// await returns when a queue has so many messages, however long that takes.
func (q *fakeQueues) await(t *testing.T, queue string, want int) {
	t.Helper()
	for {
		q.mu.Lock()
		length, changed := len(q.queues[queue]), q.changed
		q.mu.Unlock()
		if length == want {
			return
		}
		select {
		case <-changed:
		case <-t.Context().Done():
			t.Fatal(t.Context().Err())
		}
	}
}
