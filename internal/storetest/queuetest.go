package storetest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"kennel/queue"
)

// Queues are queues under test.
type Queues interface {
	queue.Receiver
	queue.Putter
	queue.Counter
	queue.Peeker
	queue.Lister
}

// queueTest is one test with its own queue, which does not exist yet.
type queueTest struct {
	*testing.T
	ctx    context.Context
	queues Queues
	queue  string
}

const long = time.Hour // longer than any test

func (t *queueTest) put(body string, delay time.Duration) queue.Message {
	t.Helper()
	m, err := t.queues.Put(t.ctx, t.queue, body, delay)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func (t *queueTest) receive(visibility time.Duration) []queue.Message {
	t.Helper()
	messages, err := t.queues.Receive(t.ctx, t.queue, 32, visibility)
	if err != nil {
		t.Fatal(err)
	}
	return messages
}

// one receives exactly one message.
func (t *queueTest) one(visibility time.Duration) queue.Message {
	t.Helper()
	messages := t.receive(visibility)
	if len(messages) != 1 {
		t.Fatalf("received %d messages, want 1", len(messages))
	}
	return messages[0]
}

func (t *queueTest) none() {
	t.Helper()
	if messages := t.receive(long); len(messages) != 0 {
		t.Errorf("received %+v, want nothing", messages)
	}
}

// await polls until a message is visible.
func (t *queueTest) await(visibility time.Duration) queue.Message {
	t.Helper()
	for {
		if messages := t.receive(visibility); len(messages) > 0 {
			return messages[0]
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-t.ctx.Done():
			t.Fatal("no message arrived")
		}
	}
}

func (t *queueTest) update(m queue.Message, visibility time.Duration) queue.Message {
	t.Helper()
	next, err := t.queues.Update(t.ctx, t.queue, m, visibility)
	if err != nil {
		t.Fatal(err)
	}
	t.same(next, m)
	return next
}

func (t *queueTest) delete(m queue.Message) {
	t.Helper()
	if err := t.queues.Delete(t.ctx, t.queue, m); err != nil {
		t.Error(err)
	}
}

func (t *queueTest) counts(want int64) {
	t.Helper()
	if n, err := t.queues.Count(t.ctx, t.queue); err != nil || n != want {
		t.Errorf("count: %d, %v, want %d", n, err, want)
	}
}

// same compares the fields that must not change from one receipt to the next.
func (t *queueTest) same(got, want queue.Message) {
	t.Helper()
	if diff := cmp.Diff(got, want, cmpopts.IgnoreFields(queue.Message{}, "Receipt", "DequeueCount", "NextVisible")); diff != "" {
		t.Errorf("message is (-), was (+):\n%s", diff)
	}
	if got.Receipt == want.Receipt {
		t.Errorf("receipt %q is still the old one", got.Receipt)
	}
}

// lost checks that the receipt of a message is not valid.
func (t *queueTest) lost(m queue.Message) {
	t.Helper()
	if err := t.queues.Delete(t.ctx, t.queue, m); !errors.Is(err, queue.ErrLeaseLost) {
		t.Errorf("delete: %v, want %v", err, queue.ErrLeaseLost)
	}
	if _, err := t.queues.Update(t.ctx, t.queue, m, long); !errors.Is(err, queue.ErrLeaseLost) {
		t.Errorf("update: %v, want %v", err, queue.ErrLeaseLost)
	}
}
