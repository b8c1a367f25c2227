package work

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"kennel/internal/storetest"
	"kennel/internal/table"
	"kennel/work/internal/format"
	"kennel/work/internal/model"
)

// TestList lists batches in both orders and in all states, in pages.
func TestList(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, nil, 0)
		in := s.start(nil, nil)
		body, _ := someLines(3)
		var ids []string
		for i := range 7 {
			time.Sleep(time.Millisecond)
			batch, _, err := in.send("", body)
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, batch.ID)
			if i == 3 {
				in.drain()
			}
		}
		s.start(&storetest.Killer{N: 3, After: true}, nil).send("", body) // recorded, not listed
		for _, newest := range []bool{false, true} {
			for _, top := range []int{1, 2, 6, 7, 1000} {
				var listed []string
				for page := (Page{Top: top}); ; {
					list, err := in.List(timed(t, time.Minute), newest, page)
					if err != nil || len(list.Items) > top || len(list.Items) == 0 && top < 7 {
						t.Fatalf("newest %v, page of %d: %d batches, %v", newest, top, len(list.Items), err)
					}
					for _, batch := range list.Items {
						listed = append(listed, batch.ID)
						isDone := slices.Index(ids, batch.ID) <= 3
						if want, err := in.Get(timed(t, time.Minute), batch.ID); err != nil || !sameBatch(batch, want) || (batch.State == Done) != isDone {
							t.Errorf("listed %+v, want %+v, %v", batch, want, err)
						}
					}
					if page.Continuation = list.Continuation; page.Continuation == "" {
						break
					}
				}
				want := slices.Clone(ids)
				if newest {
					slices.Reverse(want)
				}
				if len(listed) == 8 { // its rows were not inserted
					t.Fatal("the batch without a list row was listed")
				}
				if !slices.Equal(listed, want) {
					t.Errorf("newest %v, pages of %d: %v, want %v", newest, top, listed, want)
				}
			}
		}
		for _, page := range []Page{{Top: 0}, {Top: 1001}, {Top: 1, Continuation: "x"}} {
			_, err := in.List(timed(t, time.Minute), false, page)
			if err == nil || errors.Is(err, ErrContinuation) != (page.Continuation != "") {
				t.Errorf("page %+v: %v", page, err)
			}
		}
	})
}

// TestListLeavesOut lists the batches beside rows that cannot be read: of a
// row, and of both lists.
func TestListLeavesOut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, nil, 0)
		in := s.start(nil, nil)
		body, _ := someLines(3)
		var ids []string
		for range 7 {
			time.Sleep(time.Millisecond)
			batch, _, err := in.send("", body)
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, batch.ID)
		}
		newer := map[string]string{format.VersionColumn: "2", format.DetailsColumn: "{}"}
		for _, row := range []table.Row{
			{Partition: ids[1], Key: format.BatchKey, Values: newer},
			{Partition: format.ListIn, Key: format.Oldest + ids[4], Values: newer},
			{Partition: format.ListIn, Key: format.Newest + format.Invert(ids[4]), Values: newer},
			{Partition: ids[6], Key: format.BatchKey, Values: newer},
		} {
			if _, err := in.base.Store.Rows.Submit(t.Context(), table.Write{Verb: table.Upsert, Row: row}); err != nil {
				t.Fatal(err)
			}
		}
		want := []string{ids[0], ids[2], ids[3], ids[5]}
		for _, newestFirst := range []bool{false, true} {
			for _, top := range []int{1, 2, 7, 1000} {
				var listed []string
				leftOut := 0
				for page := (Page{Top: top}); ; {
					list, err := in.List(timed(t, time.Minute), newestFirst, page)
					if err != nil || (list.LeftOut > 0) != errors.Is(list.Problem, ErrCorrupt) || len(list.Items)+list.LeftOut > top {
						t.Fatalf("page of %d: %+v, %v", top, list, err)
					}
					for _, b := range list.Items {
						listed = append(listed, b.ID)
					}
					leftOut += list.LeftOut
					if page.Continuation = list.Continuation; page.Continuation == "" {
						break
					}
				}
				if newestFirst {
					slices.Reverse(listed)
				}
				if !slices.Equal(listed, want) || leftOut != 3 {
					t.Errorf("newest first: %t, pages of %d: %v and %d left out, want %v and 3", newestFirst, top, listed, leftOut, want)
				}
			}
		}
	})
}

// sameBatch compares what does not change by reading.
func sameBatch(a, b Batch) bool {
	if (a.FinishedAt == nil) != (b.FinishedAt == nil) || a.FinishedAt != nil && !a.FinishedAt.Equal(*b.FinishedAt) || !a.SubmittedAt.Equal(b.SubmittedAt) {
		return false
	}
	a.FinishedAt, b.FinishedAt = nil, nil
	a.SubmittedAt, b.SubmittedAt = time.Time{}, time.Time{}
	return a == b
}

// TestIDs checks that the order of IDs is that of time, and of inverted IDs the
// reverse.
func TestIDs(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 22, 23, 59, 59, 998_000_000, time.FixedZone("", 3600))
	ids := []string{model.NewID(at), model.NewID(at.Add(time.Millisecond)), model.NewID(at.Add(2 * time.Millisecond)), model.NewID(at.Add(time.Hour)), model.NewID(at.AddDate(1, 0, 0))}
	if !slices.IsSorted(ids) {
		t.Errorf("IDs %v are not in order", ids)
	}
	for i, id := range ids {
		of, err := model.IdTimeOf(id)
		if err != nil || i == 0 && !of.Equal(at) {
			t.Errorf("ID %s is of %v, %v", id, of, err)
		}
		if i > 0 && format.Invert(ids[i-1]) <= format.Invert(id) {
			t.Errorf("inverted, %s is not after %s", ids[i-1], id)
		}
	}
	if same := []string{model.NewID(at), model.NewID(at)}; slices.IsSorted(same) == (format.Invert(same[0]) <= format.Invert(same[1])) {
		t.Errorf("the inverted IDs of %v are in the same order", same)
	}
	for _, bad := range []string{"", "x", ids[0] + "a", "+active", "20261322210601123-abcdefgh", "2026112221060112-abcdefgh", ids[0][:18] + "ABCDEFGH"} {
		if _, err := model.IdTimeOf(bad); !errors.Is(err, ErrNotFound) {
			t.Errorf("ID %q: %v", bad, err)
		}
	}
}
