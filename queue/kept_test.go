package queue_test

import (
	"context"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"kennel/internal/memory"
	"kennel/internal/table"
	"kennel/queue"
)

// TestKeptClaims: a claim goes with its message, however long that waits in its
// queue or among the dead letters, and a claim without a message goes two days
// later, when both are empty.
func TestKeptClaims(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		queues := memory.NewQueues(&memory.Options{Endless: true})
		rows, blobs := memory.NewTable(nil), memory.NewContainer(nil)
		shared, err := table.New(rows)
		if err != nil {
			t.Fatal(err)
		}
		claims, err := queue.NewKeptClaims(shared, blobs, "emails")
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 100*24*time.Hour)
		defer cancel()
		sweep := func(want int) {
			t.Helper()
			if n, err := claims.SweepKept(ctx, time.Now(), queues.Count); n != want || err != nil {
				t.Errorf("%v: %d claims are swept, %v, want %d", time.Now(), n, err, want)
			}
		}
		random := rand.New(rand.NewPCG(1, 2))
		body := claimBody(random, 200<<10, 1)
		long, err := claims.Pack(ctx, queue.Envelope{ID: "long", Time: time.Now()}, body)
		if err != nil {
			t.Fatal(err)
		}
		huge, err := claims.Pack(ctx, queue.Envelope{ID: "huge", Time: time.Now()}, claimBody(random, 4<<20, 1))
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range []string{long, huge} {
			if _, err := queues.Put(ctx, "emails", text, 0); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(40 * 24 * time.Hour)
		sweep(0)

		// One becomes a dead letter, and the other is done, but its claim is not
		// removed.
		messages, err := queues.Receive(ctx, "emails", 32, time.Minute)
		if err != nil || len(messages) != 2 {
			t.Fatalf("%d messages, %v", len(messages), err)
		}
		for _, m := range messages {
			if m.Body == long {
				if _, err := queues.Put(ctx, "emails-poison", m.Body, 0); err != nil {
					t.Fatal(err)
				}
			}
			if err := queues.Delete(ctx, "emails", m); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(40 * 24 * time.Hour)
		sweep(0) // of the dead letter, and of the other for as long
		if _, got, err := claims.Unpack(ctx, long); string(got) != string(body) || err != nil {
			t.Errorf("the dead letter has %d bytes, %v", len(got), err)
		}

		// It goes back, with a claim of its own.
		e, err := queue.Parse(long)
		if err != nil {
			t.Fatal(err)
		}
		if e, err = claims.Extend(ctx, e, time.Now()); err != nil {
			t.Fatal(err)
		}
		back, err := e.Text()
		if err != nil || back == long {
			t.Fatalf("%s, %v", back, err)
		}
		letters, err := queues.Receive(ctx, "emails-poison", 1, time.Minute)
		if err != nil || len(letters) != 1 {
			t.Fatalf("%d dead letters, %v", len(letters), err)
		}
		if err := queues.Delete(ctx, "emails-poison", letters[0]); err != nil {
			t.Fatal(err)
		}
		sweep(2) // the old one, and that of the message that is done
		if _, got, err := claims.Unpack(ctx, back); string(got) != string(body) || err != nil {
			t.Errorf("after its way back it has %d bytes, %v", len(got), err)
		}
	})
}
