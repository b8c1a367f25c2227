package storetest

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"kennel/queue"
)

// TestQueues checks the contracts of package queue for messages and leases, on
// queues with unique names. It takes seconds, because leases are in whole
// seconds.
func TestQueues(t *testing.T, queues Queues) {
	for _, tt := range []struct {
		name string
		run  func(*queueTest)
	}{
		{"Absent", absentQueue},
		{"PutReceiveDelete", putReceiveDelete},
		{"Bodies", bodies},
		{"Limits", queueLimits},
		{"Batch", batch},
		{"Together", together},
		{"Cancelled", cancelledQueue},
		{"LeaseEnds", leaseEnds},
		{"LeaseRenewed", leaseRenewed},
		{"HandedBack", handedBack},
		{"Delayed", delayed},
		{"Peeked", peeked},
		{"Listed", listed},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			tt.run(&queueTest{T: t, ctx: ctx, queues: queues, queue: Name()})
		})
	}
}

func absentQueue(t *queueTest) {
	t.none()
	t.peeks(32)
	t.counts(0)
	t.lost(queue.Message{ID: "0f8fad5b-d9cb-469f-a165-70867728950e", Receipt: "AgAAAAMAAAAAAAAA"})
}

func putReceiveDelete(t *queueTest) {
	t.put("hello", 0)
	m := t.one(long)
	if m.ID == "" || m.Receipt == "" || m.Body != "hello" || m.DequeueCount != 1 {
		t.Errorf("received %+v", m)
	}
	if kept := m.Expires.Sub(m.Inserted); kept != 7*24*time.Hour {
		t.Errorf("message is kept for %v, want 7 days", kept)
	}
	if leased := m.NextVisible.Sub(m.Inserted); leased < long || leased > long+time.Minute {
		t.Errorf("message is invisible for %v, want %v", leased, long)
	}
	t.none()
	t.counts(1) // invisible messages count
	other := *t
	other.queue = Name()
	other.put("other", 0)
	other.lost(m)
	t.delete(m)
	t.lost(m)
	t.counts(0)
}

func bodies(t *queueTest) {
	for _, body := range []string{
		"",
		"eyJpZCI6N30=",
		` <a href="x">&amp; ' </a> `,
		"\n two \r\n lines \t",
		"ümlaut 日本 🐕",
		strings.Repeat("x", 64<<10),
	} {
		t.put(body, 0)
		m := t.one(long)
		if m.Body != body {
			t.Errorf("received %.80q, want %.80q", m.Body, body)
		}
		t.delete(m)
	}
}

// Requests that package queue rejects are not sent and do not affect a lease.
func queueLimits(t *queueTest) {
	t.put("hello", 0)
	m := t.one(long)
	changed := m
	changed.Body = "\x00"
	_, put := t.queues.Put(t.ctx, t.queue, changed.Body, 0)
	_, received := t.queues.Receive(t.ctx, t.queue, 33, long)
	_, updated := t.queues.Update(t.ctx, t.queue, changed, long)
	_, counted := t.queues.Count(t.ctx, "No_Queue")
	_, peeked := t.queues.Peek(t.ctx, t.queue, 33)
	_, none := t.queues.Peek(t.ctx, t.queue, 0)
	for i, err := range []error{put, received, updated, counted, peeked, none, t.queues.Delete(t.ctx, "No_Queue", m)} {
		if !errors.Is(err, queue.ErrLimit) {
			t.Errorf("call %d: %v, want %v", i, err, queue.ErrLimit)
		}
	}
	for _, name := range []string{"abc", strings.Repeat("a", 63), "0-a-1"} {
		if _, err := t.queues.Receive(t.ctx, name, 1, long); err != nil {
			t.Errorf("receive from %q: %v", name, err)
		}
	}
	t.none()
	t.delete(m)
}

func batch(t *queueTest) {
	want := make(map[string]bool)
	for i := range 40 {
		body := strings.Repeat("m", i+1)
		want[body] = true
		t.put(body, 0)
	}
	t.counts(40)
	three, err := t.queues.Receive(t.ctx, t.queue, 3, long)
	if err != nil || len(three) != 3 {
		t.Fatalf("received %d, %v, want 3", len(three), err)
	}
	full := t.receive(long)
	if len(full) != 32 {
		t.Errorf("received %d, want 32", len(full))
	}
	for _, m := range append(append(three, full...), t.receive(long)...) {
		if !want[m.Body] {
			t.Errorf("received %q twice, or it was never put", m.Body)
		}
		delete(want, m.Body)
	}
	if len(want) > 0 {
		t.Errorf("%d messages did not arrive", len(want))
	}
}

// Many nodes put messages into a missing queue and receive them concurrently.
// Each message is received once.
func together(t *queueTest) {
	const nodes, each = 8, 4
	var puts, receives sync.WaitGroup
	for range nodes {
		puts.Go(func() {
			for range each {
				if _, err := t.queues.Put(t.ctx, t.queue, "hello", 0); err != nil {
					t.Error(err)
				}
			}
		})
	}
	puts.Wait()
	var mu sync.Mutex
	seen := make(map[string]int)
	for range nodes {
		receives.Go(func() {
			for {
				messages, err := t.queues.Receive(t.ctx, t.queue, 2, long)
				if err != nil {
					t.Error(err)
				}
				if len(messages) == 0 {
					return
				}
				mu.Lock()
				for _, m := range messages {
					seen[m.ID]++
				}
				mu.Unlock()
			}
		})
	}
	receives.Wait()
	for id, times := range seen {
		if times != 1 {
			t.Errorf("message %s was received by %d nodes", id, times)
		}
	}
	if len(seen) != nodes*each {
		t.Errorf("received %d messages, want %d", len(seen), nodes*each)
	}
}

func cancelledQueue(t *queueTest) {
	t.put("hello", 0)
	m := t.one(long)
	ctx, cancel := context.WithCancel(t.ctx)
	cancel()
	_, received := t.queues.Receive(ctx, t.queue, 1, long)
	_, updated := t.queues.Update(ctx, t.queue, m, 0)
	_, put := t.queues.Put(ctx, t.queue, "more", 0)
	_, counted := t.queues.Count(ctx, t.queue)
	_, peeked := t.queues.Peek(ctx, t.queue, 1)
	for i, err := range []error{received, updated, put, counted, peeked, t.queues.Delete(ctx, t.queue, m)} {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("call %d: %v, want %v", i, err, context.Canceled)
		}
	}
	t.none()
	t.delete(m)
}

func leaseEnds(t *queueTest) {
	t.put("hello", 0)
	first := t.one(time.Second)
	t.none()
	second := t.await(long)
	t.same(second, first)
	if second.DequeueCount != 2 {
		t.Errorf("dequeue count %d, want 2", second.DequeueCount)
	}
	t.lost(first)
	t.delete(second)
}

func leaseRenewed(t *queueTest) {
	t.put("hello", 0)
	first := t.one(time.Second)
	held := t.update(first, long)
	if !held.NextVisible.After(first.NextVisible) {
		t.Errorf("renewed until %v after %v", held.NextVisible, first.NextVisible)
	}
	// A message with a delay longer than the first lease marks the time when
	// that lease has ended.
	t.put("later", 2*time.Second)
	if m := t.await(long); m.Body != "later" {
		t.Errorf("received %q although it was renewed", m.Body)
	}
	t.lost(first)
	wrong := held
	wrong.ID = "0f8fad5b-d9cb-469f-a165-70867728950e"
	t.lost(wrong)
	t.delete(held)
}

// The putter of a message can delete it until it is received.
func delayed(t *queueTest) {
	m := t.put("taken back", time.Second)
	t.delete(m)
	t.lost(m)
	m = t.put("hello", time.Second)
	t.none()
	received := t.await(long)
	t.same(received, m)
	t.lost(m)
	if received.Body != "hello" || received.DequeueCount != 1 {
		t.Errorf("received %+v", received)
	}
}

func handedBack(t *queueTest) {
	t.put("page 0", 0)
	first := t.one(long)
	next := first
	next.Body = "page 1"
	given, err := t.queues.Update(t.ctx, t.queue, next, 0)
	if err != nil || given.Body != "page 1" {
		t.Fatalf("update returned %+v, %v", given, err)
	}
	second := t.await(long)
	t.same(second, given)
	if second.DequeueCount != 2 {
		t.Errorf("dequeue count %d, want 2: only receiving counts", second.DequeueCount)
	}
	t.lost(first)
	t.lost(given)
}
