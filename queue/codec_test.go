package queue_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"kennel/queue"
)

// panics is a codec that cannot count attempts, and cannot make a dead letter at
// first.
type panics struct {
	queue.Text
	letters int // that failed
}

func (*panics) Attempts(queue.Message) (int64, string) { panic("no number") }

func (c *panics) DeadLetter(ctx context.Context, d queue.DeadLetter) (string, error) {
	if c.letters++; c.letters < 3 {
		panic("no letter")
	}
	return c.Text.DeadLetter(ctx, d)
}

// A codec that panics does not end the process. The store counts the attempts,
// and the message stays until there is a dead letter.
func TestCodecPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		queues := newQueues(t, distant)
		put(t, queues, "work", "hello")
		handle := func(context.Context, queue.Delivery[string]) error { panic("no work") }
		l, err := queue.NewListener(queues, []string{"work"}, &panics{}, handle, &queue.ListenerOptions{MaxAttempts: 2, MaxIdle: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- l.Run(ctx) }()
		await(t, 10*time.Minute, drained(queues, "work"))
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if s := l.State()[0]; s.Retried != 1 || s.DeadLetters != 1 || len(letters(t, queues)) != 1 {
			t.Errorf("%+v, want another attempt and then a dead letter", s)
		}
	})
}
