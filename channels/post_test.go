package channels_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"kennel/channels"
	"kennel/internal/memory"
	"kennel/internal/table"
)

// once posts with a key into the channel news.
func (p *process) once(key string, d channels.Draft) (channels.Blog, error) {
	return p.PostWith(p.Context(), "news", d, channels.PostOptions{Key: key})
}

// A post with a key adds one blog in a day, and returns it as it is then.
func TestPostWithKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _ := filled(t, 0)
		p, q := w.start(nil, nil), w.start(nil, nil)
		ctx := t.Context()
		first, err := p.once("k", someDraft)
		must(t, err)
		returns := func(what string, p *process, want channels.Blog) {
			t.Helper()
			if blog, err := p.once("k", someDraft); err != nil || blog != want {
				t.Errorf("%s: %+v, %v, want %+v", what, blog, err, want)
			}
		}
		time.Sleep(24*time.Hour - time.Nanosecond)
		returns("again", q, first)
		for _, other := range []channels.Draft{{Title: "u", UserID: "u"}, {Title: "t", UserID: "v"}, {Title: "t", Text: "x", UserID: "u"}} {
			fails(t, fmt.Sprintf("another draft %+v", other), errorOf(q.once("k", other)), channels.ErrKeyReused)
		}
		updated, err := p.Update(ctx, "news", first.ID, first.ETag, channels.Draft{Title: "new", UserID: "u"})
		must(t, err)
		returns("again after an update", q, updated)
		must(t, p.Remove(ctx, "news", first.ID, ""))
		fails(t, "again after its removal", errorOf(q.once("k", someDraft)), channels.ErrRemoved)

		time.Sleep(time.Nanosecond) // the day is over
		second, err := q.once("k", channels.Draft{Title: "later", UserID: "u"})
		if err != nil || second.ID <= first.ID {
			t.Errorf("a day later: %+v, %v, want a new blog", second, err)
		}
		fails(t, "the first draft again", errorOf(p.once("k", someDraft)), channels.ErrKeyReused)
		third, err := p.once("K", someDraft)
		if err != nil || third.ID == second.ID {
			t.Errorf("another key: %+v, %v", third, err)
		}

		// Keys are neither listed nor counted, and do not outlive the channel.
		if list, err := p.Blogs(ctx, "news", 10, ""); err != nil || len(list.Items) != 2 || list.LeftOut != 0 {
			t.Errorf("list: %+v, %v, want two blogs", list, err)
		}
		if d, err := p.Delete(ctx, "news", ""); err != nil || d.Deleted != 2 || w.blogs.Rows("") != 0 {
			t.Errorf("delete: %+v, %v, and %d rows are left; want two blogs deleted", d, err, w.blogs.Rows(""))
		}
		w.fill(t, "news", 0)
		if again, err := p.once("K", someDraft); err != nil || again.ID == third.ID {
			t.Errorf("in the next channel of the name: %+v, %v, want a new blog", again, err)
		}
	})
	p := newWorld().start(nil, nil)
	for _, key := range []string{" ", "a b", "a\n", "ä", "\x7f", "\x00", strings.Repeat("k", 129)} {
		rejects(t, "idempotency_key", key, errorOf(p.once(key, someDraft)))
	}
	for _, key := range []string{"!", "~", "'", strings.Repeat("k", 128)} {
		fails(t, key, errorOf(p.once(key, someDraft)), channels.ErrNotFound)
	}
}

// However late the tries of posts with one key arrive, there is one blog, and
// none after it was removed.
func TestLatePostsWithOneKey(t *testing.T) {
	for _, fault := range faults {
		for _, expired := range []bool{false, true} {
			eachRequest(t, func(t *testing.T, n int64) bool {
				full, _ := filled(t, 0)
				if expired {
					p := full.start(nil, nil)
					old, err := p.once("k", channels.Draft{Title: "old", UserID: "u"})
					must(t, err)
					must(t, p.Remove(p.Context(), "news", old.ID, ""))
					time.Sleep(24 * time.Hour)
				}
				inject, sent := strike(n, fault.Fault)
				w := full.hit(inject)
				err := errReset
				var blog channels.Blog
				for tries := 0; err != nil && tries < 3; tries++ {
					p := w.start(nil, nil)
					if blog, err = p.once("k", someDraft); err != nil && !errors.Is(err, channels.ErrUnclear) {
						t.Errorf("%s: %v", fault.name, err)
					}
				}
				struck := sent.Load() >= n
				p := w.start(nil, nil)
				if list, listErr := p.Blogs(p.Context(), "news", 10, ""); err != nil || listErr != nil || len(list.Items) != 1 || list.Items[0] != blog {
					t.Errorf("%s: posted %+v, %v, listed %+v, %v", fault.name, blog, err, list, listErr)
				}
				must(t, p.Remove(p.Context(), "news", blog.ID, ""))
				w.wait()
				fails(t, fault.name+": again", errorOf(p.once("k", someDraft)), channels.ErrRemoved)
				if rows := w.blogs.Rows(""); rows != 2 {
					t.Errorf("%s: %d rows, want a fence and a key", fault.name, rows)
				}
				return struck
			})
		}
	}
}

// Of posts with one key that two processes send at once, one adds a blog, also
// if the key has expired, and no other draft is accepted.
func TestPostsAtOnceWithOneKey(t *testing.T) {
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			w, _ := filled(t, 0)
			must(t, errorOf(w.start(nil, nil).once("expired", someDraft)))
			time.Sleep(24 * time.Hour)
			w = w.clone(&memory.TableOptions{Options: memory.Options{Fault: slow(seed)}})
			both := []*process{w.start(nil, nil), w.start(nil, nil)}
			for _, key := range []string{"new", "expired"} {
				var mu sync.Mutex
				ids, titles := make(map[string]bool), make(map[string]bool)
				var wg sync.WaitGroup
				for i := range 8 {
					wg.Go(func() {
						d := channels.Draft{Title: fmt.Sprint("t", i/2%2), UserID: "u"}
						blog, err := both[i%2].once(key, d)
						mu.Lock()
						defer mu.Unlock()
						switch {
						case err == nil:
							ids[blog.ID], titles[d.Title] = true, true
						case !errors.Is(err, channels.ErrKeyReused):
							t.Errorf("%s: %v", key, err)
						}
					})
				}
				wg.Wait()
				if len(ids) != 1 || len(titles) != 1 {
					t.Errorf("key %s, seed %d: blogs %v of the drafts %v, want one of one", key, seed, ids, titles)
				}
			}
			if rows := w.blogs.Rows(""); rows != 6 {
				t.Errorf("%d rows, want a fence, two keys and three blogs", rows)
			}
		})
	}
}

// A channel that lives for long keeps few keys, and they cost few requests.
func TestKeysAreForgotten(t *testing.T) {
	t.Parallel()
	const perDay, days = 300, 6
	synctest.Test(t, func(t *testing.T) {
		w, _ := filled(t, 0)
		p := w.start(nil, nil)
		w.requests.Store(0)
		for i := range perDay * days {
			must(t, errorOf(p.once(fmt.Sprint("key", i), someDraft)))
			time.Sleep(24 * time.Hour / perDay)
		}
		keys, requests := w.blogs.Rows("")-1-perDay*days, float64(w.requests.Load())/(perDay*days)
		t.Logf("figure: keys kept in a channel with %d posts a day, after %d days | %d | ≤ %d", perDay, days, keys, 4*perDay)
		t.Logf("figure: requests of a post with a key, on average | %.2f | ≤ 2.12", requests)
		if keys < perDay || keys > 4*perDay || requests > 2.12 {
			t.Errorf("%d keys and %.2f requests a post; want %d to %d keys, and at most 2.12 requests", keys, requests, perDay, 4*perDay)
		}
	})
}

// A deletion takes as many requests for a blog and its key as for two blogs.
func TestDeletionOfKeys(t *testing.T) {
	for _, n := range []int{1, 50, 501} {
		w, incarnation := filled(t, 0)
		p := w.start(nil, nil)
		for i := range n {
			must(t, errorOf(p.once(fmt.Sprint(i), someDraft)))
		}
		w.requests.Store(0)
		must(t, errorOf(p.Delete(t.Context(), "news", "")))
		if got := w.requests.Load(); got > bound(2*n) {
			t.Errorf("deleting %d blogs with keys took %d requests, want at most %d", n, got, bound(2*n))
		}
		w.gone(t, "news", incarnation, int64(n))
	}
}

// An expired key that is used again just before it would be forgotten is kept.
func TestForgottenKeyInUseAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _ := filled(t, 0)
		p := w.start(nil, nil)
		old, err := p.once("k", someDraft)
		must(t, err)
		time.Sleep(24 * time.Hour)
		var blog channels.Blog
		c := w.with(w.channels, hooked{Store: w.blogs, queried: func(page table.Page) {
			if slices.ContainsFunc(page.Rows, func(row table.Row) bool { return row.Values["blog"] == old.ID }) {
				blog, err = p.once("k", someDraft)
			}
		}}, nil)
		for i := 0; blog.ID == ""; i++ {
			must(t, errorOf(c.PostWith(t.Context(), "news", someDraft, channels.PostOptions{Key: fmt.Sprint(i)})))
			if i == 10_000 {
				t.Fatal("the key is not read")
			}
		}
		if again, err2 := p.once("k", someDraft); err != nil || err2 != nil || again != blog {
			t.Errorf("used again: %+v, %v, then %+v, %v; want the same blog", blog, err, again, err2)
		}
	})
}
