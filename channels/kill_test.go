package channels_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"kennel/channels"
	"kennel/internal/memory"
	"kennel/internal/storetest"
)

var sizes = []int{0, 1, 99, 100, 101, 1_000, 1_001, 2_500}

// situation is what goes on around a deletion.
type situation struct {
	name      string
	handOver  bool // Delete leaves the blogs to Handle
	racing    bool // blogs are posted all the time
	workers   int  // at the same message; 0: one
	recreated bool // the name is used again as soon as it is free
	pages     bool // of the store are short, and some empty
}

var situations = []situation{
	{name: "alone"},
	{name: "handed over", handOver: true},
	{name: "racing inserts", racing: true},
	{name: "two workers", handOver: true, workers: 2},
	{name: "re-created", handOver: true, recreated: true, racing: true},
	{name: "short pages", handOver: true, pages: true},
}

// TestKilledAtEachRequest kills the process in charge before and after each
// request of a deletion, and lets others go on.
func TestKilledAtEachRequest(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	var runs atomic.Int64
	t.Cleanup(func() {
		if !t.Failed() {
			t.Logf("figure: rows left of 0 to 2,500 blogs, killed at each request (%d runs) | 0 | 0", runs.Load())
		}
	})
	for _, n := range sizes {
		t.Run(fmt.Sprintf("%d blogs", n), func(t *testing.T) {
			t.Parallel()
			full := newWorld()
			incarnation := full.fill(t, "news", n)
			for _, s := range situations {
				if s.pages && n > 1_001 {
					continue // the same, only longer
				}
				for k := int64(1); ; k++ {
					killed := false
					for _, after := range []bool{false, true} {
						synctest.Test(t, func(t *testing.T) {
							kill := &storetest.Killer{N: k, After: after}
							s.run(t, full, incarnation, n, kill, seed)
							killed = killed || kill.Struck()
							if t.Failed() {
								t.Fatalf("%s, %v", s.name, kill)
							}
						})
						runs.Add(1)
					}
					if t.Failed() {
						return
					}
					if !killed {
						break
					}
				}
			}
		})
	}
}

func (s situation) options() *channels.Options {
	o := &channels.Options{}
	if s.handOver {
		o.AcceptFor = -1
	}
	return o
}

// run deletes a channel of n blogs in a copy of the world.
func (s situation) run(t *testing.T, full *world, incarnation string, n int, kill *storetest.Killer, seed uint64) {
	var network *memory.TableOptions
	if s.racing || s.workers > 0 {
		network = &memory.TableOptions{}
		network.Fate = slow(seed + uint64(kill.N))
	}
	if s.pages {
		network = &memory.TableOptions{Scan: short(seed + uint64(kill.N))}
	}
	w := full.clone(network)
	r := &racers{world: w, incarnation: incarnation, late: make(map[string]bool)}
	var others, successor sync.WaitGroup
	stop := make(chan struct{})
	if s.racing {
		for range 3 {
			others.Go(func() { r.post(t, stop) })
		}
	}
	if s.recreated {
		successor.Go(func() { r.recreate(t) })
	}
	if network != nil {
		time.Sleep(20 * time.Millisecond)
	}

	var message string
	worker := func() *process { return w.start(s.options(), kill) }
	for done := false; !done; {
		p := worker()
		_, err := p.Delete(p.Context(), "news", incarnation)
		if err == nil {
			r.accepted()
		} else if !p.Dead() {
			t.Fatalf("delete: %v", err)
		}
		for _, m := range w.queues.All(cleanupQueue) {
			message = text(t, m.Body)
			for range s.workers - 1 {
				others.Go(func() {
					time.Sleep(2*time.Second + time.Millisecond)
					p := w.start(s.options(), nil)
					if _, err := p.Handle(p.Context(), message); err != nil {
						t.Errorf("the other worker: %v", err)
					}
				})
			}
		}
		if dead := w.host(t, worker); len(dead) > 0 {
			t.Errorf("dead letters: %v", dead)
		}
		// Killed before anything was promised: all is as it was, and the
		// caller, whose connection broke, tries again.
		ch, err := w.start(nil, nil).Read(t.Context(), "news")
		if done = err != nil || ch.Incarnation != incarnation; !done {
			if err == nil && w.blogs.Rows("news@"+incarnation) < n+1 {
				t.Fatalf("the channel is there with %d rows of %d", w.blogs.Rows("news@"+incarnation), n+1)
			}
		}
	}
	successor.Wait()
	if s.recreated { // the same message, late and twice
		for range 2 {
			p := w.start(nil, nil)
			if d, err := p.Handle(p.Context(), message); err != nil || d.State != channels.Done {
				t.Errorf("late message: %+v, %v, want it to be done", d, err)
			}
		}
	}
	close(stop)
	others.Wait()
	w.channels.Wait()
	w.blogs.Wait()
	w.gone(t, "news", incarnation, int64(n)+r.check(t))
}

// slow makes requests overtake each other, some of them by far.
func slow(seed uint64) func(memory.Call) memory.Fate {
	var mu sync.Mutex
	rng := rand.New(rand.NewPCG(seed, 0))
	return func(memory.Call) memory.Fate {
		mu.Lock()
		defer mu.Unlock()
		most := 3 * time.Millisecond
		if rng.IntN(8) == 0 {
			most = time.Second
		}
		return memory.Fate{Delay: time.Duration(rng.Int64N(int64(most))), Back: time.Duration(rng.Int64N(int64(most)))}
	}
}

// short makes one page in three empty.
func short(seed uint64) func(top int) int {
	var mu sync.Mutex
	rng := rand.New(rand.NewPCG(seed, 0))
	return func(top int) int {
		mu.Lock()
		defer mu.Unlock()
		return max(0, rng.IntN(top*3/2+2)-top/2)
	}
}

// racers are others who use the channel meanwhile.
type racers struct {
	world       *world
	incarnation string // the one to be deleted

	mu         sync.Mutex
	acceptedAt time.Time
	posted     []channels.Blog // into whichever of the two channels
	late       map[string]bool // those posted after the deletion was accepted

	again string // the incarnation that took the name
	kept  []channels.Blog
}

func (r *racers) accepted() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.acceptedAt.IsZero() {
		r.acceptedAt = time.Now()
	}
}

// post adds blogs until the channel is gone.
func (r *racers) post(t *testing.T, stop chan struct{}) {
	p := r.world.start(nil, nil)
	for wait := time.Millisecond; ; wait += wait / 10 { // often around the beginning, and still after a crash
		select {
		case <-stop:
			return
		case <-time.After(wait):
		}
		ch, err := p.Read(p.Context(), "news")
		if errors.Is(err, channels.ErrNotFound) || err == nil && ch.Incarnation != r.incarnation {
			return
		}
		begun := time.Now()
		blog, err := p.Post(p.Context(), "news", channels.Draft{Title: "race", UserID: "eve"})
		switch {
		case errors.Is(err, channels.ErrNotFound):
		case err != nil:
			t.Errorf("post: %v", err)
		default:
			r.mu.Lock()
			r.posted = append(r.posted, blog)
			r.late[blog.ID] = !r.acceptedAt.IsZero() && begun.After(r.acceptedAt)
			r.mu.Unlock()
		}
	}
}

// recreate takes the name as soon as it is free.
func (r *racers) recreate(t *testing.T) {
	p := r.world.start(nil, nil)
	for wait := time.Millisecond; ; wait += wait / 10 {
		ch, created, err := p.Create(p.Context(), "news", "zoe")
		switch {
		case err == nil && created:
			for range 3 {
				blog, err := p.Post(p.Context(), "news", channels.Draft{Title: "new", Text: "keep me", UserID: "zoe"})
				if err != nil {
					t.Errorf("post into the new channel: %v", err)
				}
				r.mu.Lock()
				r.kept = append(r.kept, blog)
				r.mu.Unlock()
			}
			r.mu.Lock()
			r.again = ch.Incarnation
			r.mu.Unlock()
			return
		case !errors.Is(err, channels.ErrOwned):
			t.Errorf("create again: %v, %v", created, err)
			return
		}
		time.Sleep(wait)
	}
}

// check that nobody touched the new channel, and return how many blogs went
// into the old one.
func (r *racers) check(t *testing.T) (posted int64) {
	t.Helper()
	p := r.world.start(nil, nil)
	for _, blog := range r.posted {
		got, err := p.Blog(context.Background(), "news", blog.ID)
		switch {
		case err == nil && got == blog:
			r.kept = append(r.kept, blog)
		case r.late[blog.ID]:
			t.Errorf("blog %s was posted after the deletion was accepted", blog.ID)
		default:
			posted++
		}
	}
	if r.again == "" {
		return posted
	}
	ch, err := p.Read(context.Background(), "news")
	if err != nil || ch.Owner != "zoe" || ch.Incarnation != r.again {
		t.Errorf("the new channel is %+v, %v", ch, err)
	}
	for _, want := range r.kept {
		got, err := p.Blog(context.Background(), "news", want.ID)
		if err != nil || got != want {
			t.Errorf("the new channel's blog is %+v, %v, want %+v", got, err, want)
		}
	}
	if rows := r.world.blogs.Rows("news@" + r.again); rows != len(r.kept)+1 {
		t.Errorf("the new channel has %d rows, want a fence and %d blogs", rows, len(r.kept))
	}
	return posted
}
