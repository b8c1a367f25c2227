package channels_test

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"kennel/channels"
	"kennel/internal/memory"
)

// TestRefused: who hears of a refusal can rely on nothing having changed, and
// the store is asked once. All requests from one on are refused; the one before
// is done, but its answer lost.
func TestRefused(t *testing.T) {
	full, old := withBlogs(t)
	draft := channels.Draft{Title: "new", UserID: "bob"}
	for name, do := range map[string]func(*process) error{
		"create":    func(p *process) error { return last(p.Create(p.Context(), "other", "ann")) },
		"post":      func(p *process) error { return errorOf(p.Post(p.Context(), "news", draft)) },
		"update":    func(p *process) error { return errorOf(p.Update(p.Context(), "news", old.ID, old.ETag, draft)) },
		"overwrite": func(p *process) error { return errorOf(p.Update(p.Context(), "news", old.ID, "*", draft)) },
		"remove":    func(p *process) error { return p.Remove(p.Context(), "news", old.ID, "") },
		"delete":    func(p *process) error { return errorOf(p.Delete(p.Context(), "news", "")) },
	} {
		told := 0
		for k := int64(1); ; k++ {
			for _, lost := range []bool{false, true} {
				synctest.Test(t, func(t *testing.T) {
					var sent atomic.Int64
					w := full.hit(&memory.TableOptions{Options: memory.Options{Fate: func(memory.Call) memory.Fate {
						switch n := sent.Add(1); {
						case n >= k:
							return memory.Fate{Err: channels.ErrRefused, Lost: true}
						case n == k-1 && lost:
							return memory.Fate{Err: errReset}
						}
						return memory.Fate{}
					}}})
					before := w.clone(nil)
					err := do(w.start(nil, nil))
					if err == nil {
						told = -1 // it was through before
						return
					}
					if n := sent.Load(); n > k && !lost || n > k+1 { // one to read back
						t.Errorf("%s, refused from request %d on (answer before lost: %v): %d requests, %v", name, k, lost, n, err)
					}
					if !errors.Is(err, channels.ErrRefused) {
						return
					}
					told++
					if now, was := w.effects(t), before.effects(t); now != was {
						t.Errorf("%s, refused from request %d on (answer before lost: %v): %v, but the store went from %s to %s", name, k, lost, err, was, now)
					}
				})
			}
			if told < 0 || k > 20 {
				break
			}
			if k == 1 && told != 2 {
				t.Errorf("%s: refused at once, and the caller does not hear so", name)
			}
		}
	}
}

// effects is all that callers can notice.
func (w *world) effects(t *testing.T) string {
	t.Helper()
	quiet := w.clone(nil) // nothing happens to these requests
	seen := fmt.Sprint(len(w.queues.All(cleanupQueue)), " messages")
	for _, table := range []*memory.Table{quiet.channels, quiet.blogs} {
		page, err := table.Query(t.Context(), channels.Query{Top: 1000})
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

func last[A, B any](_ A, _ B, err error) error { return err }
