package deadletters_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"kennel/deadletters"
	"kennel/internal/storetest"
)

// TestKilledAtEachRequest kills a process before and after each request of a list
// and a redrive. Another one lists each letter once, and redrives what is left.
func TestKilledAtEachRequest(t *testing.T) {
	t.Parallel()
	ran := storetest.KillAtEachRequest(t, storetest.Scale(40, 2), runKilled)
	t.Logf("figure: dead letters lost or left, a process killed before and after each request of a list and a redrive (%d runs) | 0 | 0", ran)
}

func runKilled(t *testing.T, kill *storetest.Killer) {
	w := newWorld(t, distant)
	w.create(source)
	want := make(map[string]bool)
	for i := range 3 {
		for _, f := range w.forms(i) {
			w.put(poison, f.stored)
			if i == 0 && f.identity { // an earlier crash
				w.put(poison, f.stored)
			}
			want[f.original] = true
		}
	}
	time.Sleep(time.Second)
	p := storetest.NewProcess(kill)
	l := w.letters(p, deadletters.Options{})
	_, err := l.Queues(p.Context())
	if err == nil {
		_, err = l.Front(p.Context(), poison)
	}
	if err == nil {
		_, err = redriveAll(p.Context(), l)
	}
	if err != nil && !p.Dead() {
		t.Error(err)
	}
	w.queues.Wait()
	time.Sleep(deadletters.MaxHidden)
	if left := w.bodies(poison); w.visible(poison) != len(left) {
		t.Errorf("%d letters of %d are visible", w.visible(poison), len(left))
	}
	seen := make(map[string]bool)
	for _, item := range w.front(w.letters(nil, deadletters.Options{})) {
		if seen[item.ID] || item.Problem != "" {
			t.Errorf("listed %+.300v, twice: %v", item, seen[item.ID])
		}
		seen[item.ID] = true
	}
	w.arrived(want, 32) // the letters under way
}

// TestDeleteKilled does the same with a deletion of selected letters. Nothing
// else is deleted, nothing is put, and no claim is removed.
func TestDeleteKilled(t *testing.T) {
	t.Parallel()
	ran := storetest.KillAtEachRequest(t, storetest.Scale(25, 2), func(t *testing.T, kill *storetest.Killer) {
		w := newWorld(t, distant)
		w.create(source)
		var kept []string
		var ids []string
		for i := range 3 {
			for _, f := range w.forms(i) {
				w.put(poison, f.stored)
			}
		}
		time.Sleep(time.Second)
		for _, item := range w.front(w.letters(nil, deadletters.Options{})) {
			ids = append(ids, item.ID)
		}
		claims := w.rows.Rows("")
		for _, m := range w.queues.All(poison)[len(ids):] {
			kept = append(kept, m.Body)
		}
		slices.Sort(kept)
		p := storetest.NewProcess(kill)
		s := deadletters.Selection{IDs: ids}
		if _, err := w.letters(p, deadletters.Options{}).Delete(p.Context(), poison, s); err != nil && !p.Dead() {
			t.Error(err)
		}
		w.queues.Wait()
		time.Sleep(deadletters.MaxHidden)
		if r, err := w.letters(nil, deadletters.Options{}).Delete(context.Background(), poison, s); err != nil || len(r.Left) > 0 {
			t.Errorf("%+v, %v", r, err)
		}
		if got := w.bodies(poison); !slices.Equal(got, kept) || w.visible(poison) != len(kept) {
			t.Errorf("%d letters are left, %d of them visible, want %d", len(got), w.visible(poison), len(kept))
		}
		if n := w.rows.Rows(""); len(w.bodies(source)) > 0 || n != claims {
			t.Errorf("%d messages were put, %d claims are left of %d", len(w.bodies(source)), n, claims)
		}
	})
	t.Logf("figure: dead letters left, or others deleted, a process killed before and after each request of a deletion (%d runs) | 0 | 0", ran)
}
