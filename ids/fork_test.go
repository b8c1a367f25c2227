package ids_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"kennel/ids"
	"kennel/internal/memory"
)

// TestForkIsNoticed: a write of the last seconds before a restore, which no row
// shows yet, is the only one since the copy. Its writer refuses, although more
// writers than the history holds have moved the copy on, all of them beyond it.
func TestForkIsNoticed(t *testing.T) {
	for name, raise := range map[string]bool{"by a reservation": false, "by a raise": true} {
		t.Run("moved on "+name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := memory.NewSequences(nil)
				var table rows
				start := func(process int) *ids.Generator {
					g := newGenerator(t, store, &ids.Options{Reported: table.of(process)})
					t.Cleanup(func() { closeNow(g) })
					return g
				}
				idle, seen, knew := start(1), start(2), start(3)
				next(t, idle)
				synctest.Wait()
				table.report(1, idle.Stats())
				copied, _ := store.Get("orders")
				time.Sleep(time.Minute)
				next(t, knew)
				if _, err := seen.Lease(t.Context(), 50); err != nil { // and sees the write of the other
					t.Fatal(err)
				}
				synctest.Wait()
				store.Restore("orders", copied)
				if raise {
					if _, err := ids.Raise(t.Context(), store, "orders", 20, false); err != nil {
						t.Fatal(err)
					}
				}
				for i := range 20 {
					g := start(100 + i)
					for range 3 {
						if _, err := g.Lease(t.Context(), 100); err != nil {
							t.Fatal(err)
						}
					}
					synctest.Wait()
					table.report(100+i, g.Stats())
				}
				time.Sleep(30 * time.Second)
				for _, g := range []*ids.Generator{knew, seen} {
					if err := reserveAgain(t, g); !errors.Is(err, ids.ErrCorrupt) {
						t.Errorf("a process whose write was undone reserved again: %v, want ErrCorrupt", err)
					}
				}
				if err := reserveAgain(t, idle); err != nil {
					t.Errorf("a process whose write is in the copy: %v", err)
				}
				if _, err := ids.Raise(t.Context(), store, "orders", 10_000_000, false); err != nil {
					t.Fatal(err)
				}
				for _, g := range []*ids.Generator{knew, seen, idle} {
					if err := reserveAgain(t, g); err != nil {
						t.Errorf("after the raise: %v", err)
					}
				}
			})
		})
	}
}

// Forks that are not of the form make a mark unusable, as a history does.
func TestMalformedForks(t *testing.T) {
	for _, forks := range []string{"5", "x:ABC", "-1:ABC", "1:A 2:B 3:C 4:D 5:E"} {
		synctest.Test(t, func(t *testing.T) {
			store := memory.NewSequences(nil)
			store.Restore("orders", ids.Mark{Text: "5", Forks: forks}.Value())
			g := newGenerator(t, store, nil)
			if n, err := g.Next(t.Context()); !errors.Is(err, ids.ErrCorrupt) {
				t.Errorf("with forks %q: %d, %v, want ErrCorrupt", forks, n, err)
			}
			closeNow(g)
		})
	}
}
