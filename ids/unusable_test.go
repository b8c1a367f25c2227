package ids_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"kennel/ids"
	"kennel/internal/memory"
)

// TestUnusable: a sequence whose stored number cannot be used is reported at
// once, and until what is stored can be used again, although no caller comes.
func TestUnusable(t *testing.T) {
	raise := func(atLeast int64) func(*memory.Sequences) error {
		return func(store *memory.Sequences) error { // by another instance
			_, err := ids.Raise(context.Background(), store, "orders", atLeast, true)
			return err
		}
	}
	for _, tt := range []struct {
		name    string
		damage  func(store *memory.Sequences, before ids.Value)
		err     error
		partial func(*memory.Sequences) error // is not a cure
		cure    func(*memory.Sequences) error
	}{
		{"not a number", func(store *memory.Sequences, _ ids.Value) { store.Set("orders", "x") }, ids.ErrCorrupt,
			raise(500), raise(100_000)},
		{"older copy", func(store *memory.Sequences, before ids.Value) { store.Restore("orders", before) }, ids.ErrCorrupt,
			raise(1_500), raise(100_000)},
		{"deleted", func(store *memory.Sequences, _ ids.Value) { store.Delete("orders") }, ids.ErrMissing,
			func(store *memory.Sequences) error { store.Set("orders", "x"); return nil }, raise(100_000)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var down atomic.Bool
				store := memory.NewSequences(&memory.Options{Fault: func(memory.Call) memory.Fault {
					if down.Load() {
						return memory.Fault{Err: errors.New("no connection"), Lost: true}
					}
					return memory.Fault{}
				}})
				set := newSet(t, store, nil)
				ctx, cancel := context.WithCancel(t.Context())
				var running sync.WaitGroup
				running.Go(func() { set.Run(ctx) })
				defer func() { cancel(); running.Wait(); set.Close(t.Context()) }()

				time.Sleep(10 * time.Second) // so that no later step is at the instant of a recheck
				if _, err := set.Next(ctx, "orders"); err != nil {
					t.Fatal(err)
				}
				before, _ := store.Get("orders")
				if _, err := set.Lease(ctx, "orders", 10_000); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				tt.damage(store, before)
				if all := set.Unusable(); len(all) > 0 {
					t.Errorf("unusable %+v before it can be known", all)
				}
				began := time.Now()
				var count int64 // a refill in the background may have failed and counted too
				for range 2 {
					for err := error(nil); !errors.Is(err, tt.err); _, err = set.Lease(ctx, "orders", 10_000) {
					}
					all := set.Unusable()
					if len(all) != 1 || all[0].Sequence != "orders" || !errors.Is(all[0].Err, tt.err) || !all[0].Since.Equal(began) || all[0].Count <= count {
						t.Fatalf("unusable %+v, want orders since %v, more than %d times", all, began, count)
					}
					count = all[0].Count
				}

				if tt.err == ids.ErrCorrupt {
					time.Sleep(11 * time.Minute) // longer than other unused sequences are kept
					if all := set.Unusable(); len(all) != 1 {
						t.Errorf("unused and not repaired: unusable %+v, want orders", all)
					}
				}
				if err := tt.partial(store); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Minute)
				if all := set.Unusable(); len(all) != 1 || !errors.Is(all[0].Err, ids.ErrCorrupt) {
					t.Errorf("damaged otherwise: unusable %+v, want a corrupt one", all)
				}
				if err := tt.cure(store); err != nil {
					t.Fatal(err)
				}
				down.Store(true)
				time.Sleep(time.Minute)
				if all := set.Unusable(); len(all) != 1 {
					t.Errorf("while the store fails: unusable %+v, want orders", all)
				}
				down.Store(false)
				time.Sleep(31 * time.Second)
				if all := set.Unusable(); len(all) > 0 || set.Stats()["orders"].Problem != "" {
					t.Errorf("after the cure: unusable %+v, want none", all)
				}
				calls := store.Calls()
				time.Sleep(5 * time.Minute)
				if got := store.Calls(); got > calls+1 { // one when the unused sequence is given up
					t.Errorf("%d requests after the cure, want at most one", got-calls)
				}
				if n, err := set.Next(ctx, "orders"); n != 100_000 || err != nil {
					t.Errorf("next number = %d, %v, want 100000", n, err)
				}
			})
		})
	}
}

func TestNearEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewSequences(nil)
		store.Set("far", "8000")
		store.Set("near", "9950")
		store.Set("over", "10001")
		set := newSet(t, store, &ids.Options{Last: 10_000, RangeSize: 10})
		for _, name := range []string{"far", "near", "over"} {
			set.Next(t.Context(), name)
		}
		synctest.Wait()
		near := set.NearEnd()
		if len(near) != 2 || near["near"] < 9950 || near["over"] != 10_000 || set.Len() != 3 {
			t.Errorf("near the end: %v of %d, want near and over of 3", near, set.Len())
		}
		set.Close(t.Context())
	})
}
