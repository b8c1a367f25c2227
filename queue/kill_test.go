package queue_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"kennel/internal/memory"
	"kennel/internal/storetest"
	"kennel/queue"
)

// TestKilledAtEachRequest runs a process that publishes messages and works on
// them, and kills it before and after each of its storage requests. Another
// process must finish the work: each message is done, or is a dead letter, and
// none is left.
func TestKilledAtEachRequest(t *testing.T) {
	t.Parallel()
	ran := storetest.KillAtEachRequest(t, 1, runKilled)
	if ran < 40 {
		t.Errorf("%d runs are too few", ran)
	}
	t.Logf("figure: messages lost or left, the listener and publisher killed before and after each request (%d runs) | 0 | 0", ran)
}

// The messages, and how their work ends.
var killedWork = map[string]func(ctx context.Context, attempt int64) error{
	"quick": func(context.Context, int64) error { return nil },
	"slow": func(ctx context.Context, _ int64) error {
		time.Sleep(25 * time.Second) // one renewal
		return ctx.Err()
	},
	"fails once": func(_ context.Context, attempt int64) error {
		if attempt == 1 {
			return errors.New("broken")
		}
		return nil
	},
	"fails":      func(context.Context, int64) error { return errors.New("broken") },
	"unreadable": func(context.Context, int64) error { return queue.ErrMessage },
}

func runKilled(t *testing.T, kill *storetest.Killer) {
	queues := newQueues(t, distant)
	signals := memory.NewQueueSignals(nil)
	var mu sync.Mutex
	done := make(map[string]bool)
	live := func(p *storetest.Process, until func() bool) {
		ctx, stop := context.WithTimeout(p.Context(), 5*time.Minute)
		defer stop()
		store := p.Queues(queues)
		publisher := newPublisher(t, store, &queue.PublisherOptions{Signals: signals})
		handle := func(ctx context.Context, d queue.Delivery[string]) error {
			err := killedWork[d.Body](ctx, d.Attempt)
			if err == nil && !p.Dead() {
				mu.Lock()
				done[d.Body] = true
				mu.Unlock()
			}
			return err
		}
		l, err := queue.NewListener(store, []string{"work"}, queue.Text{}, handle, &queue.ListenerOptions{
			Signals: signals, Lease: 20 * time.Second, MaxIdle: 5 * time.Second, MaxAttempts: 3, Drain: time.Second,
		})
		if err != nil {
			t.Fatal(err)
		}
		var running sync.WaitGroup
		running.Go(func() { publisher.Run(ctx) })
		running.Go(func() {
			if err := l.Run(ctx); err != nil && !p.Dead() {
				t.Error(err)
			}
		})
		for body := range killedWork {
			if all := queues.All("work"); len(all) == len(killedWork) || done["quick"] {
				break // published before the kill
			}
			running.Go(func() {
				if err := publisher.Publish(ctx, "work", body, 0); err != nil && !p.Dead() {
					t.Error(err)
				}
			})
		}
		for ctx.Err() == nil && !until() {
			time.Sleep(100 * time.Millisecond)
		}
		stop()
		running.Wait()
	}
	ended := func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(done) >= 3 && len(letters(t, queues)) >= 2 && len(queues.All("work")) == 0
	}
	live(storetest.NewProcess(kill), ended)
	queues.Wait()
	if kill.Struck() {
		live(storetest.NewProcess(nil), ended)
	}
	if left := queues.All("work"); len(left) > 0 {
		t.Errorf("left: %+v", left)
	}
	mu.Lock()
	defer mu.Unlock()
	for _, body := range []string{"quick", "slow", "fails once"} {
		if !done[body] {
			t.Errorf("%q was not done: %v", body, done)
		}
	}
	for id, text := range letters(t, queues) {
		if text != "fails" && text != "unreadable" {
			t.Errorf("dead letter %s is %q", id, text)
		}
	}
}

// letters returns the texts of the dead letters by their identities, so that
// one that is there twice counts as one.
func letters(t testing.TB, queues *memory.Queues) map[string]string {
	t.Helper()
	texts := make(map[string]string)
	for _, m := range queues.All("work" + queue.PoisonSuffix) {
		d, err := queue.ReadDeadLetter(m.Body)
		if err != nil || strings.TrimSpace(d.Reason) == "" {
			t.Errorf("dead letter %+v, %v", d, err)
		}
		texts[fmt.Sprint(d.Queue, " ", d.Message)] = d.Text
	}
	return texts
}
