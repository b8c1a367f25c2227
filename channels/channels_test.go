package channels_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"kennel/channels"
	"kennel/internal/table"
)

func TestList(t *testing.T) {
	p := newWorld().start(nil, nil)
	list, err := p.List(t.Context(), 10, "")
	if err != nil || list.Items == nil || len(list.Items) != 0 || list.Continuation != "" {
		t.Errorf("list without channels: %+v, %v", list, err)
	}
	var want []channels.Channel
	for _, name := range []string{"50%", "a", "a b", "a~b", "b's", strings.Repeat("n", 200), "x@y", "Ä", "日本"} {
		ch, _, err := p.Create(t.Context(), name, "ann")
		must(t, err)
		want = append(want, ch)
		must(t, last(p.Create(t.Context(), "gone", "ann")))
		must(t, errorOf(p.Delete(t.Context(), "gone", "")))
	}
	for _, top := range []int{1, 2, 1000} {
		got := pages(t, func(continuation string) (channels.List[channels.Channel], error) {
			return p.List(t.Context(), top, continuation)
		})
		if diff := cmp.Diff(got, want); diff != "" {
			t.Errorf("listed in pages of %d (-), created (+):\n%.500s", top, diff)
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
	const name = "b's 50%~"
	p := newWorld().start(nil, nil)
	for _, name := range []string{name, "other"} {
		must(t, last(p.Create(t.Context(), name, "ann")))
	}
	p.open(t, "other")
	var want []channels.Blog
	for i, text := range []string{"", "ümlaut 日本 🐕", strings.Repeat("🐕x", 50_000), strings.Repeat("y", 256<<10)} {
		d := channels.Draft{Title: fmt.Sprint("title ", i), Text: text, UserID: "bob"}
		blog, err := p.Post(t.Context(), name, d)
		if err != nil || blog.Title != d.Title || blog.Text != text || blog.UserID != "bob" || blog.ETag == "" || blog.ID == "" || blog.CreatedAt.IsZero() {
			t.Errorf("posted %.200v, %v", blog, err)
		}
		want = append(want, blog)
	}
	got := pages(t, func(continuation string) (channels.List[channels.Blog], error) {
		return p.Blogs(t.Context(), name, 2, continuation)
	})
	if diff := cmp.Diff(got, want); diff != "" { // in the order of posting
		t.Errorf("listed (-), posted (+):\n%.500s", diff)
	}
	// A shorter text leaves no part of the old one.
	updated, err := p.Update(t.Context(), name, want[3].ID, want[3].ETag, channels.Draft{Title: "new", Text: "short", UserID: "eve"})
	if err != nil || updated.Text != "short" || updated.ETag == want[3].ETag || !updated.CreatedAt.Equal(want[3].CreatedAt) {
		t.Errorf("updated to %.200v, %v", updated, err)
	}
	if got, err := p.Blog(t.Context(), name, updated.ID); err != nil || got != updated {
		t.Errorf("read %.200v, %v, want %.200v", got, err, updated)
	}
}

func TestConditions(t *testing.T) {
	w, first := withBlogs(t)
	p := w.start(nil, nil)
	second, err := p.Update(t.Context(), "news", first.ID, "*", someDraft)
	must(t, err)
	missing := strings.Replace(first.ID, "20", "19", 1)
	for _, tt := range []struct {
		name, id, etag string
		update, remove error
	}{
		{"an old version", first.ID, first.ETag, channels.ErrChanged, channels.ErrChanged},
		{"an invalid version", first.ID, "invalid", channels.ErrChanged, channels.ErrChanged},
		{"a missing blog", missing, second.ETag, channels.ErrNotFound, channels.ErrChanged},
		{"a missing blog, if it exists", missing, "*", channels.ErrNotFound, channels.ErrChanged},
		{"a missing blog without a condition", missing, "", channels.ErrNoCondition, nil},
	} {
		fails(t, "update "+tt.name, errorOf(p.Update(t.Context(), "news", tt.id, tt.etag, someDraft)), tt.update)
		fails(t, "remove "+tt.name, p.Remove(t.Context(), "news", tt.id, tt.etag), tt.remove)
	}
	fails(t, "update without a condition", errorOf(p.Update(t.Context(), "news", first.ID, "", someDraft)), channels.ErrNoCondition)
	if blog, err := p.Blog(t.Context(), "news", first.ID); err != nil || blog != second {
		t.Errorf("blog is %+v, %v, want %+v", blog, err, second)
	}
	must(t, p.Remove(t.Context(), "news", first.ID, second.ETag))
	fails(t, "read a removed blog", errorOf(p.Blog(t.Context(), "news", first.ID)), channels.ErrNotFound)
}

// TestTwoIncarnations creates and deletes a channel twice, and repeats each
// call.
func TestTwoIncarnations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		p := w.start(&channels.Options{AcceptFor: -1}, nil)
		ctx := t.Context()
		fails(t, "read a missing channel", errorOf(p.Read(ctx, "news")), channels.ErrNotFound)
		first := w.fill(t, "news", 7)
		ch, created, err := p.Create(ctx, "news", "ann")
		if err != nil || created || ch.Name != "news" || ch.Owner != "ann" || ch.Incarnation != first || ch.CreatedAt.IsZero() {
			t.Errorf("create again: %+v, %v, %v", ch, created, err)
		}
		fails(t, "create for another", last(p.Create(ctx, "news", "bob")), channels.ErrOwned)
		for _, incarnation := range []string{"", first} {
			fails(t, "deletion of a live channel", errorOf(p.Deletion(ctx, "news", incarnation)), channels.ErrNotFound)
		}
		fails(t, "delete a missing channel", errorOf(p.Delete(ctx, "never", "")), channels.ErrNotFound)
		running, err := p.Delete(ctx, "news", "")
		if err != nil || running.State != channels.Running || running.Incarnation != first {
			t.Errorf("delete: %+v, %v", running, err)
		}
		deletes := func(p *process, incarnation string, want channels.Deletion) {
			t.Helper()
			if again, err := p.Delete(ctx, "news", incarnation); err != nil || again != want {
				t.Errorf("delete %q again: %+v, %v, want %+v", incarnation, again, err, want)
			}
		}
		deletes(p, "", running)
		const blog = "20260102T030405.000000000Z-00000000"
		fails(t, "read", errorOf(p.Read(ctx, "news")), channels.ErrNotFound)
		fails(t, "post", errorOf(p.Post(ctx, "news", someDraft)), channels.ErrNotFound)
		fails(t, "list", errorOf(p.Blogs(ctx, "news", 1, "")), channels.ErrNotFound)
		fails(t, "read blog", errorOf(p.Blog(ctx, "news", blog)), channels.ErrNotFound)
		fails(t, "update", errorOf(p.Update(ctx, "news", blog, "*", someDraft)), channels.ErrNotFound)

		second := w.fill(t, "news", 3) // the name is free at once
		deletes(p, first, running)
		fails(t, "post into the first", errorOf(p.PostWith(ctx, "news", someDraft, channels.PostOptions{Incarnation: first})), channels.ErrChanged)
		fails(t, "delete an unknown incarnation", errorOf(p.Delete(ctx, "news", strings.Replace(second, "-", "-0", 1)[:33])), channels.ErrChanged)
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
		deletes(q, "", done)
		if latest, err := q.Deletion(ctx, "news", ""); err != nil || latest != done {
			t.Errorf("latest deletion: %+v, %v, want %+v", latest, err, done)
		}
		w.gone(t, "news", first, 7)
		if rows := w.channels.Rows(""); rows != 2 {
			t.Errorf("Channels has %d rows, want two records", rows)
		}
	})
}

// A page of long blogs is short. All blogs are listed in order.
func TestListOfLongBlogs(t *testing.T) {
	for _, tt := range []struct {
		blogs, text, top int
		pages, requests  int // requests of the first page
	}{
		{400, 10, 1000, 1, 1},      // short
		{30, 200 << 10, 100, 5, 3}, // long: the first answer is too large
		{10, 256 << 10, 100, 2, 2}, // the longest
		{60, 30 << 10, 100, 1, 1},  // the answer is not too large
		{150, 30 << 10, 100, 4, 3},
	} {
		w, _ := filled(t, 0)
		p := w.start(nil, nil)
		var want []channels.Blog
		for range tt.blogs {
			blog, err := p.Post(t.Context(), "news", channels.Draft{Title: "t", Text: strings.Repeat("a", tt.text), UserID: "ann"})
			must(t, err)
			want = append(want, blog)
		}
		var requests []int64
		got := pages(t, func(continuation string) (channels.List[channels.Blog], error) {
			w.requests.Store(-1) // one request reads the channel's incarnation
			defer func() { requests = append(requests, w.requests.Load()) }()
			return p.Blogs(t.Context(), "news", tt.top, continuation)
		})
		if !slices.Equal(got, want) || len(requests) != tt.pages || requests[0] != int64(tt.requests) {
			t.Errorf("%+v: %d blogs by %d requests, or not in the order of posting", tt, len(got), requests)
		}
	}
}

// No answer of the store is larger than a list allows, even if long blogs
// follow short ones. The list has them all.
func TestListOfLongBlogsAfterShortOnes(t *testing.T) {
	const short, long = 50, 30
	w, _ := filled(t, 0)
	p := w.start(nil, nil)
	for i := range short + long {
		d := channels.Draft{Title: "t", UserID: "ann"}
		if i >= short {
			d.Text = strings.Repeat("a", 256<<10)
		}
		must(t, errorOf(p.Post(t.Context(), "news", d)))
	}
	largest := 0
	c := w.with(w.channels, hooked{Store: w.blogs, queried: func(page table.Page) {
		size := 0
		for _, row := range page.Rows {
			for _, value := range row.Values {
				size += len(value)
			}
		}
		largest = max(largest, size)
	}}, nil)
	got := pages(t, func(continuation string) (channels.List[channels.Blog], error) {
		return c.Blogs(t.Context(), "news", 1000, continuation)
	})
	if len(got) != short+long || largest > 2<<20 {
		t.Errorf("%d blogs, the largest answer of the store has %d bytes; want %d and at most 2 MiB", len(got), largest, short+long)
	}
}

// A message that names no deletion belongs in the dead-letter queue. A message
// that names an older channel does nothing. Neither changes the channel that
// has the name now.
func TestUselessMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, first := filled(t, 3)
		p := w.start(nil, nil)
		done, err := p.Delete(t.Context(), "news", "")
		must(t, err)
		second := w.fill(t, "news", 5)
		w.dieAt("fence created", func(p *process) { p.Create(p.Context(), "unfinished", "ann") })
		page, err := w.channels.Query(t.Context(), table.Query{Partition: "unfinished", Top: 1})
		must(t, err)
		before := w.effects(t)
		message := func(channel, incarnation string) (channels.Deletion, error) {
			return p.Handle(t.Context(), fmt.Sprintf(`{"v":1,"channel":%q,"incarnation":%q}`, channel, incarnation))
		}
		for channel, incarnation := range map[string]string{"olds": second, "news": strings.Repeat("0", 16) + "-" + strings.Repeat("0", 16), "news@" + second: first, "unfinished": page.Rows[0].Key} {
			fails(t, "message about "+channel, errorOf(message(channel, incarnation)), channels.ErrMessage)
		}
		if d, err := message("news", first); err != nil || d != done {
			t.Errorf("older channel: %+v, %v, want the record %+v", d, err, done)
		}
		if now := w.effects(t); now != before {
			t.Errorf("the store changed from %s to %s", before, now)
		}
	})
}
