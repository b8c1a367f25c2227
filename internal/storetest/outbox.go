package storetest

import (
	"context"
	"encoding/base64"
	"testing"
	"time"

	"kennel/channels"
)

// TestOutbox checks everything that [channels.Outbox] promises. The messages
// of newOutbox's outboxes come out of the queue of the given name.
func TestOutbox(t *testing.T, queues Queues, newOutbox func(queue string) channels.Outbox) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	queue := Name()
	outbox := newOutbox(queue)
	receive := func() (bodies []string) {
		t.Helper()
		messages, err := queues.Receive(ctx, queue, 32, long)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range messages {
			body, err := base64.StdEncoding.DecodeString(m.Body)
			if err != nil {
				t.Errorf("body %q is not what the Functions host decodes: %v", m.Body, err)
			}
			bodies = append(bodies, string(body))
			if err := queues.Delete(ctx, queue, m); err != nil {
				t.Error(err)
			}
		}
		return bodies
	}
	put := func(text string, delay time.Duration) (receipt string) {
		t.Helper()
		receipt, err := outbox.Put(ctx, text, delay)
		if err != nil {
			t.Fatal(err)
		}
		return receipt
	}

	text := `{"v":1,"channel":"日本 \u0000 <>"}`
	at := put(text, 0) // into a queue that does not exist yet
	if got := receive(); len(got) != 1 || got[0] != text {
		t.Errorf("received %q, want %q", got, text)
	}
	if err := outbox.Delete(ctx, at); err == nil {
		t.Error("a message that was received could be taken back")
	}

	soon, late := put("soon", time.Second), put("late", time.Hour)
	if got := receive(); len(got) != 0 {
		t.Errorf("received %q before its time", got)
	}
	if err := outbox.Delete(ctx, soon); err != nil {
		t.Error(err)
	}
	if err := outbox.Delete(ctx, soon); err == nil {
		t.Error("a message could be taken back twice")
	}
	put("marker", 2*time.Second)
	for got := receive(); len(got) == 0 || got[0] != "marker"; got = receive() {
		if len(got) > 0 {
			t.Fatalf("received %q, which was taken back", got)
		}
		pause(t, ctx)
	}
	if err := outbox.Delete(ctx, late); err != nil {
		t.Error(err)
	}

	for _, delay := range []time.Duration{-1, 7 * 24 * time.Hour} {
		if _, err := outbox.Put(ctx, "x", delay); err == nil {
			t.Errorf("put after %v: no error", delay)
		}
	}
	if err := outbox.Delete(ctx, "nonsense"); err == nil {
		t.Error("a receipt that is none was taken")
	}
}

func pause(t *testing.T, ctx context.Context) {
	t.Helper()
	tick := time.NewTimer(50 * time.Millisecond)
	defer tick.Stop()
	select {
	case <-tick.C:
	case <-ctx.Done():
		t.Fatal("no message came")
	}
}
