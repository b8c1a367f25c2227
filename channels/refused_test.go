package channels_test

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"kennel/channels"
	"kennel/internal/memory"
	"kennel/internal/table"
)

// A call that fails without ErrUnclear changed nothing, and a refused request
// is not repeated. All requests from one on are refused; the one before it is
// applied, and its answer may be lost.
func TestRefused(t *testing.T) {
	full, old := withBlogs(t)
	for _, call := range calls(old) {
		refused, done := 0, false
		for k := int64(1); !done && k <= 20; k++ {
			for _, lost := range []bool{false, true} {
				synctest.Test(t, func(t *testing.T) {
					var sent atomic.Int64
					w := full.hit(func(memory.Call) memory.Fault {
						switch n := sent.Add(1); {
						case n >= k:
							return memory.Fault{Err: channels.ErrRefused, Lost: true}
						case n == k-1 && lost:
							return memory.Fault{Err: errReset}
						}
						return memory.Fault{}
					})
					before := w.effects(t)
					err := call.do(w.start(nil, nil))
					if done = err == nil; done {
						return
					}
					where := fmt.Sprintf("%s, refused from request %d on (answer before lost: %v): %v", call.name, k, lost, err)
					if n := sent.Load(); n > k && !lost || n > k+1 { // one to read back
						t.Errorf("%s: %d requests", where, n)
					}
					if errors.Is(err, channels.ErrUnclear) {
						return
					}
					refused++
					if now := w.effects(t); !errors.Is(err, channels.ErrRefused) || now != before {
						t.Errorf("%s, but the store changed from %s to %s", where, before, now)
					}
				})
			}
			if k == 1 && refused != 2 {
				t.Errorf("%s: the error after a refused first request is not %v", call.name, channels.ErrRefused)
			}
		}
	}
}

// effects returns everything that callers can read.
func (w *world) effects(t *testing.T) string {
	t.Helper()
	quiet := w.clone(nil) // without faults
	seen := fmt.Sprint(len(w.queues.All(cleanupQueue)), " messages")
	for _, store := range []*memory.Table{quiet.channels, quiet.blogs} {
		page, err := store.Query(t.Context(), table.Query{Top: 1000})
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range page.Rows {
			if state := row.Values["state"]; row.Key != "!fence" && state != "creating" && state != "abandoned" {
				seen += fmt.Sprint("; ", row.Partition, " ", row.Key, " ", row.Version)
			}
		}
	}
	return seen
}
