package channels_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"kennel/channels"
	"kennel/table"
)

func TestList(t *testing.T) {
	p := newWorld().start(nil, nil)
	list, err := p.List(t.Context(), 10, "")
	if err != nil || len(list.Items) != 0 || list.Items == nil || list.Continuation != "" {
		t.Errorf("list of nothing: %+v, %v", list, err)
	}
	names := []string{"a", "Ä", "b's", "50%", "a~b", "a b", "日本", "x@y", strings.Repeat("n", 200)}
	var want []channels.Channel
	for _, name := range names {
		ch, _, err := p.Create(t.Context(), name, "ann")
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, ch)
	}
	// Deleted ones are not listed.
	for i := range 5 {
		name := fmt.Sprint("gone", i)
		must(t, last(p.Create(t.Context(), name, "ann")))
		must(t, errorOf(p.Delete(t.Context(), name, "")))
	}
	for _, top := range []int{1, 2, 9, 1000} {
		got := pages(t, func(continuation string) (channels.List[channels.Channel], error) {
			return p.List(t.Context(), top, continuation)
		})
		if len(got) != len(want) {
			t.Errorf("in pages of %d: %d channels, want %d", top, len(got), len(want))
		}
		for _, ch := range want {
			if !slices.Contains(got, ch) {
				t.Errorf("in pages of %d: %+v is missing", top, ch)
			}
		}
	}
}

// pages returns the items of all pages of a list.
func pages[T any](t *testing.T, list func(continuation string) (channels.List[T], error)) (items []T) {
	t.Helper()
	for continuation := ""; ; {
		page, err := list(continuation)
		if err != nil {
			t.Fatal(err)
		}
		items = append(items, page.Items...)
		if continuation = page.Continuation; continuation == "" {
			return items
		}
	}
}

func TestBlogs(t *testing.T) {
	w := newWorld()
	p := w.start(nil, nil)
	p.Create(t.Context(), "b's 50%~", "ann")
	p.Create(t.Context(), "other", "ann")
	p.open(t, "other")

	var want []channels.Blog
	for i, text := range []string{"", "x", "ümlaut 日本 🐕", strings.Repeat("🐕x", 50_000), strings.Repeat("y", 256<<10)} {
		d := channels.Draft{Title: fmt.Sprint("title ", i), Text: text, UserID: "bob"}
		blog, err := p.Post(t.Context(), "b's 50%~", d)
		if err != nil {
			t.Fatal(err)
		}
		if blog.Title != d.Title || blog.Text != d.Text || blog.UserID != "bob" || blog.ETag == "" || blog.ID == "" || blog.CreatedAt.IsZero() {
			t.Errorf("posted %.200v", blog)
		}
		want = append(want, blog)
	}
	got := pages(t, func(continuation string) (channels.List[channels.Blog], error) {
		return p.Blogs(t.Context(), "b's 50%~", 2, continuation)
	})
	if diff := cmp.Diff(got, want); diff != "" { // in the order of posting
		t.Errorf("listed (-), posted (+):\n%.500s", diff)
	}

	// Shorter than before: nothing of the old text stays.
	d := channels.Draft{Title: "new", Text: "short", UserID: "eve"}
	updated, err := p.Update(t.Context(), "b's 50%~", want[4].ID, want[4].ETag, d)
	if err != nil || updated.Text != "short" || updated.ETag == want[4].ETag || !updated.CreatedAt.Equal(want[4].CreatedAt) {
		t.Errorf("updated to %.200v, %v", updated, err)
	}
	if got, err := p.Blog(t.Context(), "b's 50%~", updated.ID); err != nil || got != updated {
		t.Errorf("read %.200v, %v, want %.200v", got, err, updated)
	}

	must(t, p.Remove(t.Context(), "b's 50%~", want[0].ID, ""))
	fails(t, "removed blog", errorOf(p.Blog(t.Context(), "b's 50%~", want[0].ID)), channels.ErrNotFound)
	if err := p.Remove(t.Context(), "b's 50%~", want[0].ID, ""); err != nil {
		t.Errorf("remove again: %v", err)
	}
}

func TestConditions(t *testing.T) {
	p := newWorld().start(nil, nil)
	p.Create(t.Context(), "news", "ann")
	d := someDraft
	first, err := p.Post(t.Context(), "news", d)
	if err != nil {
		t.Fatal(err)
	}
	second, err := p.Update(t.Context(), "news", first.ID, "*", d)
	if err != nil {
		t.Fatal(err)
	}
	missing := strings.Replace(first.ID, "20", "19", 1)
	for _, test := range []struct {
		name, id, etag string
		want           error
	}{
		{"no condition", first.ID, "", channels.ErrNoCondition},
		{"old version", first.ID, first.ETag, channels.ErrChanged},
		{"nonsense", first.ID, "nonsense", channels.ErrChanged},
		{"missing", missing, second.ETag, channels.ErrNotFound},
		{"missing, whatever", missing, "*", channels.ErrNotFound},
	} {
		if blog, err := p.Update(t.Context(), "news", test.id, test.etag, d); !errors.Is(err, test.want) {
			t.Errorf("update with %s: %+v, %v, want %v", test.name, blog, err, test.want)
		}
	}
	fails(t, "remove an old version", p.Remove(t.Context(), "news", first.ID, first.ETag), channels.ErrChanged)
	if blog, err := p.Blog(t.Context(), "news", first.ID); err != nil || blog != second {
		t.Errorf("blog is %+v, %v, want %+v", blog, err, second)
	}
	must(t, p.Remove(t.Context(), "news", first.ID, second.ETag))
	for etag, want := range map[string]error{"": nil, "*": channels.ErrChanged, "x": channels.ErrChanged, second.ETag: channels.ErrChanged} {
		if err := p.Remove(t.Context(), "news", first.ID, etag); !errors.Is(err, want) {
			t.Errorf("remove what is not there, if it is %q: %v, want %v", etag, err, want)
		}
	}
}

// TestDeleteIsIdempotent follows a name through two lives.
func TestDeleteIsIdempotent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		first := w.fill(t, "news", 7)
		p := w.start(&channels.Options{AcceptFor: -1}, nil)
		ctx := t.Context()
		for _, incarnation := range []string{"", first} {
			fails(t, "deletion of a live channel", errorOf(p.Deletion(ctx, "news", incarnation)), channels.ErrNotFound)
		}
		fails(t, "delete what never was", errorOf(p.Delete(ctx, "never", "")), channels.ErrNotFound)
		running, err := p.Delete(ctx, "news", "")
		if err != nil || running.State != channels.Running || running.Incarnation != first {
			t.Errorf("delete: %+v, %v", running, err)
		}
		if again, err := p.Delete(ctx, "news", ""); err != nil || again != running {
			t.Errorf("delete again: %+v, %v, want %+v", again, err, running)
		}
		fails(t, "read", errorOf(p.Read(ctx, "news")), channels.ErrNotFound)
		for name, err := range map[string]error{
			"post":  errorOf(p.Post(ctx, "news", someDraft)),
			"list":  errorOf(p.Blogs(ctx, "news", 1, "")),
			"read":  errorOf(p.Blog(ctx, "news", "20260102T030405.000000000Z-00000000")),
			"write": errorOf(p.Update(ctx, "news", "20260102T030405.000000000Z-00000000", "*", someDraft)),
		} {
			if !errors.Is(err, channels.ErrNotFound) {
				t.Errorf("%s: %v, want %v", name, err, channels.ErrNotFound)
			}
		}
		second := w.fill(t, "news", 3) // the name is free at once
		if d, err := p.Delete(ctx, "news", first); err != nil || d != running {
			t.Errorf("delete the first incarnation: %+v, %v, want %+v", d, err, running)
		}
		fails(t, "delete an incarnation that never was", errorOf(p.Delete(ctx, "news", strings.Replace(second, "-", "-0", 1)[:33])), channels.ErrChanged)
		w.plain(t)
		w.gone(t, "news", first, 7)
		if rows := w.blogs.Rows("news@" + second); rows != 4 {
			t.Errorf("the second channel has %d rows, want a fence and 3 blogs", rows)
		}

		q := w.start(nil, nil)
		done, err := q.Delete(ctx, "news", second)
		if err != nil || done.State != channels.Done || done.Deleted != 3 {
			t.Errorf("delete: %+v, %v", done, err)
		}
		if again, err := q.Delete(ctx, "news", ""); err != nil || again != done {
			t.Errorf("delete again: %+v, %v, want %+v", again, err, done)
		}
		if latest, err := q.Deletion(ctx, "news", ""); err != nil || latest != done {
			t.Errorf("latest deletion: %+v, %v, want %+v", latest, err, done)
		}
		if d, err := q.Deletion(ctx, "news", first); err != nil || d.Deleted != 7 {
			t.Errorf("first deletion: %+v, %v, want 7 deleted", d, err)
		}
		if rows := w.channels.Rows(""); rows != 2 {
			t.Errorf("%d rows among the channels, want two records", rows)
		}
	})
}

// TestListOfLongBlogs: a page is short where blogs are long, and takes two
// requests where they are not; all are listed, in order.
func TestListOfLongBlogs(t *testing.T) {
	for _, tt := range []struct {
		name             string
		blogs, text, top int
		pages, requests  int // and the first page's requests
	}{
		{"short", 400, 10, 1000, 1, 2},
		{"as many as usual", 100, 10, 100, 1, 1},
		{"long", 130, 200 << 10, 1000, 2, 1},
		{"longer than usual", 170, 30 << 10, 1000, 2, 2},
	} {
		w, _ := filled(t, 0)
		p := w.start(nil, nil)
		for i := range tt.blogs {
			must(t, errorOf(p.Post(t.Context(), "news", channels.Draft{Title: fmt.Sprint(i), Text: strings.Repeat("a", tt.text), UserID: "ann"})))
		}
		var requests []int64
		got := pages(t, func(continuation string) (channels.List[channels.Blog], error) {
			w.requests.Store(-1) // one reads the channel's incarnation
			defer func() { requests = append(requests, w.requests.Load()) }()
			return p.Blogs(t.Context(), "news", tt.top, continuation)
		})
		if len(got) != tt.blogs || len(requests) != tt.pages || requests[0] != int64(tt.requests) {
			t.Errorf("%s: %d blogs by %d requests, want %d on %d pages, the first by %d", tt.name, len(got), requests, tt.blogs, tt.pages, tt.requests)
		}
		for i, blog := range got {
			if blog.Title != fmt.Sprint(i) {
				t.Fatalf("%s: blog %s at place %d", tt.name, blog.Title, i)
			}
		}
	}
}

// TestMessagesAboutNothing: a message that names no channel belongs in the
// dead-letter queue, one that names an older channel does nothing, and the
// channel that has the name now is not touched.
func TestMessagesAboutNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		first := w.fill(t, "news", 3)
		p := w.start(nil, nil)
		done, err := p.Delete(t.Context(), "news", "")
		if err != nil {
			t.Fatal(err)
		}
		second := w.fill(t, "news", 5)
		w.dieAt("fence put", func(p *process) { p.Create(p.Context(), "unfinished", "ann") })
		page, err := w.channels.Query(t.Context(), table.Query{Partition: "unfinished", Top: 1})
		if err != nil {
			t.Fatal(err)
		}
		before := w.effects(t)
		for _, target := range [][2]string{
			{"olds", second},
			{"news", strings.Repeat("0", 16) + "-" + strings.Repeat("0", 16)},
			{"news@" + second, first},
			{"unfinished", page.Rows[0].Key},
		} {
			text := fmt.Sprintf(`{"v":1,"channel":%q,"incarnation":%q}`, target[0], target[1])
			if d, err := p.Handle(t.Context(), text); !errors.Is(err, channels.ErrMessage) || d != (channels.Deletion{}) {
				t.Errorf("%s: %+v, %v, want %v", text, d, err, channels.ErrMessage)
			}
		}
		if d, err := p.Handle(t.Context(), `{"v":1,"channel":"news","incarnation":"`+first+`"}`); err != nil || d != done {
			t.Errorf("older channel: %+v, %v, want the record %+v", d, err, done)
		}
		if now := w.effects(t); now != before {
			t.Errorf("the store went from %s to %s", before, now)
		}
	})
}
