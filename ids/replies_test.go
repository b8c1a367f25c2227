package ids_test

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"kennel/ids"
	"kennel/internal/memory"
)

// TestLostReply lets each request fail in turn, once without having arrived
// and once with only its reply lost. A node that is alone loses no number by
// either.
func TestLostReply(t *testing.T) {
	lost := errors.New("connection reset")
	for n := int64(1); n <= 6; n++ {
		for name, fate := range map[string]func(memory.Call) memory.Fate{
			"refused":       memory.RefuseNth(n, lost),
			"done, unheard": memory.LoseReplyNth(n, lost),
		} {
			t.Run(fmt.Sprintf("request %d %s", n, name), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					store := memory.NewSequences(&memory.Options{Fate: fate})
					next := int64(1)
					for range 2 { // two lives, so that the giving back is hit too
						g := newGenerator(t, store, &ids.Options{RangeSize: 10, MaxRangeSize: 10})
						gaveBack := true
						for range 17 {
							got, err := g.Next(t.Context())
							if err != nil || got != next {
								t.Fatalf("Next = %d, %v, want %d", got, err, next)
							}
							next++
						}
						synctest.Wait()
						if err := g.Close(t.Context()); err != nil {
							gaveBack = false
							if !errors.Is(err, lost) {
								t.Error(err)
							}
						}
						if s := g.Stats(); s.Burnt > 0 && gaveBack {
							t.Errorf("burnt %d numbers", s.Burnt)
						}
						if mark, _ := store.Get("orders"); !gaveBack {
							stored := storedNumber(t, mark)
							if stored != next && stored != 31 {
								t.Errorf("after an unclear giving back the store has %d, want %d or 31", stored, next)
							}
							next = stored
						}
					}
				})
			})
		}
	}
}

// One PUT a range, and one read at the start: P4.
func TestRequestsPerMillion(t *testing.T) {
	store := memory.NewSequences(nil)
	g := newGenerator(t, store, &ids.Options{MaxRangeSize: 1000})
	const numbers = 2_000_000
	for range numbers {
		if _, err := g.Next(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if err := g.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	s := g.Stats()
	if got := store.Calls(); got != s.Requests {
		t.Errorf("the store was sent %d requests, Stats says %d", got, s.Requests)
	}
	// At most two ranges more than were used have been reserved, and there is
	// the giving back.
	if got, most := s.Requests, int64(1+numbers/1000+1+1); got > most {
		t.Errorf("%d requests for %d numbers, want at most %d", got, int64(numbers), most)
	}
}
