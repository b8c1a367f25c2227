package deadletters_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"kennel/deadletters"
)

// TestForms lists a letter of each form, and puts its message back as it was.
func TestForms(t *testing.T) {
	t.Parallel()
	for i := range newWorld(t, nil).forms(0) {
		inBubble(t, func(t *testing.T) {
			w := newWorld(t, nil)
			f := w.forms(0)[i]
			t.Log(f.name)
			if n := w.rows.Rows(""); n != 3 { // of the three long texts
				t.Fatalf("%d rows of claims", n)
			}
			w.create(source)
			w.put(poison, f.stored)
			time.Sleep(time.Second)
			l := w.letters(nil, deadletters.Options{})
			items := w.front(l)
			if len(items) != 1 {
				t.Fatalf("listed %+v", items)
			}
			got, want := items[0], f.want
			want.ID, want.InsertedAt, want.ExpiresAt = got.ID, got.InsertedAt, got.ExpiresAt
			if want.MovedBy == deadletters.ByHost && strings.HasPrefix(got.Reason, want.Reason) {
				want.Reason = got.Reason
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("listed (-want +got):\n%s", diff)
			}
			if len(got.ID) != 16 || strings.ToLower(got.ID) != got.ID || got.ExpiresAt.Sub(got.InsertedAt) != 7*24*time.Hour {
				t.Errorf("%+v", got)
			}
			r, err := l.Redrive(context.Background(), poison, deadletters.Selection{IDs: []string{got.ID}})
			if err != nil || r.Matched != 1 || r.Moved != 1 || r.More || len(r.Left) > 0 {
				t.Errorf("redriven: %+v, %v", r, err)
			}
			if bodies := w.bodies(source); !slices.Equal(bodies, []string{f.original}) {
				t.Errorf("put %.300q, want %.300q", bodies, f.original)
			}
			if left := w.bodies(poison); len(left) > 0 {
				t.Errorf("left %.300q", left)
			}
		})
	}
}
