package storetest

import (
	"testing"
	"time"
)

// TestLeases checks what holding a message means, as far as both kinds of
// queues promise the same. It takes seconds: leases are in whole ones.
func TestLeases(t *testing.T, queues Queues) {
	runQueueTests(t, queues, []queueTestCase{
		{"Reappears", reappears},
		{"Renewed", renewed},
		{"HandedBack", handedBack},
		{"NewBody", newBody},
		{"StaleReceipt", staleReceipt},
		{"Delayed", delayed},
	})
}

func reappears(t *queueTest) {
	t.put("hello")
	first := t.one(time.Second)
	t.none()
	second := t.await(long)
	t.same(second, first)
	if second.DequeueCount != 2 {
		t.Errorf("dequeue count %d, want 2", second.DequeueCount)
	}
	t.lost(first)
	if err := t.queues.Delete(t.ctx, t.queue, second); err != nil {
		t.Error(err)
	}
}

func renewed(t *queueTest) {
	t.put("hello")
	first := t.one(time.Second)
	held, err := t.queues.Update(t.ctx, t.queue, first, long)
	if err != nil {
		t.Fatal(err)
	}
	t.same(held, first)
	if !held.NextVisible.After(first.NextVisible) {
		t.Errorf("renewed until %v after %v", held.NextVisible, first.NextVisible)
	}
	// A message put with a delay longer than the first lease shows that the
	// time is over.
	if err := t.queues.Put(t.ctx, t.queue, "later", 2*time.Second); err != nil {
		t.Fatal(err)
	}
	if m := t.await(long); m.Body != "later" {
		t.Errorf("received %q in spite of the renewal", m.Body)
	}
	t.lost(first)
	if err := t.queues.Delete(t.ctx, t.queue, held); err != nil {
		t.Error(err)
	}
}

func handedBack(t *queueTest) {
	t.put("hello")
	first := t.one(long)
	given, err := t.queues.Update(t.ctx, t.queue, first, 0)
	if err != nil {
		t.Fatal(err)
	}
	second := t.await(long)
	t.same(second, first)
	if second.DequeueCount != 2 {
		t.Errorf("dequeue count %d, want 2: only receiving counts", second.DequeueCount)
	}
	t.lost(first)
	t.lost(given)
}

func newBody(t *queueTest) {
	t.put("page 0")
	m := t.one(long)
	m.Body = "page 1"
	m, err := t.queues.Update(t.ctx, t.queue, m, 0)
	if err != nil {
		t.Fatal(err)
	}
	if m.Body != "page 1" {
		t.Errorf("update returned %q, want %q", m.Body, "page 1")
	}
	if again := t.await(long); again.Body != "page 1" || again.ID != m.ID {
		t.Errorf("received %+v, want the new body of %s", again, m.ID)
	}
}

func staleReceipt(t *queueTest) {
	t.put("hello")
	first := t.one(long)
	second, err := t.queues.Update(t.ctx, t.queue, first, long)
	if err != nil {
		t.Fatal(err)
	}
	t.lost(first)
	wrong := second
	wrong.ID = "0f8fad5b-d9cb-469f-a165-70867728950e"
	t.lost(wrong)
	if err := t.queues.Delete(t.ctx, t.queue, second); err != nil {
		t.Error(err)
	}
}

func delayed(t *queueTest) {
	if err := t.queues.Put(t.ctx, t.queue, "hello", time.Second); err != nil {
		t.Fatal(err)
	}
	t.none()
	m := t.await(long)
	if m.Body != "hello" || m.DequeueCount != 1 {
		t.Errorf("received %+v", m)
	}
}
