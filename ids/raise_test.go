package ids_test

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"kennel/ids"
	"kennel/internal/memory"
)

// Everybody honours a raised sequence within one range each, although two may
// be in hand.
func TestRaiseWhileNodesRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewSequences(nil)
		nodes := make([]*ids.Generator, 20)
		draw := func(g *ids.Generator) int64 {
			n, err := g.Next(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			synctest.Wait() // what this draw set off is over before the next
			return n
		}
		for i := range nodes {
			nodes[i] = newGenerator(t, store, &ids.Options{RangeSize: 100, MaxRangeSize: 100})
			for range 30 + 7*i {
				draw(nodes[i])
			}
		}
		const floor = 1_000_000
		if err := ids.Raise(t.Context(), store, "orders", floor); err != nil {
			t.Fatal(err)
		}
		for i, g := range nodes {
			below := 0
			for range 300 {
				if draw(g) < floor {
					below++
				}
			}
			if below > 100 {
				t.Errorf("node %d issued %d more numbers below the floor, want at most a range of 100", i, below)
			}
			if s := g.Stats(); s.Reserved != s.Issued+s.Burnt+s.InHand {
				t.Errorf("node %d: the account does not add up: %+v", i, s)
			}
		}
	})
}

func TestRaiseRefusesToLower(t *testing.T) {
	store := memory.NewSequences(nil)
	if err := ids.Raise(t.Context(), store, "orders", 500); err != nil {
		t.Fatalf("Raise of a new sequence: %v", err)
	}
	if err := ids.Raise(t.Context(), store, "orders", 500); err != nil {
		t.Errorf("Raise to where it stands: %v", err)
	}
	if err := ids.Raise(t.Context(), store, "orders", 499); !errors.Is(err, ids.ErrLower) {
		t.Errorf("Raise to a lower number: %v, want ErrLower", err)
	}
	if err := ids.Raise(t.Context(), store, "orders", -1); err == nil {
		t.Error("Raise to a negative number succeeded")
	}
	g := newGenerator(t, store, nil)
	if n, err := g.Next(t.Context()); n != 500 || err != nil {
		t.Errorf("Next = %d, %v, want 500", n, err)
	}
	if err := ids.Raise(t.Context(), store, "orders", 500); err != nil {
		t.Errorf("Raise to where it was raised before: %v", err)
	}
	store.Set("broken", "12x")
	if err := ids.Raise(t.Context(), store, "broken", 5); !errors.Is(err, ids.ErrCorrupt) {
		t.Errorf("Raise of a corrupt sequence: %v, want ErrCorrupt", err)
	}
}

// A Raise whose reply is lost was done, or it was not: repeating it is right
// either way.
func TestRaiseWithLostReply(t *testing.T) {
	lost := errors.New("connection reset")
	for name, fate := range map[string]func(memory.Call) memory.Fate{
		"refused":       memory.RefuseNth(2, lost),
		"done, unheard": memory.LoseReplyNth(2, lost),
	} {
		t.Run(name, func(t *testing.T) {
			store := memory.NewSequences(&memory.Options{Fate: fate})
			if err := ids.Raise(t.Context(), store, "orders", 500); !errors.Is(err, lost) {
				t.Fatalf("Raise: %v, want the store's error", err)
			}
			if err := ids.Raise(t.Context(), store, "orders", 500); err != nil {
				t.Errorf("Raise again: %v", err)
			}
			if m, _ := store.Get("orders"); m.Text != "500" || m.Floor != "500" {
				t.Errorf("stored %q with floor %q, want 500", m.Text, m.Floor)
			}
		})
	}
}

// A number that went back, or a blob that vanished, under a running node is
// not believed: others may hold what lies between.
func TestSequenceMustNotGoBack(t *testing.T) {
	for name, spoil := range map[string]func(*memory.Sequences){
		"lowered by hand": func(s *memory.Sequences) { s.Set("orders", "5") },
		"deleted":         func(s *memory.Sequences) { s.Delete("orders") },
	} {
		t.Run(name, func(t *testing.T) {
			store := memory.NewSequences(nil)
			g := newGenerator(t, store, &ids.Options{RangeSize: 10, MaxRangeSize: 10})
			if _, err := g.Next(t.Context()); err != nil {
				t.Fatal(err)
			}
			spoil(store)
			seen := map[int64]bool{1: true}
			for i := range 100 {
				n, err := g.Next(t.Context())
				if errors.Is(err, ids.ErrCorrupt) {
					break
				}
				if err != nil || seen[n] || i > 20 {
					t.Fatalf("call %d: Next = %d, %v, want the rest of what was reserved, then ErrCorrupt", i, n, err)
				}
				seen[n] = true
			}
			// Put right by a person, it goes on.
			store.Set("orders", fmt.Sprint(1000))
			if n, err := g.Next(t.Context()); n != 1000 || err != nil {
				t.Errorf("Next after the repair = %d, %v, want 1000", n, err)
			}
		})
	}
}
