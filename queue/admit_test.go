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

// valve is the gate of queue work.
type valve struct {
	mu      sync.Mutex
	open    bool
	changed chan struct{}
}

func newValve() *valve { return &valve{changed: make(chan struct{})} }

func (v *valve) set(open bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.open = open
	close(v.changed)
	v.changed = make(chan struct{})
}

func (v *valve) admit(name string) (bool, <-chan struct{}) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.open || name != "work", v.changed
}

// TestAdmit closes the gate of a queue: before the start, when the queue is
// empty, and while it is worked on. No request is made for
// the queue meanwhile, and the messages are begun when the gate opens. The
// other queue is not affected.
func TestAdmit(t *testing.T) {
	const messages, hands = 100, 40
	for _, push := range []bool{true, false} {
		t.Run(fmt.Sprint("signals ", push), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var mu sync.Mutex
				requests := make(map[string]int) // for queue work, by kind
				queues := newQueues(t, func(c memory.Call) memory.Fault {
					mu.Lock()
					defer mu.Unlock()
					if c.Key == "work" {
						requests[c.Op]++
					}
					return distant(c)
				})
				began := make(map[string]time.Time) // of the last attempt, by body
				work := func(_ context.Context, d queue.Delivery[string]) error {
					mu.Lock()
					began[d.Body] = time.Now()
					mu.Unlock()
					if d.Attempt != 1 || d.Redelivered {
						t.Errorf("attempt %d of %s, redelivered %v", d.Attempt, d.Body, d.Redelivered)
					}
					time.Sleep(time.Second)
					return nil
				}
				gate := newValve()
				o := &queue.ListenerOptions{Admit: gate.admit, Hands: hands}
				publisher := queue.PublisherOptions{}.WithParallel(messages)
				if push {
					signals := memory.NewQueueSignals(nil)
					o.Signals, publisher.Signals = signals, signals
				}
				p := newPublisher(t, queues, publisher)
				ctx, stop := context.WithCancel(context.Background())
				var publishing sync.WaitGroup
				publishing.Go(func() { p.Run(ctx) })
				publish := func(name string, bodies ...string) {
					for _, body := range bodies {
						if err := p.Publish(t.Context(), name, body, 0); err != nil {
							t.Error(err)
						}
					}
				}
				// closed expects a time without requests, and then opens the gate.
				closed := func(when string, wait time.Duration, add func(name string, bodies ...string)) {
					mu.Lock()
					clear(requests)
					mu.Unlock()
					for i := range messages {
						add("work", fmt.Sprint(when, i))
					}
					publish("other", when)
					time.Sleep(wait)
					mu.Lock()
					if requests["Put"] != messages || len(requests) != 1 {
						t.Errorf("requests for the queue at a closed gate, %s: %v", when, requests)
					}
					if began[when].IsZero() && (push || wait > time.Minute) {
						t.Errorf("the message of the other queue was not begun %s", when)
					}
					mu.Unlock()
					gate.set(true)
					opened := time.Now()
					await(t, time.Hour, drained(queues, "work"))
					mu.Lock()
					defer mu.Unlock()
					prompt := 0
					for _, at := range began {
						if late := at.Sub(opened); late >= 0 && late <= requestTakes {
							prompt++
						}
					}
					if prompt < queue.MaxReceive {
						t.Errorf("%d messages were begun within %v after the gate opened, %s, want at least those of one request", prompt, requestTakes, when)
					}
				}
				l := listen(t, queues, work, o, "work", "other")
				closed("before the start", time.Hour, publish)

				time.Sleep(10 * time.Minute)
				gate.set(false)
				time.Sleep(time.Second) // a receive may be under way
				closed("of an empty queue", time.Hour, publish)

				time.Sleep(10 * time.Minute)
				gate.set(false)
				time.Sleep(time.Second)
				closed("briefly, without signals", time.Second, func(name string, bodies ...string) { put(t, queues, name, bodies...) })

				publish("work", items(messages)...)
				await(t, time.Minute, func() bool { return l.state().Hands > 0 })
				gate.set(false)
				time.Sleep(time.Minute)
				for _, m := range queues.All("work") {
					if m.DequeueCount > 0 {
						t.Errorf("received before the gate closed, but not done: %+v", m)
					}
				}
				closed("beside messages", time.Hour, publish)

				gate.set(false)
				time.Sleep(time.Second)
				publish("work", "never")
				time.Sleep(time.Minute)
				if took := l.end(); took != 0 {
					t.Errorf("the stop took %v at a closed gate", took)
				}
				stop()
				publishing.Wait()
				if all := queues.All("work"); len(all) != 1 || all[0].DequeueCount != 0 {
					t.Errorf("left: %+v", all)
				}
			})
		})
	}
}
