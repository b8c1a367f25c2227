package storetest

import (
	"encoding/base64"
	"testing"
	"time"

	"kennel/queue"
)

// TestOutbox checks what a [queue.Outbox] promises in addition to its queues:
// the encoding, and that a receipt deletes a message that was not received.
func TestOutbox(t *testing.T, queues Queues) {
	q := &queueTest{T: t, ctx: t.Context(), queues: queues, queue: Name()}
	outbox, err := queue.NewOutbox(queues, q.queue)
	if err != nil {
		t.Fatal(err)
	}
	put := func(text string, delay time.Duration) (receipt string) {
		t.Helper()
		receipt, err := outbox.Put(t.Context(), text, delay)
		if err != nil {
			t.Fatal(err)
		}
		return receipt
	}
	const text = `{"v":1,"channel":"日本 \u0000 <>"}`
	receipt := put(text, 0) // into a queue that does not exist yet
	body, err := base64.StdEncoding.DecodeString(q.one(long).Body)
	if err != nil || string(body) != text {
		t.Errorf("the Functions host decodes %q, %v, want %q", body, err, text)
	}
	if err := outbox.Delete(t.Context(), receipt); err == nil {
		t.Error("deleted a message that was received")
	}
	receipt = put("late", long)
	if err := outbox.Delete(t.Context(), receipt); err != nil {
		t.Error(err)
	}
	q.counts(1)
	for _, receipt := range []string{receipt, "invalid", ""} {
		if err := outbox.Delete(t.Context(), receipt); err == nil {
			t.Errorf("receipt %q was accepted", receipt)
		}
	}
	if _, err := outbox.Put(t.Context(), "x", -1); err == nil {
		t.Error("a negative delay was accepted")
	}
}
