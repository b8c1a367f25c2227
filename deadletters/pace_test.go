package deadletters_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"kennel/deadletters"
	"kennel/internal/memory"
	"kennel/internal/storetest"
	"kennel/queue"
)

// TestRate redrives at a rate, over several calls. No message is put earlier
// than the rate allows, few letters are hidden, and the rate is reached.
func TestRate(t *testing.T) {
	t.Parallel()
	for perSecond, letters := range map[float64]int{0.1: 9, 1: 100, 7.5: storetest.Scale(150, 500), 400: storetest.Scale(600, 2000)} {
		for _, remove := range []bool{false, true} {
			inBubble(t, func(t *testing.T) {
				w := newWorld(t, distant)
				w.fill(letters)
				store := &watched{account: account{w.queues, w.queues, w.queues}}
				l, err := deadletters.New(store, nil)
				if err != nil {
					t.Fatal(err)
				}
				s := deadletters.Selection{All: true, PerSecond: perSecond}
				began, calls, done := time.Now(), 0, 0
				for more := true; more; calls++ {
					call := time.Now()
					var r deadletters.Result
					n := 0
					if remove {
						d, err2 := l.Delete(t.Context(), poison, s)
						r, n, err = d.Result, d.Deleted, err2
					} else {
						d, err2 := l.Redrive(t.Context(), poison, s)
						r, n, err = d.Result, d.Moved, err2
					}
					if took := time.Since(call); err != nil || took > deadletters.MaxCall {
						t.Fatalf("%+v, %v after %v", r, err, took)
					}
					more, s.Before = r.More, r.Before
					done += n
				}
				begins := store.puts
				if remove {
					begins = store.deletes
				}
				if done != letters || len(begins) != letters {
					t.Errorf("%d done, %d begun, want %d", done, len(begins), letters)
				}
				interval := time.Duration(float64(time.Second) / perSecond)
				for i := 1; i < len(begins); i++ {
					if gap := begins[i].Sub(begins[i-1]); gap < interval {
						t.Fatalf("%v between letters, want %v or more", gap, interval)
					}
				}
				if ideal := interval * time.Duration(letters); time.Since(began) > ideal*6/5+time.Minute/4 {
					t.Errorf("%d calls took %v, want about %v", calls, time.Since(began), ideal)
				}
				if limit := max(2, int64(perSecond*5)); store.maxOut.Load() > min(limit+2, 100) {
					t.Errorf("%d letters were hidden at the same time", store.maxOut.Load())
				}
			})
		}
	}
}

// TestRequests counts the requests for many letters, and those that are received
// and not deleted.
func TestRequests(t *testing.T) {
	t.Parallel()
	letters := storetest.Scale(600, 2000)
	inBubble(t, func(t *testing.T) {
		w := newWorld(t, distant)
		w.fill(letters)
		store := &watched{account: account{w.queues, w.queues, w.queues}}
		var announced atomic.Int64
		l, err := deadletters.New(store, &deadletters.Options{Announce: func(name string) {
			if name != source {
				t.Errorf("announced %q", name)
			}
			announced.Add(1)
		}})
		if err != nil {
			t.Fatal(err)
		}
		before := w.queues.Calls()
		moved, err := redriveAll(t.Context(), l)
		perMessage := float64(w.queues.Calls()-before) / float64(letters)
		if err != nil || moved != letters || announced.Load() != int64(letters) {
			t.Errorf("moved %d, %v, announced %d", moved, err, announced.Load())
		}
		t.Logf("figure: requests for each dead letter redriven (%d) | %.3f | ≤ 2.1", letters, perMessage)
		t.Logf("figure: dead letters received and not deleted, at the same time | %d | ≤ 500", store.maxOut.Load())
		if perMessage > 2.1 || store.maxOut.Load() > 500 {
			t.Error("too many")
		}
	})
}

// TestNoneTwiceInACall selects a letter that is not there. The call receives each
// letter once, also if it takes long, and makes most of them visible again at its
// end, the others soon after.
func TestNoneTwiceInACall(t *testing.T) {
	t.Parallel()
	const letters = 1500
	for name, receive := range map[string]time.Duration{"fast": 20 * time.Millisecond, "slow": 500 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				w := newWorld(t, func(c memory.Call) memory.Fault {
					if c.Op == "Receive" {
						return memory.Fault{Back: receive}
					}
					return distant(c)
				})
				w.fill(letters)
				began := time.Now()
				l := w.letters(nil, deadletters.Options{})
				r, err := l.Redrive(t.Context(), poison, deadletters.Selection{IDs: []string{"unknown"}})
				if err != nil || r.Matched != 0 || r.More {
					t.Errorf("%+v, %v", r, err)
				}
				for _, m := range w.queues.All(poison) {
					if m.DequeueCount != 1 || m.NextVisible.Sub(began) > deadletters.MaxHidden {
						t.Fatalf("received %d times, visible after %v", m.DequeueCount, m.NextVisible.Sub(began))
					}
				}
				if n := w.visible(poison); n < 300 {
					t.Errorf("%d are visible", n)
				}
			})
		})
	}
}

// TestTwoAtOnce runs two redrives at the same time. Each letter is moved once.
func TestTwoAtOnce(t *testing.T) {
	t.Parallel()
	const letters = 600
	inBubble(t, func(t *testing.T) {
		w := newWorld(t, distant)
		w.fill(letters)
		l := w.letters(nil, deadletters.Options{})
		var running sync.WaitGroup
		var moved atomic.Int64
		for range 2 {
			running.Go(func() {
				n, err := redriveAll(context.Background(), l)
				moved.Add(int64(n))
				if err != nil {
					t.Error(err)
				}
			})
		}
		running.Wait()
		if moved.Load() != letters || len(w.bodies(source)) != letters || len(w.bodies(poison)) > 0 {
			t.Errorf("moved %d, put %d, left %d", moved.Load(), len(w.bodies(source)), len(w.bodies(poison)))
		}
	})
}

// watched records when letters are put and deleted, and how many are received
// and not deleted or made visible.
type watched struct {
	account
	mu            sync.Mutex
	puts, deletes []time.Time // guarded by mu
	out, maxOut   atomic.Int64
}

func (q *watched) Receive(ctx context.Context, name string, n int, visibility time.Duration) ([]queue.Message, error) {
	messages, err := q.account.Receive(ctx, name, n, visibility)
	q.out.Add(int64(len(messages)))
	q.maxOut.Store(max(q.maxOut.Load(), q.out.Load())) // receives are one after another
	return messages, err
}

func (q *watched) Put(ctx context.Context, name, body string, delay time.Duration) (queue.Message, error) {
	q.mu.Lock()
	q.puts = append(q.puts, time.Now())
	q.mu.Unlock()
	return q.account.Put(ctx, name, body, delay)
}

func (q *watched) Delete(ctx context.Context, name string, m queue.Message) error {
	q.mu.Lock()
	q.deletes = append(q.deletes, time.Now())
	q.mu.Unlock()
	err := q.account.Delete(ctx, name, m)
	q.out.Add(-1)
	return err
}

func (q *watched) Update(ctx context.Context, name string, m queue.Message, visibility time.Duration) (queue.Message, error) {
	m, err := q.account.Update(ctx, name, m, visibility)
	q.out.Add(-1)
	return m, err
}
