package queue_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"kennel/internal/memory"
	"kennel/queue"
)

// TestAgain: a handler that counts attempts itself decides with which body and
// when its message is received again, also after a stop, and however often.
func TestAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		queues := memory.NewQueues(nil)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if _, err := queues.Put(ctx, "emails", "0", 0); err != nil {
			t.Fatal(err)
		}
		failure := errors.New("no route to host")
		began := time.Now()
		var bodies []string
		var at []time.Duration
		handle := func(_ context.Context, d queue.Delivery[string]) error {
			bodies, at = append(bodies, d.Message.Body), append(at, time.Since(began))
			switch n := len(bodies); {
			case n == 1:
				return queue.Again("1", 10*time.Second, failure)
			case n == 2:
				return queue.Again("", 20*time.Second, nil)
			case n < 40:
				return queue.Again("more", time.Second, failure)
			}
			return nil
		}
		l, err := queue.NewListener(queues, []string{"emails"}, queue.Text{}, handle, &queue.ListenerOptions{MaxAttempts: -1, MaxIdle: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		var running sync.WaitGroup
		running.Go(func() {
			if err := l.Run(ctx); err != nil {
				t.Error(err)
			}
		})
		time.Sleep(10 * time.Minute)
		s := l.State()[0]
		cancel()
		running.Wait()
		if len(bodies) != 40 || bodies[0] != "0" || bodies[1] != "1" || bodies[2] != "1" || bodies[3] != "more" {
			t.Fatalf("received %d times, with %q", len(bodies), bodies)
		}
		if first, second := at[1]-at[0], at[2]-at[1]; first < 10*time.Second || first > 12*time.Second || second < 20*time.Second || second > 22*time.Second {
			t.Errorf("received after %v and %v", first, second)
		}
		if s.Done != 1 || s.DeadLetters != 0 || s.Returned != 1 || s.Retried != 38 || s.LastDone.IsZero() {
			t.Errorf("done %d, dead letters %d, returned %d, retried %d, last done %v", s.Done, s.DeadLetters, s.Returned, s.Retried, s.LastDone)
		}
	})
}
