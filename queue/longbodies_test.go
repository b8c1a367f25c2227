package queue_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"kennel/queue"
)

// sized is a codec of bodies whose text tells which share of the memory of the
// listener they take.
type sized struct{ queue.Text }

const memoryForBodies = 1 << 20

func (sized) Size(m queue.Message) int {
	return map[string]int{"tiny": 10, "half": memoryForBodies / 2, "whole": memoryForBodies, "double": 2 * memoryForBodies}[m.Body]
}

// Long bodies are held only while the memory of the listener leaves room for
// them, and a longer one is held alone. A message that waits for room keeps its
// lease, and its wait is no attempt. A stop puts it back at once.
func TestLongBodies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		queues := newQueues(t, distant)
		put(t, queues, "work", "half", "half", "half", "whole", "double", "tiny", "half", "half")
		var mu sync.Mutex
		held, peak, begun := 0, 0, make(map[string]int)
		l, err := queue.NewListener(queues, []string{"work"}, sized{}, func(_ context.Context, d queue.Delivery[string]) error {
			size := min(sized{}.Size(queue.Message{Body: d.Body}), memoryForBodies)
			mu.Lock()
			held += size
			peak = max(peak, held)
			begun[d.Body]++
			mu.Unlock()
			time.Sleep(20 * time.Minute)
			mu.Lock()
			defer mu.Unlock()
			held -= size
			return nil
		}, queue.ListenerOptions{Drain: time.Hour, MaxAttempts: 1}.WithLimits(memoryForBodies, 0))
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() {
			if err := l.Run(ctx); err != nil {
				t.Error(err)
			}
		})
		time.Sleep(time.Minute)
		mu.Lock()
		if begun["tiny"] != 1 {
			t.Error("a message with a short body waits for memory")
		}
		mu.Unlock()
		await(t, 5*time.Hour, drained(queues, "work"))
		if peak > memoryForBodies+10 || peak < memoryForBodies {
			t.Errorf("bodies of %d bytes were held at the same time, want %d", peak, memoryForBodies)
		}
		for body, n := range map[string]int{"half": 5, "whole": 1, "double": 1, "tiny": 1} {
			if begun[body] != n {
				t.Errorf("%q was begun %d times, want %d", body, begun[body], n)
			}
		}
		if s := l.State()[0]; s.Done != 8 || s.LeasesLost > 0 || s.Retried > 0 || s.DeadLetters > 0 || len(queues.All("work-poison")) > 0 {
			t.Errorf("%+v, want 8 done", s)
		}

		put(t, queues, "work", "whole", "whole")
		await(t, time.Hour, func() bool { return l.State()[0].Hands == 2 })
		time.Sleep(time.Second)
		stop()
		time.Sleep(time.Second)
		if all := queues.All("work"); len(all) != 2 || all[0].NextVisible.After(time.Now()) == all[1].NextVisible.After(time.Now()) {
			t.Errorf("a second after the stop: %+v, want one message put back", all)
		}
		running.Wait()
	})
}
