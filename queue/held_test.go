package queue_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"kennel/internal/memory"
	"kennel/internal/storetest"
	"kennel/queue"
)

// TestKilledWorkRunsAgainSoon: after the kill of a process, another one begins
// the messages that it held at most five seconds after the end of their leases,
// however long that process had nothing to do, with signals and without.
func TestKilledWorkRunsAgainSoon(t *testing.T) {
	const within = 5 * time.Second
	kills := storetest.Scale(10, 100)
	var worst time.Duration
	held := 0
	for _, push := range []bool{true, false} {
		for _, busy := range []bool{false, true} {
			for i := range kills {
				synctest.Test(t, func(t *testing.T) {
					late, ran := killWorker(t, push, busy, time.Duration(i)*50*time.Second/time.Duration(kills))
					if worst = max(worst, late); ran {
						held++
					}
				})
			}
		}
	}
	t.Logf("figure: a message of a killed process runs again, after the end of its lease (%d kills) | %v | ≤ %v", held, worst, within)
	if held < 2*kills {
		t.Errorf("%d of %d processes held the message: too few for a meaningful test", held, 4*kills)
	}
	if worst > within {
		t.Errorf("a message ran again %v after the end of its lease, want at most %v", worst, within)
	}
}

// killWorker kills a process some time after it began a message, and returns how
// long after the end of the lease another one began it. That one is idle before,
// or busy with a message of its own. It may also receive the message first; then
// no killed process held it.
func killWorker(t *testing.T, push, busy bool, after time.Duration) (late time.Duration, ran bool) {
	queues := newQueues(t, distant)
	o := &queue.ListenerOptions{Lease: 30 * time.Second, MaxWork: 2 * time.Hour}
	send := func(body string) { put(t, queues, "work", body) }
	if push {
		signals := memory.NewQueueSignals(nil)
		o.Signals = signals
		send = func(body string) {
			put(t, queues, "work", body)
			if err := signals.Publish(t.Context(), queue.Signal{Queue: "work", Kind: queue.Work}); err != nil {
				t.Error(err)
			}
		}
	}
	var began, again atomic.Int64 // of the message
	other := listen(t, queues, func(ctx context.Context, d queue.Delivery[string]) error {
		if d.Body == "own" {
			return takes(time.Hour)(ctx, d)
		}
		again.Store(time.Now().UnixNano())
		return nil
	}, o)
	time.Sleep(10 * time.Minute)
	if busy {
		send("own")
	}
	time.Sleep(5*time.Minute + after)
	p := storetest.NewProcess(nil)
	killed, err := queue.NewListener(p.Queues(queues), []string{"work"}, queue.Text{}, func(ctx context.Context, d queue.Delivery[string]) error {
		began.Store(time.Now().UnixNano())
		return takes(time.Hour)(ctx, d)
	}, o)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error)
	go func() { ended <- killed.Run(p.Context()) }()
	synctest.Wait() // its first receive is under way
	send("held")
	time.Sleep(after + time.Second/2)
	p.Die()
	time.Sleep(time.Second) // a renewal that was under way may still be applied
	for _, m := range queues.All("work") {
		if m.Body == "held" && began.Load() > 0 {
			await(t, time.Hour, func() bool { return again.Load() > 0 })
			late = time.Unix(0, again.Load()).Sub(m.NextVisible)
			ran = true
		}
	}
	other.end()
	if err := <-ended; err != nil {
		t.Log(err) // its requests failed
	}
	return late, ran
}
