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
	{name: "left to Handle", handOver: true},
	{name: "racing inserts", racing: true},
	{name: "two workers", handOver: true, workers: 2},
	{name: "re-created", handOver: true, recreated: true, racing: true},
	{name: "short pages", handOver: true, pages: true},
}

// TestKilledAtEachRequest kills the process that deletes before and after each
// request of a deletion, and lets others continue. In a sample, large channels
// are killed at some of the requests.
func TestKilledAtEachRequest(t *testing.T) {
	t.Parallel()
	seed := seedOf(t)
	var runs atomic.Int64
	t.Cleanup(func() {
		if !t.Failed() {
			t.Logf("figure: rows left of 0 to 2,500 blogs, killed at each request (%d runs) | 0 | 0", runs.Load())
		}
	})
	for _, n := range sizes {
		t.Run(fmt.Sprintf("%d blogs", n), func(t *testing.T) {
			t.Parallel()
			full, incarnation := filled(t, n)
			step := int64(storetest.Scale(1+n/100, 1))
			for _, s := range situations {
				if s.pages && n > 1_001 {
					continue // the same, only longer
				}
				for k := 1 + int64(seed%uint64(step)); ; k += step {
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
	r := &racers{world: w, incarnation: incarnation, posted: make(map[channels.Blog]string)}
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
			r.accept()
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
		// Killed before anything was promised: nothing is changed, and the
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
	w.wait()
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

// racers are other clients that use the channel at the same time.
type racers struct {
	world       *world
	incarnation string // the one to be deleted

	mu       sync.Mutex
	accepted bool
	again    string                   // the incarnation that took the name
	posted   map[channels.Blog]string // the channel that the blog must be in; "": either, or deleted
}

func (r *racers) accept() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.accepted = true
}

// post adds blogs until the channel is gone: often around the beginning, and
// still after a crash.
func (r *racers) post(t *testing.T, stop chan struct{}) {
	p := r.world.start(nil, nil)
	for wait := time.Millisecond; ; wait += wait / 10 {
		select {
		case <-stop:
			return
		case <-time.After(wait):
		}
		ch, err := p.Read(p.Context(), "news")
		if errors.Is(err, channels.ErrNotFound) || err == nil && ch.Incarnation != r.incarnation {
			return
		}
		r.mu.Lock()
		mustExist := ""
		if r.accepted {
			mustExist = "the new channel"
		}
		r.mu.Unlock()
		blog, err := p.Post(p.Context(), "news", channels.Draft{Title: "race", UserID: "eve"})
		switch {
		case errors.Is(err, channels.ErrNotFound):
		case err != nil:
			t.Errorf("post: %v", err)
		default:
			r.mu.Lock()
			r.posted[blog] = mustExist
			r.mu.Unlock()
		}
	}
}

// recreate takes the name as soon as it is free, and posts three blogs.
func (r *racers) recreate(t *testing.T) {
	p := r.world.start(nil, nil)
	for wait := time.Millisecond; ; wait += wait / 10 {
		ch, created, err := p.Create(p.Context(), "news", "zoe")
		switch {
		case err == nil && created:
			for range 3 {
				blog := p.open(t, "news")
				r.mu.Lock()
				r.again, r.posted[blog] = ch.Incarnation, "the new channel"
				r.mu.Unlock()
			}
			return
		case !errors.Is(err, channels.ErrOwned):
			t.Errorf("create again: %v, %v", created, err)
			return
		}
		time.Sleep(wait)
	}
}

// check that the new channel is untouched, and return how many blogs went into
// the old one.
func (r *racers) check(t *testing.T) (old int64) {
	t.Helper()
	p := r.world.start(nil, nil)
	for blog, mustExist := range r.posted {
		got, err := p.Blog(context.Background(), "news", blog.ID)
		if exists := err == nil && got == blog; exists {
			continue
		}
		if old++; mustExist != "" {
			t.Errorf("blog %s of %s is %+v, %v", blog.ID, mustExist, got, err)
		}
	}
	if r.again == "" {
		return old
	}
	ch, err := p.Read(context.Background(), "news")
	if err != nil || ch.Owner != "zoe" || ch.Incarnation != r.again {
		t.Errorf("the new channel is %+v, %v", ch, err)
	}
	if rows, want := r.world.blogs.Rows("news@"+r.again), len(r.posted)-int(old)+1; rows != want {
		t.Errorf("the new channel has %d rows, want a fence and its blogs: %d", rows, want)
	}
	return old
}

// seedOf returns the seed of the command line, or a random one, and logs it.
func seedOf(t *testing.T) uint64 {
	t.Helper()
	seed := *simulateOne
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("run it again with -seed %d", seed)
	return seed
}
