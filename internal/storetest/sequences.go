package storetest

import (
	"context"
	"errors"
	"testing"
	"time"

	"kennel/ids"
)

// Sequences is a store under test, with a function that deletes a number, as an
// operator does.
type Sequences struct {
	ids.Store
	Delete func(t *testing.T, sequence string)
}

// TestSequences checks what [ids.Store] adds to the contract that TestValues
// checks: a sequence that was remembered is missing when its number is deleted,
// and not new. The store is empty and without a container.
func TestSequences(t *testing.T, s Sequences) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	load := func(want error) {
		t.Helper()
		if v, err := s.Load(ctx, "orders", ""); !errors.Is(err, want) || want != nil && v.Version != "" {
			t.Errorf("load: %+v, %v, want %v", v, err, want)
		}
	}
	absent := func(sequence string) {
		t.Helper()
		if v, err := s.Load(ctx, sequence, ""); err != nil || v.Version != "" || v.ReadAt.IsZero() {
			t.Errorf("load %s: %+v, %v, want no value and the time", sequence, v, err)
		}
	}
	absent("orders")
	v, err := s.Replace(ctx, "orders", ids.Value{}, ids.Value{Text: "1001"})
	if err != nil {
		t.Fatal(err)
	}
	s.Delete(t, "orders")
	absent("orders")
	for range 2 {
		if err := s.Remember(ctx, "orders"); err != nil {
			t.Fatal(err)
		}
	}
	load(ids.ErrMissing)
	absent("others")
	if _, err := s.Replace(ctx, "orders", v, ids.Value{Text: "2001"}); !errors.Is(err, ids.ErrChanged) {
		t.Errorf("replace of a deleted number: %v, want ErrChanged", err)
	}
	if _, err := s.Replace(ctx, "orders", ids.Value{}, ids.Value{Text: "5000"}); err != nil {
		t.Errorf("create it again: %v", err)
	}
	load(nil)
}
