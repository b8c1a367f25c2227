package work

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"

	"kennel/work/internal/format"
)

// TestResultsByOutcome reads the results with one outcome, which are few among
// many others, page by page.
func TestResultsByOutcome(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, in, d := fillWith(t, 3, nil, func(i int) string {
			if i == 150 || i == 151 || i == 299 {
				return "reject"
			}
			return ""
		})
		pages := func(top int, only ...Outcome) (pages [][]string) {
			for page := (Page{Top: top}); ; {
				list, err := in.Results(t.Context(), d.ID, page, only...)
				if err != nil {
					t.Fatal(err)
				}
				var ids []string
				for _, r := range list.Items {
					if !slices.Contains(only, r.Outcome) {
						t.Errorf("%+v in a list of %v", r, only)
					}
					ids = append(ids, r.ID)
				}
				pages = append(pages, ids)
				if page.Continuation = list.Continuation; page.Continuation == "" {
					return pages
				}
			}
		}
		for _, tt := range []struct {
			name string
			got  [][]string
			want string
		}{
			{"one a page", pages(1, ItemRejected), "[[150] [151] [299]]"},
			{"two a page", pages(2, ItemRejected), "[[150 151] [299]]"},
			{"all", pages(1000, ItemRejected), "[[150 151 299]]"},
			{"of two kinds", pages(5, ItemFailed, ItemRejected), "[[150 151 299]]"},
			{"none", pages(10, ItemFailed), "[[]]"},
		} {
			if got := fmt.Sprint(tt.got); got != tt.want {
				t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
			}
		}
		if done := slices.Concat(pages(100, ItemDone)...); len(done) != 297 || slices.Contains(done, "151") {
			t.Errorf("%d results are done, want 297", len(done))
		}
	})
}

// TestResultsSearchIsBounded: one call reads no more than so many rows for a
// page, so that it ends in time, and the next one continues.
func TestResultsSearchIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, nil, 0)
		in, d := s.one(nil, item(1, ""))
		for parcel := range maxSearched + 1 {
			// The packed results cannot be read, so a row that is parsed fails the test.
			if _, err := in.base.Store.InsertResults(t.Context(), d.ID, format.ResultRow{ID: format.ParcelID{Parcel: parcel}, Done: 1, Packed: []byte{1}}); err != nil {
				t.Fatal(err)
			}
		}
		first, err := in.Results(t.Context(), d.ID, Page{Top: 10}, ItemRejected)
		if err != nil || len(first.Items) > 0 || first.Continuation == "" {
			t.Fatalf("%+v, %v, want an empty page with a continuation", first, err)
		}
		second, err := in.Results(t.Context(), d.ID, Page{Top: 10, Continuation: first.Continuation}, ItemRejected)
		if err != nil || len(second.Items) > 0 || second.Continuation != "" {
			t.Errorf("%+v, %v, want an empty page, the last one", second, err)
		}
	})
}
