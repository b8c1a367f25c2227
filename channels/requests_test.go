package channels_test

import (
	"math"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"kennel/channels"
	"kennel/internal/memory"
	"kennel/internal/storetest"
)

// bound is the maximum number of requests for the deletion of n blogs,
// including the host's own requests for the message.
func bound(n int) int64 {
	pages, transactions := (n+999)/1000, (n+99)/100
	return int64(2*pages + transactions + 7)
}

// TestRequests counts the requests of a deletion from the call of Delete to the
// deletion of its message.
func TestRequests(t *testing.T) {
	shown := []int{100, 1_000, 6_001, 25_000}
	var above int64
	numbers := append(slices.Clone(sizes), 999, 1_999, 2_000, 2_001, 3_001, 6_001, 25_000)
	if storetest.Proving() {
		numbers = append(numbers, 2_999, 3_000, 3_999, 4_000, 4_001, 5_999, 6_000, 6_999, 7_000, 7_001, 10_000, 10_001)
	}
	for _, n := range numbers {
		full, incarnation := filled(t, n)
		synctest.Test(t, func(t *testing.T) {
			w := full.clone(nil)
			p := w.start(nil, nil)
			d, err := p.Delete(p.Context(), "news", "")
			if err != nil || d.State != channels.Done { // no time passes in the bubble
				t.Errorf("%d blogs are not deleted by one call: %+v, %v", n, d, err)
			}
			w.plain(t)
			got := w.requests.Load()
			if slices.Contains(shown, n) {
				t.Logf("%d requests to delete %d blogs, at most %d", got, n, bound(n))
			}
			if above = max(above, got-bound(n)); got > bound(n) {
				t.Errorf("deleting %d blogs took %d requests, want at most %d", n, got, bound(n))
			}
			w.gone(t, "news", incarnation, int64(n))
		})
	}
	t.Logf("figure: requests to delete N blogs beyond 2⌈N/1000⌉ + ⌈N/100⌉ + 7, delivery of the message included (%d sizes) | %d | ≤ 0", len(numbers), above)
}

// What Delete has no time for is continued directly afterwards, by one worker
// at a time, with two more requests: one to receive the message, one to read
// the record.
func TestDeletionContinuesInHandle(t *testing.T) {
	const n = 25_000
	full, incarnation := filled(t, n)
	above := int64(math.MinInt64)
	var maxPause time.Duration
	step := time.Duration(storetest.Scale(90, 10)) * time.Millisecond
	for trip := 60 * time.Millisecond; trip <= 150*time.Millisecond; trip += step {
		synctest.Test(t, func(t *testing.T) {
			w := full.clone(&memory.TableOptions{Options: memory.Options{Fault: (&memory.Line{RoundTrip: trip}).Fault}})
			p := w.start(nil, nil)
			begun := time.Now()
			d, err := p.Delete(p.Context(), "news", "")
			if took := time.Since(begun); err != nil || d.State != channels.Running || d.Deleted < 5_000 || took > 5*time.Second+4*trip {
				t.Errorf("%v away: delete returned %+v, %v after %v", trip, d, err, took)
			}
			messages := w.queues.All(cleanupQueue)
			if len(messages) != 1 {
				t.Fatalf("%d messages, want one", len(messages))
			}
			maxPause = max(maxPause, time.Until(messages[0].NextVisible))
			w.plain(t)
			above = max(above, w.requests.Load()-bound(n))
			w.gone(t, "news", incarnation, n)
		})
	}
	t.Logf("figure: requests in addition if `ChannelCleanup` finishes the deletion, storage 60 to 150 ms away | %d | ≤ 2", above)
	t.Logf("figure: pause until `ChannelCleanup` continues a deletion | %v | ≤ 3.5 s", maxPause)
	if above > 2 || maxPause > 3500*time.Millisecond {
		t.Errorf("%d requests above the bound, want at most 2; pause of %v, want at most 3.5 s", above, maxPause)
	}
}
