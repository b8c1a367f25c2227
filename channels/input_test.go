package channels_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"kennel/channels"
)

// rejects checks that calls reject an input with an error that names its
// field.
func rejects(t *testing.T, field, input string, errs ...error) {
	t.Helper()
	for i, err := range errs {
		if invalid, ok := errors.AsType[*channels.InputError](err); !ok || invalid.Field != field || invalid.Reason == "" {
			t.Errorf("%.40q, call %d: %v, want an InputError that names %s", input, i, err, field)
		}
	}
}

// Invalid input is rejected before any request, with an error that names the
// field.
func TestBadInput(t *testing.T) {
	const good = "20260102T030405.000000000Z-00000000"
	w := newWorld()
	p := w.start(nil, nil)
	ctx := t.Context()
	ofBlog := func(name, id string) []error {
		return []error{errorOf(p.Blog(ctx, name, id)), errorOf(p.Update(ctx, name, id, "*", someDraft)), p.Remove(ctx, name, id, "")}
	}
	for _, name := range []string{"", "a/b", `a\b`, "a#b", "a?b", "a\x00b", "a\nb", "\x7f", "\u0085", "\xff", " a", "a ", ".", "..", strings.Repeat("n", 201), strings.Repeat("n", 2<<10)} {
		rejects(t, "channel", name, ofBlog(name, good)...)
		rejects(t, "channel", name,
			last(p.Create(ctx, name, "ann")), errorOf(p.Read(ctx, name)), errorOf(p.Delete(ctx, name, "")),
			errorOf(p.Deletion(ctx, name, "")), errorOf(p.Post(ctx, name, someDraft)), errorOf(p.Blogs(ctx, name, 1, "")))
	}
	for _, id := range []string{"", "x", "a/b", `a\b`, "a#b", "a?b", "a\x00", "!fence", "name", strings.Repeat("k", 2<<10),
		"20260102T030405.000000000Z", "20260102T030405.000000000Z-", "20260102T030405.000000000Z-0000000", "20260102T030405.000000000Z-0000000G",
		"20260132T030405.000000000Z-00000000", "20260102T030405Z-00000000", good + "-1"} {
		rejects(t, "blog", id, ofBlog("news", id)...)
	}
	for _, top := range []int{-1, 0, 1001, 1 << 40} {
		rejects(t, "top", fmt.Sprint(top), errorOf(p.List(ctx, top, "")), errorOf(p.Blogs(ctx, "news", top, "")))
	}
	for _, owner := range []string{"", strings.Repeat("o", 257), "\xff", "a\x00"} {
		rejects(t, "owner", owner, last(p.Create(ctx, "news", owner)))
	}
	for _, incarnation := range []string{"x", "name", strings.Repeat("0", 33), "0000000000000000-000000000000000G", "../x"} {
		rejects(t, "incarnation", incarnation, errorOf(p.Deletion(ctx, "news", incarnation)))
	}
	for _, tt := range []struct {
		field string
		draft channels.Draft
	}{
		{"title", channels.Draft{UserID: "u"}},
		{"userId", channels.Draft{Title: "t"}},
		{"text", channels.Draft{Title: "t", UserID: "u", Text: strings.Repeat("x", 256<<10+1)}},
		{"title", channels.Draft{Title: strings.Repeat("t", 1025), UserID: "u"}},
		{"title", channels.Draft{Title: "\xff", UserID: "u"}},
		{"title", channels.Draft{Title: "t\x00", UserID: "u"}},
	} {
		rejects(t, tt.field, "draft", errorOf(p.Post(ctx, "news", tt.draft)), errorOf(p.Update(ctx, "news", good, "*", tt.draft)))
	}
	if n := w.requests.Load(); n != 0 {
		t.Errorf("%d requests were made, want 0", n)
	}
}

// A continuation is valid only for the list that returned it. FuzzContinuation
// changes its text.
func TestContinuations(t *testing.T) {
	w, _ := filled(t, 5)
	w.fill(t, "other", 5)
	p := w.start(nil, nil)
	first, err := p.Blogs(t.Context(), "news", 2, "")
	if err != nil || len(first.Items) != 2 || first.Continuation == "" {
		t.Fatalf("list: %+v, %v", first, err)
	}
	good := first.Continuation
	if next, err := p.Blogs(t.Context(), "news", 1000, good); err != nil || len(next.Items) != 3 || next.Continuation != "" {
		t.Errorf("list: %+v, %v, want the other three", next, err)
	}
	names, err := p.List(t.Context(), 1, "")
	must(t, err)
	for _, bad := range []string{"invalid", "!!!", names.Continuation, good + "AAAA", strings.Repeat("A", 10_000), "Ag" + good[2:], good[:8], good + "==", good + " "} {
		rejects(t, "continuation", bad, errorOf(p.Blogs(t.Context(), "news", 2, bad)))
	}
	rejects(t, "continuation", "a list of channels", errorOf(p.List(t.Context(), 1, good)))
	rejects(t, "continuation", "another channel", errorOf(p.Blogs(t.Context(), "other", 2, good)))
	must(t, errorOf(p.Delete(t.Context(), "news", "")))
	w.fill(t, "news", 5)
	rejects(t, "continuation", "another channel of the same name", errorOf(p.Blogs(t.Context(), "news", 2, good)))
}
