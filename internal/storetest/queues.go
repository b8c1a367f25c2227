package storetest

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// Message is a queue's message as it was received.
type Message struct {
	ID, Receipt, Body              string
	DequeueCount                   int64
	Inserted, Expires, NextVisible time.Time
}

// QueueStore is what the queues of memory and of Azure have in common, but for
// the names of their types.
type QueueStore interface {
	Receive(ctx context.Context, queue string, max int, visibility time.Duration) ([]Message, error)
	Update(ctx context.Context, queue string, m Message, visibility time.Duration) (Message, error)
	Delete(ctx context.Context, queue string, m Message) error
	Put(ctx context.Context, queue, body string, delay time.Duration) error
}

// Queues are queues under test.
type Queues struct {
	QueueStore
	LeaseLost error // what they answer to a receipt that counts no more
}

// TestQueues checks what both kinds of queues promise about their messages. It
// works on queues of names of its own. See also [TestLeases].
func TestQueues(t *testing.T, queues Queues) {
	runQueueTests(t, queues, []queueTestCase{
		{"Absent", absentQueue},
		{"PutReceiveDelete", putReceiveDelete},
		{"Bodies", bodies},
		{"RefusedBodies", refusedBodies},
		{"Limits", queueLimits},
		{"Names", queueNames},
		{"Batch", batch},
		{"OneReceiver", oneReceiver},
		{"PutTogether", putTogether},
		{"Apart", queuesApart},
		{"Cancelled", cancelledQueue},
	})
}

type queueTestCase struct {
	name string
	run  func(*queueTest)
}

func runQueueTests(t *testing.T, queues Queues, tests []queueTestCase) {
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			test.run(&queueTest{T: t, ctx: ctx, queues: queues, queue: Name()})
		})
	}
}

// queueTest is one test with a queue of its own that does not exist yet.
type queueTest struct {
	*testing.T
	ctx    context.Context
	queues Queues
	queue  string
}

const long = time.Hour // longer than any test

func (t *queueTest) put(body string) {
	t.Helper()
	if err := t.queues.Put(t.ctx, t.queue, body, 0); err != nil {
		t.Fatal(err)
	}
}

func (t *queueTest) receive(visibility time.Duration) []Message {
	t.Helper()
	messages, err := t.queues.Receive(t.ctx, t.queue, 32, visibility)
	if err != nil {
		t.Fatal(err)
	}
	return messages
}

// one receives exactly one message.
func (t *queueTest) one(visibility time.Duration) Message {
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

// await polls until there is a message again.
func (t *queueTest) await(visibility time.Duration) Message {
	t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		if messages := t.receive(visibility); len(messages) > 0 {
			return messages[0]
		}
		select {
		case <-tick.C:
		case <-t.ctx.Done():
			t.Fatal("no message came")
		}
	}
}

// same compares what must not change from one receive to the next.
func (t *queueTest) same(got, want Message) {
	t.Helper()
	if diff := cmp.Diff(got, want, cmpopts.IgnoreFields(Message{}, "Receipt", "DequeueCount", "NextVisible")); diff != "" {
		t.Errorf("message is (-), was (+):\n%s", diff)
	}
	if got.Receipt == want.Receipt {
		t.Errorf("receipt %q is still the old one", got.Receipt)
	}
}

func (t *queueTest) lost(m Message) {
	t.Helper()
	if err := t.queues.Delete(t.ctx, t.queue, m); !errors.Is(err, t.queues.LeaseLost) {
		t.Errorf("delete: %v, want %v", err, t.queues.LeaseLost)
	}
	if _, err := t.queues.Update(t.ctx, t.queue, m, long); !errors.Is(err, t.queues.LeaseLost) {
		t.Errorf("update: %v, want %v", err, t.queues.LeaseLost)
	}
}

func absentQueue(t *queueTest) {
	t.none()
	t.lost(Message{ID: "0f8fad5b-d9cb-469f-a165-70867728950e", Receipt: "AgAAAAMAAAAAAAAA"})
}

func putReceiveDelete(t *queueTest) {
	t.put("hello")
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
	if err := t.queues.Delete(t.ctx, t.queue, m); err != nil {
		t.Error(err)
	}
	t.lost(m) // deleted is not held
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
		t.put(body)
		m := t.one(long)
		if m.Body != body {
			t.Errorf("received %.80q, want %.80q", m.Body, body)
		}
		if err := t.queues.Delete(t.ctx, t.queue, m); err != nil {
			t.Error(err)
		}
	}
}

func refusedBodies(t *queueTest) {
	t.put("hello")
	m := t.one(long)
	for _, body := range []string{strings.Repeat("x", 64<<10+1), "\x00", "bell \a", "\xff", "\uffff"} {
		if err := t.queues.Put(t.ctx, t.queue, body, 0); err == nil {
			t.Errorf("put %.80q: no error", body)
		}
		changed := m
		changed.Body = body
		if _, err := t.queues.Update(t.ctx, t.queue, changed, long); err == nil || errors.Is(err, t.queues.LeaseLost) {
			t.Errorf("update to %.80q: %v, want a refusal", body, err)
		}
	}
	t.none()
	if err := t.queues.Delete(t.ctx, t.queue, m); err != nil {
		t.Errorf("the refusals cost the lease: %v", err)
	}
}

func queueLimits(t *queueTest) {
	const week = 7 * 24 * time.Hour
	t.put("hello")
	for _, max := range []int{-1, 0, 33} {
		if _, err := t.queues.Receive(t.ctx, t.queue, max, long); err == nil {
			t.Errorf("receive %d: no error", max)
		}
	}
	for _, visibility := range []time.Duration{-1, 0, week + 1} {
		if _, err := t.queues.Receive(t.ctx, t.queue, 1, visibility); err == nil {
			t.Errorf("receive for %v: no error", visibility)
		}
	}
	m := t.one(long) // the message is still there
	for _, visibility := range []time.Duration{-1, week + 1} {
		if _, err := t.queues.Update(t.ctx, t.queue, m, visibility); err == nil {
			t.Errorf("update for %v: no error", visibility)
		}
	}
	for _, delay := range []time.Duration{-1, week, week - 1} { // never seen before it expires
		if err := t.queues.Put(t.ctx, t.queue, "late", delay); err == nil {
			t.Errorf("put after %v: no error", delay)
		}
	}
}

func queueNames(t *queueTest) {
	for _, name := range []string{"", "ab", strings.Repeat("a", 64), "Upper", "-a1", "a1-", "a--b", "a_b", "a.b", "ümlaut"} {
		if err := t.queues.Put(t.ctx, name, "hello", 0); err == nil {
			t.Errorf("put into %q: no error", name)
		}
		if _, err := t.queues.Receive(t.ctx, name, 1, long); err == nil {
			t.Errorf("receive from %q: no error", name)
		}
	}
	for _, name := range []string{"abc", strings.Repeat("a", 63), "0-a-1"} {
		if _, err := t.queues.Receive(t.ctx, name, 1, long); err != nil {
			t.Errorf("receive from %q: %v", name, err)
		}
	}
}

func batch(t *queueTest) {
	want := make(map[string]bool)
	for i := range 40 {
		body := strings.Repeat("m", i+1)
		want[body] = true
		t.put(body)
	}
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
			t.Errorf("received %q twice or never put", m.Body)
		}
		delete(want, m.Body)
	}
	if len(want) > 0 {
		t.Errorf("%d messages did not come", len(want))
	}
}

func oneReceiver(t *queueTest) {
	const count = 30
	for range count {
		t.put("hello")
	}
	var mu sync.Mutex
	seen := make(map[string]int)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
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
	wg.Wait()
	for id, times := range seen {
		if times != 1 {
			t.Errorf("message %s was received by %d at once", id, times)
		}
	}
	if len(seen) != count {
		t.Errorf("received %d messages, want %d", len(seen), count)
	}
}

func putTogether(t *queueTest) {
	var wg sync.WaitGroup
	for range 8 { // all find the queue missing
		wg.Go(func() {
			if err := t.queues.Put(t.ctx, t.queue, "hello", 0); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if got := len(t.receive(long)); got != 8 {
		t.Errorf("received %d messages, want 8", got)
	}
}

func queuesApart(t *queueTest) {
	t.put("hello")
	m := t.one(long)
	other := Name()
	if err := t.queues.Put(t.ctx, other, "other", 0); err != nil {
		t.Fatal(err)
	}
	if err := t.queues.Delete(t.ctx, other, m); !errors.Is(err, t.queues.LeaseLost) {
		t.Errorf("delete in another queue: %v, want %v", err, t.queues.LeaseLost)
	}
	t.none()
	if err := t.queues.Delete(t.ctx, t.queue, m); err != nil {
		t.Error(err)
	}
}

func cancelledQueue(t *queueTest) {
	t.put("hello")
	m := t.one(long)
	ctx, cancel := context.WithCancel(t.ctx)
	cancel()
	_, received := t.queues.Receive(ctx, t.queue, 1, long)
	_, updated := t.queues.Update(ctx, t.queue, m, 0)
	for op, err := range map[string]error{
		"receive": received,
		"update":  updated,
		"delete":  t.queues.Delete(ctx, t.queue, m),
		"put":     t.queues.Put(ctx, t.queue, "more", 0),
	} {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v, want %v", op, err, context.Canceled)
		}
	}
	t.none()
	if err := t.queues.Delete(t.ctx, t.queue, m); err != nil {
		t.Error(err)
	}
}
