package channels_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"kennel/channels"
	"kennel/internal/memory"
	"kennel/internal/storetest"
)

// most is what the deletion of n blogs may cost, with the host's own requests
// for the message.
func most(n int) int64 {
	pages, transactions := (n+999)/1000, (n+99)/100
	return int64(2*pages + transactions + 7)
}

// TestRequests counts what a deletion costs from the call of Delete to the end
// of its message.
func TestRequests(t *testing.T) {
	told := []int{100, 1_000, 6_001, 25_000}
	var above int64
	numbers := append(sizes, 999, 1_999, 2_000, 2_001, 2_999, 3_000, 3_001, 3_999, 4_000, 4_001, 5_999, 6_000, 6_001, 6_999, 7_000, 7_001, 10_000, 10_001, 25_000)
	for _, n := range numbers {
		full := newWorld()
		incarnation := full.fill(t, "news", n)
		synctest.Test(t, func(t *testing.T) {
			w := full.clone(nil)
			p := w.start(nil, nil)
			d, err := p.Delete(p.Context(), "news", "")
			if err != nil {
				t.Fatal(err)
			}
			if d.State != channels.Done { // no time has passed
				t.Errorf("%d blogs are not deleted in one go", n)
			}
			w.host(t, func() *process { return w.start(nil, nil) })
			got := w.requests.Load()
			if slices.Contains(told, n) {
				t.Logf("figure: requests to delete %d blogs, delivery of the message included | %d | ≤ %d", n, got, most(n))
			}
			if above = max(above, got-most(n)); got > most(n) {
				t.Errorf("%d blogs cost %d requests, want at most %d", n, got, most(n))
			}
			w.gone(t, "news", incarnation, int64(n))
		})
	}
	t.Logf("figure: … above 2⌈N/1000⌉ + ⌈N/100⌉ + 7, the worst of %d sizes | %d | 0", len(numbers), above)
}

// TestHandOver: what Delete has no time for goes on right after, in one
// worker at a time, and costs no more than the rest.
func TestHandOver(t *testing.T) {
	const n = 25_000
	full := newWorld()
	incarnation := full.fill(t, "news", n)
	var above int64
	var longest time.Duration
	for trip := 60 * time.Millisecond; trip <= 150*time.Millisecond; trip += 10 * time.Millisecond {
		synctest.Test(t, func(t *testing.T) {
			w := full.clone(&memory.TableOptions{Options: memory.Options{Fate: (&memory.Line{RoundTrip: trip}).Fate}})
			p := w.start(nil, nil)
			begun := time.Now()
			d, err := p.Delete(p.Context(), "news", "")
			if took := time.Since(begun); err != nil || d.State != channels.Running || d.Deleted < 6_000 || took > 5*time.Second+4*trip {
				t.Errorf("%v away: delete answers %+v, %v after %v", trip, d, err, took)
			}
			messages := w.queues.All(cleanupQueue)
			if len(messages) != 1 {
				t.Fatalf("%d messages, want one", len(messages))
			}
			longest = max(longest, time.Until(messages[0].NextVisible))
			w.host(t, func() *process { return w.start(nil, nil) })
			above = max(above, w.requests.Load()-most(n))
			w.gone(t, "news", incarnation, n)
		})
	}
	t.Logf("figure: … above that, if Delete hands over for want of time, storage 60 to 150 ms away | %d | 0", above)
	t.Logf("figure: until somebody goes on with a deletion that Delete could not end | %v | ≤ 3.5 s", longest)
	if above > 0 || longest > 3500*time.Millisecond {
		t.Errorf("%d requests too many, and a pause of %v", above, longest)
	}
}

// TestRequestsAfterCrash: to the most that a deletion may cost, a crash adds
// one delivery, one look at the record and one page; or three pages, while
// Delete is at its fourth portion, the largest.
func TestRequestsAfterCrash(t *testing.T) {
	t.Parallel()
	added := map[int64]int64{} // in the worst case, by the pages of Delete's portion
	for _, n := range []int{0, 1, 101, 1_000, 1_001, 2_500, 3_500} {
		full := newWorld()
		full.fill(t, "news", n)
		for k := int64(1); ; k++ {
			killed := true
			for _, after := range []bool{false, true} {
				synctest.Test(t, func(t *testing.T) {
					w := full.clone(nil)
					// One transaction at a time: else those in flight at the
					// crash differ from run to run.
					o := &channels.Options{Parallel: 1}
					kill := &storetest.Killer{N: k, After: after}
					p := w.start(o, kill)
					_, err := p.Delete(p.Context(), "news", "")
					w.host(t, func() *process { return w.start(o, kill) })
					if killed = killed && kill.Struck(); !killed {
						return
					}
					const delivery, look = 1, 1
					pages := int64(1)
					if n > 3_000 {
						pages = 3
					}
					got, want := w.requests.Load(), most(n)+delivery+look
					if added[pages] = max(added[pages], got-want); added[pages] > pages {
						t.Errorf("%d blogs, %v: %d requests, want at most %d and %d pages; delete: %v", n, kill, got, want, pages, err)
					}
				})
			}
			if !killed || t.Failed() {
				break
			}
		}
	}
	t.Logf("figure: pages that a crash adds, killed at each request of the deletion | %d | ≤ 1", added[1])
	t.Logf("figure: … in the fourth portion of Delete, which is of three | %d | ≤ 3", added[3])
}

// TestContinues: what is too much for one call goes on in the next.
func TestContinues(t *testing.T) {
	full := newWorld()
	incarnation := full.fill(t, "news", 2_500)
	synctest.Test(t, func(t *testing.T) {
		w := full.clone(&memory.TableOptions{Options: memory.Options{Fate: (&memory.Line{RoundTrip: time.Millisecond}).Fate}})
		o := &channels.Options{AcceptFor: -1, HandleFor: time.Millisecond}
		p := w.start(o, nil)
		if _, err := p.Delete(p.Context(), "news", ""); err != nil {
			t.Fatal(err)
		}
		var seen []int64
		w.host(t, func() *process {
			d, err := w.start(nil, nil).Deletion(t.Context(), "news", "")
			if err != nil || d.State != channels.Running {
				t.Errorf("record: %+v, %v", d, err)
			}
			seen = append(seen, d.Deleted)
			return w.start(o, nil)
		})
		if want := []int64{0, 1000, 2000}; !slices.Equal(seen, want) {
			t.Errorf("the calls found deleted: %v, want %v", seen, want)
		}
		w.gone(t, "news", incarnation, 2_500)
	})
}
