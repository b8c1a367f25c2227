package channels_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"kennel/channels"
	"kennel/internal/memory"
	"kennel/internal/storetest"
)

var sizes = []int{0, 1, 99, 100, 101, 1_000, 1_001, 2_500}

// situation is the setting of a deletion.
type situation struct {
	name      string
	options   channels.Options
	counted   bool // count the requests
	slow      bool // requests overtake each other
	racing    bool // blogs are posted during the deletion
	workers   int  // for the same message; 0: one
	recreated bool // the name is used again as soon as it is free
	pages     bool // the store's pages are short, and some are empty
}

// leftToHandle makes Delete leave all blogs to Handle.
var leftToHandle = channels.Options{AcceptFor: -1}

var situations = []situation{
	// One transaction at a time; otherwise the number in flight at the crash
	// would differ between runs.
	{name: "alone", options: channels.Options{Parallel: 1}, counted: true},
	{name: "left to Handle", options: leftToHandle},
	{name: "racing inserts", slow: true, racing: true},
	{name: "two workers", options: leftToHandle, slow: true, workers: 2},
	{name: "re-created", options: leftToHandle, slow: true, recreated: true},
	{name: "short calls", options: channels.Options{AcceptFor: -1, HandleFor: time.Millisecond}, slow: true},
	{name: "short pages", options: leftToHandle, pages: true},
}

// kills is a run of TestKilledAtEachRequest.
type kills struct {
	seed  uint64
	runs  atomic.Int64
	pages atomic.Int64 // the maximum that a crash added to the requests of a deletion
}

// TestKilledAtEachRequest kills the deleting process before and after each
// request, and lets other processes continue. Outside make prove, it kills the
// deletions of large channels only at some requests.
func TestKilledAtEachRequest(t *testing.T) {
	t.Parallel()
	ks := &kills{seed: storetest.Seed(t)}
	t.Cleanup(func() {
		if !t.Failed() {
			t.Logf("figure: rows left of 0 to 2,500 blogs, killed at each request (%d runs) | 0 | 0", ks.runs.Load())
			t.Logf("figure: pages that a crash adds to the requests of a deletion | %d | ≤ 1", ks.pages.Load())
		}
	})
	for _, n := range sizes {
		t.Run(fmt.Sprintf("%d blogs", n), func(t *testing.T) {
			t.Parallel()
			full, incarnation := filled(t, n)
			for _, s := range situations {
				if s.pages && n > 1_001 {
					continue // tests nothing more than a smaller channel
				}
				storetest.KillAtEachRequest(t, storetest.Scale(1+n/40, 1), func(t *testing.T, kill *storetest.Killer) {
					if ks.run(t, s, full, incarnation, n, kill); t.Failed() {
						t.Log(s.name)
					}
				})
			}
		})
	}
}

// run deletes a channel of n blogs in a copy of the world.
func (ks *kills) run(t *testing.T, s situation, full *world, incarnation string, n int, kill *storetest.Killer) {
	ks.runs.Add(1)
	var network memory.TableOptions
	if s.slow {
		network.Fault = slow(ks.seed + uint64(kill.N))
	}
	if s.pages {
		network.Scan = short(ks.seed + uint64(kill.N))
	}
	w := full.clone(&network)
	r := &racers{}
	if s.racing {
		r.post(t, w)
	}
	if s.recreated {
		r.recreate(t, w)
	}
	if s.slow {
		time.Sleep(20 * time.Millisecond)
	}

	var message string
	worker := func() *process { return w.start(&s.options, kill) }
	for tries, done := 0, false; !done; tries++ {
		p := worker()
		_, err := p.Delete(p.Context(), "news", incarnation)
		if err != nil && !p.Dead() {
			t.Fatalf("delete: %v", err)
		}
		r.accepted.Store(err == nil)
		for _, m := range w.queues.All(cleanupQueue) {
			message = text(t, m.Body)
			for range s.workers - 1 {
				r.Go(func() {
					time.Sleep(2*time.Second + time.Millisecond)
					p := w.start(&s.options, nil)
					if _, err := p.Handle(p.Context(), message); err != nil {
						t.Errorf("handle by the other worker: %v", err)
					}
				})
			}
		}
		if dead := w.host(t, worker); len(dead) > 0 {
			t.Errorf("dead letters: %v", dead)
		}
		if s.counted && tries == 0 && kill.Struck() {
			ks.count(t, w.requests.Load(), n)
		}
		// If the process was killed before Delete returned, the channel may
		// still be complete. Then the caller, whose connection broke, tries
		// again.
		ch, err := w.start(nil, nil).Read(t.Context(), "news")
		done = err != nil || ch.Incarnation != incarnation
		if rows := w.blogs.Rows("news@" + incarnation); !done && rows < n+1 {
			t.Fatalf("the channel exists with %d rows of %d", rows, n+1)
		}
	}
	r.Wait()
	if s.recreated { // the same message, late and twice
		for range 2 {
			p := w.start(nil, nil)
			if d, err := p.Handle(p.Context(), message); err != nil || d.State != channels.Done {
				t.Errorf("late message: %+v, %v, want a finished deletion", d, err)
			}
		}
		r.check(t, w)
	}
	w.wait()
	w.gone(t, "news", incarnation, int64(n)+r.posted.Load())
}

// count checks the requests of a deletion that was killed once. The crash adds
// one delivery, one read of the record and at most one page.
func (ks *kills) count(t *testing.T, requests int64, n int) {
	added := requests - bound(n) - 2
	if added > ks.pages.Load() {
		ks.pages.Store(added)
	}
	if added > 1 {
		t.Errorf("%d blogs: the crash added %d pages, want at most one", n, added)
	}
}

// draws returns a source of random numbers below n that goroutines can share.
func draws(seed uint64) func(n int64) int64 {
	var mu sync.Mutex
	rng := rand.New(rand.NewPCG(seed, 0))
	return func(n int64) int64 {
		mu.Lock()
		defer mu.Unlock()
		return rng.Int64N(n)
	}
}

// slow makes requests overtake each other; one in eight takes up to a second.
func slow(seed uint64) func(memory.Call) memory.Fault {
	below := draws(seed)
	return func(memory.Call) memory.Fault {
		maxDelay := 3 * time.Millisecond
		if below(8) == 0 {
			maxDelay = time.Second
		}
		return memory.Fault{Delay: time.Duration(below(int64(maxDelay))), Back: time.Duration(below(int64(maxDelay)))}
	}
}

// short makes one page in three empty.
func short(seed uint64) func(top int) int {
	below := draws(seed)
	return func(top int) int { return max(0, int(below(int64(top*3/2+2)))-top/2) }
}

// racers are other clients and workers that run at the same time.
type racers struct {
	sync.WaitGroup
	accepted atomic.Bool  // Delete returned without an error
	posted   atomic.Int64 // number of blogs posted to the deleted channel

	successor channels.Channel // the next channel of the name
	blogs     []channels.Blog  // of the successor
}

// post adds blogs until the channel is deleted: often at first, then less
// often, and also after a crash.
func (r *racers) post(t *testing.T, w *world) {
	for i := range 3 {
		r.Go(func() {
			p := w.start(nil, nil)
			for wait := time.Millisecond; wait < 24*time.Hour; wait += wait / 10 {
				time.Sleep(wait)
				accepted := r.accepted.Load()
				var o channels.PostOptions
				if i > 0 {
					o.Key = fmt.Sprintf("%d-%d", i, wait)
				}
				_, err := p.PostWith(p.Context(), "news", channels.Draft{Title: "race", UserID: "eve"}, o)
				if err != nil || accepted {
					if !errors.Is(err, channels.ErrNotFound) {
						t.Errorf("post: %v; deletion accepted before: %v", err, accepted)
					}
					return
				}
				r.posted.Add(1)
			}
		})
	}
}

// recreate creates a channel of the name as soon as it is free, and posts three
// blogs.
func (r *racers) recreate(t *testing.T, w *world) {
	r.Go(func() {
		p := w.start(nil, nil)
		for wait := time.Millisecond; wait < 24*time.Hour; wait += wait / 10 {
			var err error
			if r.successor, _, err = p.Create(p.Context(), "news", "zoe"); err == nil {
				break
			}
			if !errors.Is(err, channels.ErrOwned) {
				t.Errorf("create again: %v", err)
				return
			}
			time.Sleep(wait)
		}
		for range 3 {
			r.blogs = append(r.blogs, p.open(t, "news"))
		}
	})
}

// check checks that the deletion did not change the successor.
func (r *racers) check(t *testing.T, w *world) {
	t.Helper()
	p := w.start(nil, nil)
	if ch, err := p.Read(p.Context(), "news"); err != nil || ch != r.successor {
		t.Errorf("the new channel is %+v, %v, want %+v", ch, err, r.successor)
	}
	list, err := p.Blogs(p.Context(), "news", 10, "")
	if diff := cmp.Diff(list.Items, r.blogs); err != nil || diff != "" {
		t.Errorf("the new channel's blogs are (-), were (+), %v:\n%s", err, diff)
	}
}
