package queue_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"kennel/internal/memory"
	"kennel/queue"
)

// requestTakes is the time of a request, there and back.
const requestTakes = 20 * time.Millisecond

// distant is a store that takes requestTakes for each request.
func distant(memory.Call) memory.Fault {
	return memory.Fault{Delay: requestTakes / 2, Back: requestTakes / 2}
}

func newQueues(t testing.TB, fault func(memory.Call) memory.Fault) *memory.Queues {
	return memory.NewQueues(&memory.Options{Fault: fault, OnMisuse: func(problem string) { t.Error(problem) }})
}

func put(t testing.TB, queues queue.Putter, name string, bodies ...string) {
	t.Helper()
	for _, body := range bodies {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if _, err := queues.Put(ctx, name, body, 0); err != nil {
			t.Fatal(err)
		}
	}
}

// running is a listener that runs.
type running struct {
	*queue.Listener[string]
	t    testing.TB
	stop context.CancelFunc
	err  chan error
}

// listen runs a listener in a synctest bubble. The test must stop it.
func listen(t testing.TB, store queue.Store, handle queue.Handler[string], o *queue.ListenerOptions, queues ...string) *running {
	t.Helper()
	if len(queues) == 0 {
		queues = []string{"work"}
	}
	l, err := queue.NewListener(store, queues, queue.Text{}, handle, o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	r := &running{l, t, stop, make(chan error, 1)}
	go func() { r.err <- l.Run(ctx) }()
	return r
}

// end stops the listener and returns how long that took.
func (r *running) end() time.Duration {
	r.t.Helper()
	begun := time.Now()
	r.stop()
	if err := <-r.err; err != nil {
		r.t.Error(err)
	}
	return time.Since(begun)
}

func (r *running) state() queue.QueueState { return r.State()[0] }

// await waits in virtual time until done returns true.
func await(t testing.TB, limit time.Duration, done func() bool) {
	t.Helper()
	step := 10 * time.Millisecond
	if limit > time.Hour {
		step = 10 * time.Second
	}
	for end := time.Now().Add(limit); ; time.Sleep(step) {
		synctest.Wait()
		if done() {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("it did not happen within %v", limit)
		}
	}
}

// drained reports whether a queue is empty.
func drained(queues *memory.Queues, name string) func() bool {
	return func() bool { return len(queues.All(name)) == 0 }
}

// runs counts the attempts of each body.
type runs struct {
	mu   sync.Mutex
	runs map[string]int
}

func (r *runs) begin(body string) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.runs == nil {
		r.runs = make(map[string]int)
	}
	r.runs[body]++
	return r.runs[body]
}

func (r *runs) of(body string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.runs[body]
}

// items returns bodies.
func items(n int) (bodies []string) {
	for i := range n {
		bodies = append(bodies, fmt.Sprint("item ", i))
	}
	return bodies
}

// nothing is work that takes no time.
func nothing(context.Context, queue.Delivery[string]) error { return nil }

// takes returns work that takes a while.
func takes(d time.Duration) queue.Handler[string] {
	return func(ctx context.Context, _ queue.Delivery[string]) error {
		select {
		case <-time.After(d):
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
