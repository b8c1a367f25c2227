package deadletters_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"kennel/deadletters"
	"kennel/internal/memory"
	"kennel/queue"
)

func TestNew(t *testing.T) {
	if _, err := deadletters.New(nil, nil); err == nil {
		t.Error("accepted no store")
	}
}

// TestQueues lists the queues that have dead letters, and no others.
func TestQueues(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	for _, name := range []string{"work", "b-poison", "a-poison", "c-poison", "x-poison"} {
		w.create(name) // x-poison could not be the queue of dead letters of x: its name is too short
	}
	w.put("b-poison", "1", "2")
	w.put("work-poison", "1")
	w.put("x-poison", "1")
	w.put("work", "1")
	got, err := w.letters(nil, deadletters.Options{}).Queues(t.Context())
	want := []deadletters.Queue{{"work-poison", "work", 1}}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("got %v, %v, want %v", got, err, want)
	}
}

// TestBadCalls checks that an invalid call makes no request.
func TestBadCalls(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	l := w.letters(nil, deadletters.Options{})
	ids := make([]string, deadletters.MaxLimit+1)
	for _, c := range []struct {
		name  string
		queue string
		s     deadletters.Selection
		want  error
	}{
		{"neither", poison, deadletters.Selection{}, deadletters.ErrSelection},
		{"both", poison, deadletters.Selection{All: true, IDs: ids[:1]}, deadletters.ErrSelection},
		{"too many", poison, deadletters.Selection{IDs: ids}, deadletters.ErrSelection},
		{"negative limit", poison, deadletters.Selection{All: true, Limit: -1}, deadletters.ErrSelection},
		{"limit", poison, deadletters.Selection{All: true, Limit: deadletters.MaxLimit + 1}, deadletters.ErrSelection},
		{"rate", poison, deadletters.Selection{All: true, PerSecond: 0.01}, deadletters.ErrSelection},
		{"negative rate", poison, deadletters.Selection{All: true, PerSecond: -1}, deadletters.ErrSelection},
		{"no rate", poison, deadletters.Selection{All: true, PerSecond: nan()}, deadletters.ErrSelection},
		{"not a queue of dead letters", "work", all, deadletters.ErrQueue},
		{"suffix only", "-poison", all, deadletters.ErrQueue},
		{"no name", "", all, deadletters.ErrQueue},
		{"a path", "../work-poison", all, deadletters.ErrQueue},
	} {
		if _, err := l.Redrive(t.Context(), c.queue, c.s); !errors.Is(err, c.want) {
			t.Errorf("%s: redrive: %v, want %v", c.name, err, c.want)
		}
		if _, err := l.Delete(t.Context(), c.queue, c.s); !errors.Is(err, c.want) {
			t.Errorf("%s: delete: %v, want %v", c.name, err, c.want)
		}
		if c.want == deadletters.ErrQueue {
			if _, err := l.Front(t.Context(), c.queue); !errors.Is(err, c.want) {
				t.Errorf("%s: front: %v, want %v", c.name, err, c.want)
			}
		}
	}
	if n := w.queues.Calls(); n > 0 {
		t.Errorf("%d requests", n)
	}
}

func nan() (v float64) { return v / v }

// TestNoSource checks that nothing is moved into a queue that does not exist,
// and that such letters can be deleted.
func TestNoSource(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		w := newWorld(t, nil)
		w.create(source + "2") // a longer name
		w.put(poison, "1", "2")
		time.Sleep(time.Second)
		l := w.letters(nil, deadletters.Options{})
		if r, err := l.Redrive(t.Context(), poison, all); !errors.Is(err, deadletters.ErrNoSource) || r.Matched > 0 {
			t.Errorf("redrive: %+v, %v", r, err)
		}
		if n := w.visible(poison); n != 2 || len(w.bodies(source)) > 0 {
			t.Errorf("%d letters are visible", n)
		}
		if r, err := l.Delete(t.Context(), poison, all); err != nil || r.Deleted != 2 || len(w.bodies(poison)) > 0 {
			t.Errorf("delete: %+v, %v", r, err)
		}
	})
}

// TestSelection redrives and deletes a part of the letters, and leaves the
// others visible.
func TestSelection(t *testing.T) {
	t.Parallel()
	const letters = 70
	for name, c := range map[string]struct {
		s       func(ids []string) deadletters.Selection
		matched int
		more    bool
	}{
		"all":               {func([]string) deadletters.Selection { return all }, letters, false},
		"limited":           {func([]string) deadletters.Selection { return deadletters.Selection{All: true, Limit: 40} }, 40, true},
		"three":             {func(ids []string) deadletters.Selection { return deadletters.Selection{IDs: ids[29:32]} }, 3, false},
		"one and a missing": {func(ids []string) deadletters.Selection { return deadletters.Selection{IDs: []string{ids[0], "x"}} }, 1, false},
		"one twice":         {func(ids []string) deadletters.Selection { return deadletters.Selection{IDs: []string{ids[1], ids[1]}} }, 1, false},
		"older": {func([]string) deadletters.Selection {
			return deadletters.Selection{All: true, Before: time.Now().Add(-time.Hour)}
		}, 0, false},
		"at a rate": {func([]string) deadletters.Selection { return deadletters.Selection{All: true, PerSecond: 1000} }, letters, false},
	} {
		for _, remove := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", delete ", remove), func(t *testing.T) {
				inBubble(t, func(t *testing.T) {
					w := newWorld(t, nil)
					w.create(source)
					for i := range letters {
						w.put(poison, queue.DeadLetter{Queue: source, Message: fmt.Sprint(i), Text: fmt.Sprint(i)}.Encode())
					}
					time.Sleep(time.Second)
					l := w.letters(nil, deadletters.Options{})
					var ids []string
					for _, item := range w.front(l) {
						ids = append(ids, item.ID)
					}
					s := c.s(ids)
					var r deadletters.Result
					var done int
					var err error
					if remove {
						var d deadletters.Deleted
						d, err = l.Delete(t.Context(), poison, s)
						r, done = d.Result, d.Deleted
					} else {
						var d deadletters.Redriven
						d, err = l.Redrive(t.Context(), poison, s)
						r, done = d.Result, d.Moved
					}
					if err != nil || r.Matched != c.matched || done != c.matched || r.More != c.more || r.Before.IsZero() || len(r.Left) > 0 {
						t.Errorf("%+v, %d done, %v, want %d matched, more %v", r, done, err, c.matched, c.more)
					}
					moved := len(w.bodies(source))
					if want := c.matched; remove && moved != 0 || !remove && moved != want {
						t.Errorf("%d messages were put", moved)
					}
					if n := w.visible(poison); n != letters-c.matched || len(w.bodies(poison)) != n {
						t.Errorf("%d letters are visible of %d, want %d", n, len(w.bodies(poison)), letters-c.matched)
					}
				})
			})
		}
	}
}

// TestDryRun counts letters without a change.
func TestDryRun(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		letters int
		s       deadletters.Selection
		matched int
		more    bool
	}{
		{5, deadletters.Selection{All: true}, 5, false},
		{5, deadletters.Selection{All: true, Limit: 3}, 3, true},
		{100, deadletters.Selection{All: true}, 100, false},
		{100, deadletters.Selection{All: true, Limit: 40}, 40, true},
		{5, deadletters.Selection{IDs: []string{"0", "4"}}, 2, false},
		{100, deadletters.Selection{IDs: []string{"0", "4"}}, 2, false},
		{5, deadletters.Selection{IDs: []string{"0", "unknown"}}, 1, false},
		{100, deadletters.Selection{IDs: []string{"0", "unknown"}}, 1, true},
	} {
		inBubble(t, func(t *testing.T) {
			w := newWorld(t, nil)
			w.fill(c.letters)
			l := w.letters(nil, deadletters.Options{})
			items := w.front(l)
			for i, n := range c.s.IDs {
				if n == "0" || n == "4" {
					c.s.IDs[i] = items[n[0]-'0'].ID
				}
			}
			c.s.DryRun = true
			before := w.queues.All(poison)
			r, err := l.Redrive(t.Context(), poison, c.s)
			if err != nil || r.Matched != c.matched || r.Moved != 0 || r.More != c.more {
				t.Errorf("%d letters, %+v: %+v, %v", c.letters, c.s, r, err)
			}
			d, err := l.Delete(t.Context(), poison, c.s)
			if err != nil || d.Matched != c.matched || d.Deleted != 0 || d.More != c.more {
				t.Errorf("%d letters, %+v: %+v, %v", c.letters, c.s, d, err)
			}
			if !slices.Equal(before, w.queues.All(poison)) || len(w.bodies(source)) > 0 {
				t.Error("something changed")
			}
		})
	}
}

// TestCopies lists copies of a letter as one, puts its message once and deletes
// all copies.
func TestCopies(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		w := newWorld(t, distant)
		w.create(source)
		var originals []string
		distinct := 0
		for _, f := range w.forms(0) {
			w.put(poison, f.stored, f.stored)
			distinct++
			originals = append(originals, f.original)
			if !f.identity {
				distinct++
				originals = append(originals, f.original)
			}
		}
		time.Sleep(time.Second)
		l := w.letters(nil, deadletters.Options{})
		if list := w.front(l); len(list) != distinct {
			t.Errorf("listed %d letters, want %d", len(list), distinct)
		}
		r, err := l.Redrive(t.Context(), poison, all)
		if err != nil || r.Moved != distinct || r.Matched != distinct {
			t.Errorf("%+v, %v, want %d", r, err, distinct)
		}
		if got := w.bodies(source); !slices.Equal(got, sorted(originals...)) {
			t.Errorf("put %d messages, want %d", len(got), len(originals))
		}
		if left := w.bodies(poison); len(left) > 0 {
			t.Errorf("%d left", len(left))
		}
	})
}

// TestFailingConsumer redrives while each message becomes a dead letter again at
// once. The run ends, and moves each letter once.
func TestFailingConsumer(t *testing.T) {
	t.Parallel()
	const letters = 1100 // two calls
	inBubble(t, func(t *testing.T) {
		w := newWorld(t, distant)
		w.fill(letters)
		var failed atomic.Int64
		ctx, stop := context.WithCancel(context.Background())
		consumer, err := queue.NewListener(w.queues, []string{source}, queue.Text{}, func(context.Context, queue.Delivery[string]) error {
			failed.Add(1)
			return queue.ErrMessage
		}, &queue.ListenerOptions{MaxIdle: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		var consuming sync.WaitGroup
		consuming.Go(func() {
			if err := consumer.Run(ctx); err != nil {
				t.Error(err)
			}
		})
		moved, err := redriveAll(ctx, w.letters(nil, deadletters.Options{}))
		if err != nil || moved != letters {
			t.Errorf("moved %d, %v, want %d", moved, err, letters)
		}
		time.Sleep(deadletters.MaxHidden)
		stop()
		consuming.Wait()
		if n := w.visible(poison); failed.Load() != letters || n != letters {
			t.Errorf("consumed %d, %d letters are visible, want %d", failed.Load(), n, letters)
		}
	})
}

// distant is a store that takes 20 ms for each request.
func distant(memory.Call) memory.Fault {
	return memory.Fault{Delay: 10 * time.Millisecond, Back: 10 * time.Millisecond}
}
