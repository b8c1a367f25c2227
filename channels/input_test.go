package channels_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"kennel/channels"
	"kennel/internal/memory"
	"kennel/internal/table"
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
	for _, name := range []string{"", "a/b", `a\b`, "a#b", "a?b", "a\x00b", "a\nb", "\x7f", "\u0085", "a\u2028b", "a\u2029b", "\xff", " a", "a ", ".", "..", strings.Repeat("n", 201), strings.Repeat("n", 2<<10)} {
		rejects(t, "channel", name, ofBlog(name, good)...)
		rejects(t, "channel", name,
			last(p.Create(ctx, name, "ann")), errorOf(p.Read(ctx, name)), errorOf(p.Delete(ctx, name, "")),
			errorOf(p.Deletion(ctx, name, "")), errorOf(p.Post(ctx, name, someDraft)), errorOf(p.Blogs(ctx, name, 1, "")), errorOf(p.NewestBlogs(ctx, name, "", 1, "")))
	}
	for _, id := range []string{"", "x", "a/b", `a\b`, "a#b", "a?b", "a\x00", "!fence", "name", strings.Repeat("k", 2<<10),
		"20260102T030405.000000000Z", "20260102T030405.000000000Z-", "20260102T030405.000000000Z-0000000", "20260102T030405.000000000Z-0000000G",
		"20260132T030405.000000000Z-00000000", "20260102T030405Z-00000000", good + "-1"} {
		rejects(t, "blog", id, ofBlog("news", id)...)
	}
	for _, top := range []int{-1, 0, 1001, 1 << 40} {
		rejects(t, "top", fmt.Sprint(top), errorOf(p.List(ctx, top, "")), errorOf(p.Blogs(ctx, "news", top, "")), errorOf(p.NewestBlogs(ctx, "news", "", top, "")))
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
	newest, err := p.NewestBlogs(t.Context(), "news", "", 2, "")
	must(t, err)
	rejects(t, "continuation", "the other order", errorOf(p.Blogs(t.Context(), "news", 2, newest.Continuation)), errorOf(p.NewestBlogs(t.Context(), "news", "", 2, good)),
		errorOf(p.NewestBlogs(t.Context(), "other", "", 2, newest.Continuation)))
	rejects(t, "continuation", "a list of channels", errorOf(p.List(t.Context(), 1, good)))
	rejects(t, "continuation", "another channel", errorOf(p.Blogs(t.Context(), "other", 2, good)))
	must(t, errorOf(p.Delete(t.Context(), "news", "")))
	w.fill(t, "news", 5)
	rejects(t, "continuation", "another channel of the same name", errorOf(p.Blogs(t.Context(), "news", 2, good)))
}

// A row of another format is left out of a list, and does not hide the rows
// that follow it.
func TestListsLeaveOutInvalidRows(t *testing.T) {
	w, incarnation := filled(t, 3)
	w.fill(t, "zoo", 1)
	ctx := t.Context()
	for store, row := range map[*memory.Table]table.Row{
		w.channels: {Partition: "aaa", Key: "name", Values: map[string]string{"v": "2"}},
		w.blogs:    {Partition: "news@" + incarnation, Key: "0later", Values: map[string]string{"v": "1"}},
	} {
		_, err := store.Submit(ctx, table.Write{Verb: table.Insert, Row: row})
		must(t, err)
	}
	p := w.start(nil, nil)
	for _, top := range []int{1, 2, 1000} {
		left := 0
		count := func(rows int, problem error) {
			if left += rows; rows > 0 {
				fails(t, "list", problem, channels.ErrCorrupt)
			}
		}
		names := pages(t, func(continuation string) (channels.List[channels.Channel], error) {
			list, err := p.List(ctx, top, continuation)
			count(list.LeftOut, list.Problem)
			return list, err
		})
		blogs := pages(t, func(continuation string) (channels.List[channels.Blog], error) {
			list, err := p.Blogs(ctx, "news", top, continuation)
			count(list.LeftOut, list.Problem)
			return list, err
		})
		if len(names) != 2 || len(blogs) != 3 || left != 2 {
			t.Errorf("pages of %d: %d channels, %d blogs, %d left out; want 2, 3, 2", top, len(names), len(blogs), left)
		}
	}
}

// A list after a blog has those that follow it, on any number of pages, also if
// the blog was removed.
func TestBlogsAfter(t *testing.T) {
	w, _ := filled(t, 5)
	p := w.start(nil, nil)
	ctx := t.Context()
	all, err := p.Blogs(ctx, "news", 10, "")
	must(t, err)
	must(t, p.Remove(ctx, "news", all.Items[1].ID, ""))
	for i, blog := range all.Items {
		want := all.Items[i+1:]
		if i == 0 {
			want = want[1:] // without the removed one
		}
		for _, top := range []int{1, 2, 10} {
			got := pages(t, func(continuation string) (channels.List[channels.Blog], error) {
				return p.BlogsAfter(ctx, "news", blog.ID, top, continuation)
			})
			if !slices.Equal(got, want) {
				t.Errorf("after blog %d by pages of %d: %d blogs, want %d", i, top, len(got), len(want))
			}
		}
	}
	for _, id := range []string{"", "!fence", "invalid", all.Items[0].ID + "0"} {
		rejects(t, "after", id, errorOf(p.BlogsAfter(ctx, "news", id, 10, "")))
		if id != "" {
			rejects(t, "after", id, errorOf(p.NewestBlogs(ctx, "news", id, 10, "")))
		}
	}
}
