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
	"kennel/internal/memory"
)

func TestCreate(t *testing.T) {
	w := newWorld()
	p := w.start(nil, nil)
	if ch, err := p.Read(t.Context(), "news"); !errors.Is(err, channels.ErrNotFound) {
		t.Errorf("read: %+v, %v, want %v", ch, err, channels.ErrNotFound)
	}
	first, created, err := p.Create(t.Context(), "news", "ann")
	if err != nil || !created || first.Name != "news" || first.Owner != "ann" || first.Incarnation == "" || first.CreatedAt.IsZero() {
		t.Fatalf("create: %+v, %v, %v", first, created, err)
	}
	again, created, err := p.Create(t.Context(), "news", "ann")
	if err != nil || created || again != first {
		t.Errorf("create again: %+v, %v, %v, want %+v, which was there", again, created, err, first)
	}
	if ch, created, err := p.Create(t.Context(), "news", "bob"); !errors.Is(err, channels.ErrOwned) || created {
		t.Errorf("create for another: %+v, %v, want %v", ch, err, channels.ErrOwned)
	}
	if ch, err := p.Read(t.Context(), "news"); err != nil || ch != first {
		t.Errorf("read: %+v, %v, want %+v", ch, err, first)
	}
	if rows := w.blogs.Rows(""); rows != 1 {
		t.Errorf("%d rows among the blogs, want one fence", rows)
	}
}

// TestCreateTogether: one creates, those of the same owner find it, the others
// hear so; and nothing stays of their tries.
func TestCreateTogether(t *testing.T) {
	for seed := range uint64(50) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld().clone(&memory.TableOptions{Options: memory.Options{Fate: slow(seed)}})
			type result struct {
				ch      channels.Channel
				created bool
				err     error
				owner   string
			}
			results := make(chan result)
			for i := range 8 {
				go func() {
					p := w.start(nil, nil)
					owner := []string{"ann", "bob"}[i%2]
					ch, created, err := p.Create(p.Context(), "news", owner)
					results <- result{ch, created, err, owner}
				}()
			}
			var creator result
			var all []result
			for range 8 {
				r := <-results
				all = append(all, r)
				if r.created {
					if creator.created {
						t.Errorf("both %+v and %+v created it", creator, r)
					}
					creator = r
				}
			}
			for _, r := range all {
				switch {
				case r.owner == creator.owner && (r.err != nil || r.ch != creator.ch):
					t.Errorf("%s: %+v, %v, want %+v", r.owner, r.ch, r.err, creator.ch)
				case r.owner != creator.owner && !errors.Is(r.err, channels.ErrOwned):
					t.Errorf("%s: %+v, %v, want %v", r.owner, r.ch, r.err, channels.ErrOwned)
				}
			}
			if inChannels, inBlogs := w.channels.Rows(""), w.blogs.Rows(""); inChannels != 2 || inBlogs != 1 {
				t.Errorf("%d rows and %d fences are left, want 2 and 1", inChannels, inBlogs)
			}
			p := w.start(nil, nil)
			if _, err := p.Post(p.Context(), "news", channels.Draft{Title: "t", UserID: "u"}); err != nil {
				t.Error(err)
			}
		})
	}
}

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
		if _, _, err := p.Create(t.Context(), name, "ann"); err != nil {
			t.Fatal(err)
		}
		if _, err := p.Delete(t.Context(), name, ""); err != nil {
			t.Fatal(err)
		}
	}
	for _, top := range []int{1, 2, 9, 1000} {
		var got []channels.Channel
		continuation := ""
		for pages := 0; pages == 0 || continuation != ""; pages++ {
			list, err := p.List(t.Context(), top, continuation)
			if err != nil || len(list.Items) > top || pages > 20 {
				t.Fatalf("list: %+v, %v", list, err)
			}
			got = append(got, list.Items...)
			continuation = list.Continuation
		}
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

func TestBlogs(t *testing.T) {
	w := newWorld()
	p := w.start(nil, nil)
	p.Create(t.Context(), "b's 50%~", "ann")
	other := w.start(nil, nil)
	other.Create(t.Context(), "other", "ann")
	other.Post(t.Context(), "other", channels.Draft{Title: "not mine", UserID: "u"})

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
	for _, blog := range want {
		got, err := p.Blog(t.Context(), "b's 50%~", blog.ID)
		if diff := cmp.Diff(got, blog); err != nil || diff != "" {
			t.Errorf("read %v (-), posted (+):\n%.500s", err, diff)
		}
	}
	for _, top := range []int{1, 2, 1000} {
		var got []channels.Blog
		continuation := ""
		for begun := false; !begun || continuation != ""; begun = true {
			list, err := p.Blogs(t.Context(), "b's 50%~", top, continuation)
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, list.Items...)
			continuation = list.Continuation
		}
		if diff := cmp.Diff(got, want); diff != "" { // in the order of posting
			t.Errorf("listed (-), posted (+):\n%.500s", diff)
		}
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

	if err := p.Remove(t.Context(), "b's 50%~", want[0].ID, ""); err != nil {
		t.Error(err)
	}
	if got, err := p.Blog(t.Context(), "b's 50%~", want[0].ID); !errors.Is(err, channels.ErrNotFound) {
		t.Errorf("removed blog: %+v, %v, want %v", got, err, channels.ErrNotFound)
	}
	if err := p.Remove(t.Context(), "b's 50%~", want[0].ID, ""); err != nil {
		t.Errorf("remove again: %v", err)
	}
}

func TestConditions(t *testing.T) {
	p := newWorld().start(nil, nil)
	p.Create(t.Context(), "news", "ann")
	d := channels.Draft{Title: "t", UserID: "u"}
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
	if err := p.Remove(t.Context(), "news", first.ID, first.ETag); !errors.Is(err, channels.ErrChanged) {
		t.Errorf("remove an old version: %v, want %v", err, channels.ErrChanged)
	}
	if blog, err := p.Blog(t.Context(), "news", first.ID); err != nil || blog != second {
		t.Errorf("blog is %+v, %v, want %+v", blog, err, second)
	}
	if err := p.Remove(t.Context(), "news", first.ID, second.ETag); err != nil {
		t.Error(err)
	}
	for etag, want := range map[string]error{"": nil, "*": channels.ErrChanged, "x": channels.ErrChanged, second.ETag: channels.ErrChanged} {
		if err := p.Remove(t.Context(), "news", first.ID, etag); !errors.Is(err, want) {
			t.Errorf("remove what is not there, if it is %q: %v, want %v", etag, err, want)
		}
	}
}

// TestDeleteIsIdempotent follows a name through two lives.
func TestDeleteIsIdempotent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld().clone(nil)
		first := w.fill(t, "news", 7)
		p := w.start(&channels.Options{AcceptFor: -1}, nil)
		ctx := t.Context()
		if d, err := p.Deletion(ctx, "news", ""); !errors.Is(err, channels.ErrNotFound) {
			t.Errorf("deletion of what is there: %+v, %v, want %v", d, err, channels.ErrNotFound)
		}
		if d, err := p.Delete(ctx, "never", ""); !errors.Is(err, channels.ErrNotFound) {
			t.Errorf("delete what never was: %+v, %v, want %v", d, err, channels.ErrNotFound)
		}
		running, err := p.Delete(ctx, "news", "")
		if err != nil || running.State != channels.Running || running.Incarnation != first {
			t.Errorf("delete: %+v, %v", running, err)
		}
		if again, err := p.Delete(ctx, "news", ""); err != nil || again != running {
			t.Errorf("delete again: %+v, %v, want %+v", again, err, running)
		}
		if _, err := p.Read(ctx, "news"); !errors.Is(err, channels.ErrNotFound) {
			t.Errorf("read: %v, want %v", err, channels.ErrNotFound)
		}
		for name, err := range map[string]error{
			"post":  errorOf(p.Post(ctx, "news", channels.Draft{Title: "t", UserID: "u"})),
			"list":  errorOf(p.Blogs(ctx, "news", 1, "")),
			"read":  errorOf(p.Blog(ctx, "news", "20260102T030405.000000000Z-00000000")),
			"write": errorOf(p.Update(ctx, "news", "20260102T030405.000000000Z-00000000", "*", channels.Draft{Title: "t", UserID: "u"})),
		} {
			if !errors.Is(err, channels.ErrNotFound) {
				t.Errorf("%s: %v, want %v", name, err, channels.ErrNotFound)
			}
		}
		second := w.fill(t, "news", 3) // the name is free at once
		if d, err := p.Delete(ctx, "news", first); err != nil || d != running {
			t.Errorf("delete the first incarnation: %+v, %v, want %+v", d, err, running)
		}
		if d, err := p.Delete(ctx, "news", strings.Replace(second, "-", "-0", 1)[:33]); !errors.Is(err, channels.ErrChanged) {
			t.Errorf("delete an incarnation that never was: %+v, %v, want %v", d, err, channels.ErrChanged)
		}
		w.host(t, func() *process { return w.start(nil, nil) })
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

func errorOf[T any](_ T, err error) error { return err }

// TestListOfLongBlogs: a page is short where blogs are long, and takes two
// requests where they are not; all are listed.
func TestListOfLongBlogs(t *testing.T) {
	for _, test := range []struct {
		name             string
		blogs, text, top int
		pages, requests  int // and the first page's requests
	}{
		{"short", 400, 10, 1000, 1, 2},
		{"as many as usual", 100, 10, 100, 1, 1},
		{"long", 250, 200 << 10, 1000, 3, 1},
		{"longer than usual", 250, 30 << 10, 1000, 2, 2},
	} {
		w := newWorld()
		p := w.start(nil, nil)
		if _, _, err := p.Create(t.Context(), "news", "ann"); err != nil {
			t.Fatal(err)
		}
		for i := range test.blogs {
			if _, err := p.Post(t.Context(), "news", channels.Draft{Title: fmt.Sprint(i), Text: strings.Repeat("a", test.text), UserID: "ann"}); err != nil {
				t.Fatal(err)
			}
		}
		var got []string
		pages, next := 0, ""
		for {
			before := w.requests.Load()
			page, err := p.Blogs(t.Context(), "news", test.top, next)
			if err != nil {
				t.Fatal(err)
			}
			// One request more asks which incarnation it is.
			if asked := int(w.requests.Load() - before - 1); pages == 0 && asked != test.requests {
				t.Errorf("%s: %d requests for the first page, want %d", test.name, asked, test.requests)
			}
			for _, blog := range page.Items {
				got = append(got, blog.Title)
			}
			pages++
			if next = page.Continuation; next == "" {
				break
			}
		}
		if len(got) != test.blogs || pages != test.pages {
			t.Errorf("%s: %d blogs on %d pages, want %d on %d", test.name, len(got), pages, test.blogs, test.pages)
		}
		for i, title := range got {
			if title != fmt.Sprint(i) {
				t.Errorf("%s: blog %s at place %d", test.name, title, i)
				break
			}
		}
	}
}
