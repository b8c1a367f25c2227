package instances

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestSections: a section that only its owner and its readers know goes through
// a row, with what all parts of the program added.
func TestSections(t *testing.T) {
	type item struct {
		Text   string
		Number float64
		At     time.Time
	}
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	o := &Items[item]{
		Texts:   func(i *item) []*string { return []*string{&i.Text} },
		Numbers: func(i *item) []*float64 { return []*float64{&i.Number} },
		Shift:   func(i *item, d time.Duration) { i.At = i.At.Add(d) },
	}
	given := item{strings.Repeat("é", 400), 1.23456, at}
	stored := item{strings.Repeat("é", 300) + "…", 1.235, at}
	shifted := stored
	shifted.At = at.Add(time.Hour)
	one, list, byName := One("one", o), List("list", o), ByName("byName", o)

	r := Report{Process: Process{Instance: "p"}}
	one.Add(&r, item{Text: "a"})
	one.Add(&r, given)
	list.Add(&r, []item{{Text: "a"}})
	list.Add(&r, []item{given})
	first := r
	byName.Add(&first, map[string]item{"c": {Text: "of a copy"}})
	byName.Add(&r, map[string]item{"a": {Text: "a"}, "b": {Text: "b"}})
	byName.Add(&r, map[string]item{"b": given})

	written, err := row(r)
	if err != nil {
		t.Fatal(err)
	}
	back, err := parse(written, []Part{one, list, byName})
	if err != nil {
		t.Fatal(err)
	}
	check := func(when string, want item) {
		t.Helper()
		at := want.At.Sub(at)
		a := item{Text: "a"}
		a.At = a.At.Add(at)
		if diff := cmp.Diff(want, one.Of(back)); diff != "" {
			t.Errorf("%s: one value (-want +got):\n%s", when, diff)
		}
		if diff := cmp.Diff([]item{a, want}, list.Of(back)); diff != "" {
			t.Errorf("%s: list (-want +got):\n%s", when, diff)
		}
		if diff := cmp.Diff(map[string]item{"a": a, "b": want}, byName.Of(back)); diff != "" {
			t.Errorf("%s: by name (-want +got):\n%s", when, diff)
		}
	}
	check("stored", stored)
	back.shift(time.Hour)
	check("with times corrected", shifted)
	if given.Number != one.Of(r).Number || given.Text != list.Of(r)[1].Text {
		t.Errorf("the report is %+v after it was stored", r)
	}

	others, err := parse(written, []Part{list, One[string]("new", nil)})
	if err != nil || len(list.Of(others)) != 2 || one.Of(others) != (item{}) || byName.Of(others) != nil {
		t.Errorf("%v, %+v, want only the list", err, others)
	}
	if _, err := parse(written, []Part{One[string]("list", nil)}); err == nil {
		t.Error("no error for a section of another type")
	}
}
