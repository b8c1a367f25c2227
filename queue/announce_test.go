package queue_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"kennel/internal/memory"
	"kennel/queue"
)

// A message that the caller put by itself is signalled like a published one:
// at most once a second, and the last one of a burst as well.
func TestAnnounce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		signals := memory.NewQueueSignals(nil)
		p := newPublisher(t, memory.NewQueues(nil), &queue.PublisherOptions{Signals: signals})
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- p.Run(ctx) }()
		synctest.Wait()
		for range 100 { // for a second
			p.Announce("work")
			time.Sleep(10 * time.Millisecond)
		}
		time.Sleep(5 * time.Second)
		if n := signals.Published(); n < 2 || n > 3 {
			t.Errorf("%d signals of 100 messages within a second, want 2 or 3", n)
		}
		before := signals.Published()
		p.Announce("work")
		stop()
		if err := <-ended; err != nil || signals.Published() != before+1 {
			t.Errorf("stopped with %v after %d signals of the last message, want 1", err, signals.Published()-before)
		}
	})
}

// Without signals there is nothing to announce.
func TestAnnounceWithoutSignals(t *testing.T) {
	p := newPublisher(t, memory.NewQueues(nil), nil)
	p.Announce("work")
	if s := p.State(); s != (queue.PublisherState{}) {
		t.Errorf("%+v, want nothing done", s)
	}
}
