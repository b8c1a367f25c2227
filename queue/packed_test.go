package queue_test

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"kennel/queue"
)

// A listener works on packed messages, with their identity and their own count
// of attempts. It removes a claim when the message is done, and keeps it for a
// dead letter.
func TestPackedMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		queues := newQueues(t, distant)
		claims, stores := newClaims(t, nil)
		random := rand.New(rand.NewPCG(1, 1))
		long := claimBody(random, 200<<10, 1)
		ctx, cancel := context.WithTimeout(t.Context(), 24*time.Hour)
		defer cancel()
		texts := map[string]string{"no envelope": "no envelope"}
		for _, id := range []string{"short", "long", "fails", "twice"} {
			body := long
			if id == "short" {
				body = []byte("hello")
			}
			texts[id] = packed(t, claims, claimWork(id), body)
		}
		put(t, queues, "work", texts["no envelope"], texts["short"], texts["long"], texts["fails"], texts["twice"])
		if _, err := queues.Put(ctx, "work", texts["twice"], 10*time.Second); err != nil {
			t.Fatal(err)
		}

		var mu sync.Mutex
		attempts := make(map[string][]int64)
		l, err := queue.NewListener(queues, []string{"work"}, queue.Packed{Claims: claims}, func(_ context.Context, d queue.Delivery[[]byte]) error {
			if d.ID != "short" && !bytes.Equal(d.Body, long) {
				t.Errorf("%s: another body of %d bytes", d.ID, len(d.Body))
			}
			mu.Lock()
			defer mu.Unlock()
			attempts[d.ID] = append(attempts[d.ID], d.Attempt)
			if d.ID == "fails" {
				return errors.New("broken")
			}
			return nil
		}, &queue.ListenerOptions{MaxAttempts: 3, Hands: 1, MaxIdle: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(ctx)
		var running sync.WaitGroup
		running.Go(func() {
			if err := l.Run(ctx); err != nil {
				t.Error(err)
			}
		})
		await(t, time.Minute, drained(queues, "work"))
		stop()
		running.Wait()

		if len(attempts["short"]) != 1 || len(attempts["long"]) != 1 || len(attempts["twice"]) != 1 || len(attempts["fails"]) != 3 || attempts["fails"][2] != 3 {
			t.Errorf("attempts: %v", attempts)
		}
		if s := l.State()[0]; s.Done != 4 || s.Repeated != 1 || s.DeadLetters != 2 {
			t.Errorf("%+v, want 4 done, one of them without work, and 2 dead letters", s)
		}
		for _, m := range queues.All("work" + queue.PoisonSuffix) {
			e, body, err := claims.Unpack(t.Context(), m.Body)
			if err != nil || e.Reason == "" {
				t.Errorf("dead letter %.200s: %v", m.Body, err)
			}
			switch {
			case e.ID == "fails" && e.Attempts == 3 && e.Reason == "broken" && bytes.Equal(body, long):
			case e.Raw && e.Attempts == 1 && string(body) == "no envelope":
			default:
				t.Errorf("dead letter %+v", e)
			}
		}
		if n := stores.left(); n == 0 || n > 8 {
			t.Errorf("%d rows and blobs are left, want those of the dead letter", n)
		}
	})
}

// A message whose claim is gone is not done silently: it becomes a dead letter,
// also if the claim was due to be extended. A copy of a message that the same
// listener has done is no such case.
func TestClaimGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		queues := newQueues(t, distant)
		claims, _ := newClaims(t, nil)
		long := claimBody(rand.New(rand.NewPCG(1, 1)), 200<<10, 1)
		texts := make(map[string]string)
		for _, id := range []string{"old", "new", "twice"} {
			if id == "new" {
				time.Sleep(8 * 24 * time.Hour)
			}
			texts[id] = packed(t, claims, claimWork(id), long)
			if id == "twice" {
				continue
			}
			e, err := queue.Parse(texts[id])
			if err == nil {
				err = claims.Remove(t.Context(), e)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		put(t, queues, "work", texts["old"], texts["new"], texts["twice"])
		ctx, stop := context.WithCancel(t.Context())
		l, err := queue.NewListener(queues, []string{"work"}, queue.Packed{Claims: claims}, func(_ context.Context, d queue.Delivery[[]byte]) error {
			if d.ID != "twice" {
				t.Errorf("message %s was done without its claim", d.ID)
			}
			return nil
		}, &queue.ListenerOptions{MaxIdle: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		var running sync.WaitGroup
		running.Go(func() {
			if err := l.Run(ctx); err != nil {
				t.Error(err)
			}
		})
		await(t, time.Minute, drained(queues, "work"))
		put(t, queues, "work", texts["twice"])
		await(t, time.Minute, drained(queues, "work"))
		stop()
		running.Wait()
		letters := queues.All("work" + queue.PoisonSuffix)
		if len(letters) != 2 {
			t.Fatalf("%d dead letters, want those of the two messages without claim", len(letters))
		}
		for _, m := range letters {
			if e, err := queue.Parse(m.Body); err != nil || e.ID == "twice" || !strings.Contains(e.Reason, "claim of the message is gone") {
				t.Errorf("dead letter %.200s: %v", m.Body, err)
			}
		}
		if s := l.State()[0]; s.Done != 2 || s.Repeated != 1 {
			t.Errorf("%+v, want 2 done, one of them without work", s)
		}
	})
}
