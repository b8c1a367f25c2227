package channels_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"kennel/channels"
	"kennel/internal/memory"
	"kennel/internal/storetest"
	"kennel/internal/table"
)

// scatter fills the channel news: bursts and steady posts, with gaps of up to
// years, and rows that are not blogs.
func (w *world) scatter(t *testing.T, rng *rand.Rand, incarnation string) (blogs, invalid int) {
	t.Helper()
	partition := "news@" + incarnation
	at := time.Now().Add(time.Duration(rng.IntN(10)) * time.Minute) // clocks differ
	var writes []table.Write
	submit := func() {
		if len(writes) > 0 {
			must(t, errorOf(w.blogs.Submit(t.Context(), writes...)))
		}
		writes = nil
	}
	for range 1 + rng.IntN(8) {
		at = at.Add(-time.Duration(rng.ExpFloat64() * float64([]time.Duration{time.Second, time.Hour, 24 * time.Hour, 2 * 365 * 24 * time.Hour}[rng.IntN(4)])))
		apart := []time.Duration{1, time.Microsecond, time.Millisecond, time.Second, time.Hour, 24 * time.Hour}[rng.IntN(6)]
		for range rng.IntN([]int{3, 40, 400, 2500}[rng.IntN(4)]) {
			at = at.Add(-time.Duration(rng.Int64N(2*int64(apart)) + 1))
			row := table.Row{Partition: partition, Key: at.UTC().Format("20060102T150405.000000000Z-") + fmt.Sprintf("%08x", rng.Uint32()),
				Values: map[string]string{"v": "1", "title": "t", "text0": "x", "userId": "u", "operation": "0"}}
			blogs++
			if rng.IntN(100) == 0 {
				row.Values = nil
				blogs, invalid = blogs-1, invalid+1
			}
			if writes = append(writes, table.Write{Verb: table.Insert, Row: row}); len(writes) == table.MaxTransaction {
				submit()
			}
		}
	}
	submit()
	for _, key := range []string{"0", "2", "2020junk", "zzz"}[rng.IntN(5):] {
		must(t, errorOf(w.blogs.Submit(t.Context(), table.Write{Verb: table.Insert, Row: table.Row{Partition: partition, Key: key}})))
		invalid++
	}
	return blogs, invalid
}

// All blogs by pages of the newest are all blogs by pages of the oldest,
// reversed, even if some are removed meanwhile and if the store's pages are
// short.
func TestNewestBlogs(t *testing.T) {
	t.Parallel()
	seed := storetest.Seed(t)
	pagesRead, requests, most := 0, int64(0), int64(0)
	for i := range uint64(storetest.Scale(15, 200)) {
		rng := rand.New(rand.NewPCG(seed, i))
		full, incarnation := filled(t, 0)
		_, invalid := full.scatter(t, rng, incarnation)
		o := &memory.TableOptions{}
		if rng.IntN(4) == 0 {
			o.Scan = short(rng.Uint64())
		}
		w := full.clone(o)
		p := w.start(nil, nil)
		all := pages(t, func(continuation string) (channels.List[channels.Blog], error) {
			return full.start(nil, nil).Blogs(t.Context(), "news", 1000, continuation)
		})
		after := ""
		if len(all) > 0 && rng.IntN(3) == 0 {
			n := rng.IntN(len(all))
			after, all = all[n].ID, all[n+1:]
		}
		removing := rng.IntN(3) == 0
		top := []int{1 + len(all)/50, 100, 1000}[rng.IntN(3)]
		removed := make(map[string]bool)
		leftOut := 0
		if after != "" && rng.IntN(2) == 0 { // a continuation is valid for any after
			first, err := p.NewestBlogs(t.Context(), "news", "", 1, "")
			must(t, err)
			rest, err := p.NewestBlogs(t.Context(), "news", after, 1000, first.Continuation)
			if must(t, err); len(rest.Items) > 0 && rest.Items[len(rest.Items)-1].ID <= after {
				t.Errorf("channel %d: blog %s is not after %s", i, rest.Items[len(rest.Items)-1].ID, after)
			}
		}
		got := pages(t, func(continuation string) (channels.List[channels.Blog], error) {
			if removing && len(all) > 0 {
				id := all[rng.IntN(len(all))].ID
				must(t, p.Remove(t.Context(), "news", id, ""))
				removed[id] = true
			}
			w.requests.Store(0)
			list, err := p.NewestBlogs(t.Context(), "news", after, top, continuation)
			if len(list.Items) > top {
				t.Errorf("%d blogs on a page of %d", len(list.Items), top)
			}
			if leftOut += list.LeftOut; o.Scan == nil {
				pagesRead++
				requests += w.requests.Load()
				most = max(most, w.requests.Load())
			}
			return list, err
		})
		gone := func(b channels.Blog) bool { return removed[b.ID] }
		if !slices.IsSortedFunc(got, func(a, b channels.Blog) int { return strings.Compare(b.ID, a.ID) }) {
			t.Errorf("channel %d: not sorted", i)
		}
		got = slices.DeleteFunc(got, gone)
		want := slices.DeleteFunc(slices.Clone(all), gone)
		slices.Reverse(want)
		if !slices.Equal(got, want) || after == "" && leftOut != invalid {
			t.Fatalf("channel %d, pages of %d after %q: %d blogs, %d rows left out; want %d, %d", i, top, after, len(got), leftOut, len(want), invalid)
		}
	}
	t.Logf("figure: requests of a page of the newest blogs, on average and at most, of random channels (%d pages) | %.1f, %d | ≤ 4, 12", pagesRead, float64(requests)/float64(pagesRead), most)
	if most > 12 || requests > 4*int64(pagesRead) {
		t.Errorf("%d pages took %d requests, one of them %d", pagesRead, requests, most)
	}
}

// Blogs that are added and removed before any request of a page do not make
// the pages repeat a blog, skip one that stays, or lose their order.
func TestNewestBlogsWhileBlogsAreAdded(t *testing.T) {
	t.Parallel()
	seed := storetest.Seed(t)
	changes := 0
	for i := range uint64(storetest.Scale(5, 100)) {
		rng := rand.New(rand.NewPCG(seed, i))
		full, incarnation := filled(t, 0)
		full.scatter(t, rng, incarnation)
		all := pages(t, func(continuation string) (channels.List[channels.Blog], error) {
			return full.start(nil, nil).Blogs(t.Context(), "news", 1000, continuation)
		})
		if len(all) == 0 {
			continue
		}
		o := &memory.TableOptions{}
		if rng.IntN(4) == 0 {
			o.Scan = short(rng.Uint64())
		}
		w := full.clone(o)
		p := w.start(nil, nil)
		top := []int{1 + len(all)/50, 50, 100, 1000}[rng.IntN(4)]
		top = max(top, 1+len(all)/100)
		size := []int{1, 5_000, 31_000}[rng.IntN(3)]
		removed := make(map[string]bool)
		change := func(table.Page) {
			for range rng.IntN(4) {
				old := all[rng.IntN(len(all))].ID
				if changes++; rng.IntN(2) == 0 {
					if p.Remove(t.Context(), "news", old, "") == nil {
						removed[old] = true
					}
					continue
				}
				at, err := time.Parse("20060102T150405.000000000Z", old[:26])
				must(t, err)
				at = at.Add(time.Duration(rng.Int64N(2e6) - 1e6))
				values := map[string]string{"v": "1", "title": "t", "userId": "u", "operation": "0"}
				for chunk := range 1 + rng.IntN(8) {
					values[fmt.Sprintf("text%d", chunk)] = strings.Repeat("x", size)
				}
				must(t, errorOf(w.blogs.Submit(t.Context(), table.Write{Verb: table.Insert, Row: table.Row{Partition: "news@" + incarnation,
					Key: at.UTC().Format("20060102T150405.000000000Z-") + fmt.Sprintf("%08x", rng.Uint32()), Values: values}})))
			}
		}
		c := w.with(w.channels, hooked{Store: w.blogs, queried: change}, nil)
		seen := make(map[string]bool)
		last := ""
		for _, b := range pages(t, func(continuation string) (channels.List[channels.Blog], error) {
			return c.NewestBlogs(t.Context(), "news", "", top, continuation)
		}) {
			if last != "" && b.ID >= last {
				t.Fatalf("channel %d, pages of %d: %s follows %s", i, top, b.ID, last)
			}
			seen[b.ID], last = true, b.ID
		}
		for _, b := range all {
			if !seen[b.ID] && !removed[b.ID] {
				t.Fatalf("channel %d, pages of %d: %s is on no page", i, top, b.ID)
			}
		}
	}
	t.Logf("%d changes between requests", changes)
}

// A page of a steady channel takes three requests, one of a sparse channel a
// few more.
func TestRequestsForNewestBlogs(t *testing.T) {
	for _, tt := range []struct {
		name        string
		blogs       int
		apart       time.Duration
		first, rest int64 // requests
	}{
		{"none", 0, 0, 2, 0},
		{"a blog a second", 5_000, time.Second, 4, 3},
		{"a blog a minute", 2_500, time.Minute, 4, 3},
		{"a blog an hour", 2_500, time.Hour, 4, 3},
		{"a blog a week", 250, 7 * 24 * time.Hour, 6, 3},
	} {
		synctest.Test(t, func(t *testing.T) {
			w, incarnation := filled(t, 0)
			for i := range tt.blogs {
				time.Sleep(tt.apart)
				at := time.Now().UTC().Format("20060102T150405.000000000Z-") + fmt.Sprintf("%08x", i)
				must(t, errorOf(w.blogs.Submit(t.Context(), table.Write{Verb: table.Insert, Row: table.Row{Partition: "news@" + incarnation, Key: at,
					Values: map[string]string{"v": "1", "title": "t", "text0": "x", "userId": "u", "operation": "0"}}})))
			}
			p := w.start(nil, nil)
			var first, rest int64
			n := len(pages(t, func(continuation string) (channels.List[channels.Blog], error) {
				w.requests.Store(0)
				list, err := p.NewestBlogs(t.Context(), "news", "", 100, continuation)
				if continuation == "" {
					first = w.requests.Load()
				} else {
					rest = max(rest, w.requests.Load())
				}
				return list, err
			}))
			t.Logf("figure: requests of the first page of the newest blogs, and at most of the others, %s | %d, %d | ≤ %d, %d", tt.name, first, rest, tt.first, tt.rest)
			if n != tt.blogs || first > tt.first || rest > tt.rest {
				t.Errorf("%s: %d blogs, %d requests for the first page, %d for another, want %d, at most %d and %d", tt.name, n, first, rest, tt.blogs, tt.first, tt.rest)
			}
		})
	}
}

// A page of long blogs is short, and no answer of the store is larger than a
// list allows. A blog that is added during the request makes no page too long.
func TestNewestLongBlogs(t *testing.T) {
	const long, short = 30, 50
	w, _ := filled(t, 0)
	p := w.start(nil, nil)
	for i := range long + short {
		d := channels.Draft{Title: "t", UserID: "u"}
		if i < long {
			d.Text = strings.Repeat("a", 256<<10)
		}
		must(t, errorOf(p.Post(t.Context(), "news", d)))
	}
	largest, added := 0, 0
	c := w.with(w.channels, hooked{Store: w.blogs, queried: func(page table.Page) {
		size := 0
		for _, row := range page.Rows {
			for _, value := range row.Values {
				size += len(value)
			}
		}
		if largest = max(largest, size); added == 0 && size == 0 { // after the search
			added++
			p.open(t, "news")
		}
	}}, nil)
	first, err := c.NewestBlogs(t.Context(), "news", "", 10, "")
	if err != nil || len(first.Items) != 10 {
		t.Errorf("%d blogs, %v, want 10", len(first.Items), err)
	}
	longs := 0 // on one page
	rest := pages(t, func(continuation string) (channels.List[channels.Blog], error) {
		if continuation == "" {
			continuation = first.Continuation
		}
		list, err := c.NewestBlogs(t.Context(), "news", "", 100, continuation)
		longs = max(longs, len(list.Items)-len(slices.DeleteFunc(slices.Clone(list.Items), func(b channels.Blog) bool { return b.Text != "" })))
		return list, err
	})
	if n := len(first.Items) + len(rest); n != long+short+added || added != 1 || largest > 2<<20 || longs > 5 {
		t.Errorf("%d blogs, %d long ones on a page, an answer of %d bytes; want %d, at most 5 and 2 MiB", n, longs, largest, long+short+added)
	}
}
