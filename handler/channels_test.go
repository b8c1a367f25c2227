package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"kennel/channels"
	"kennel/internal/apptest"
	"kennel/internal/storetest"
)

func TestChannels(t *testing.T) {
	t.Parallel()
	p := shared(t)
	name := "Neues & Altes äöü 'quoted' " + storetest.Name()
	path := "/" + strings.NewReplacer(" ", "%20", "&", "%26", "ä", "%C3%A4", "ö", "%C3%B6", "ü", "%C3%BC").Replace(name)

	p.channels(t, "GET", path, "").expect(t, "before it is there", 404, "channel_not_found")
	p.channels(t, "GET", path+"/blogs", "").expect(t, "blogs before it is there", 404, "channel_not_found")
	p.channels(t, "POST", path+"/blogs", `{"title":"t","text":"","userId":"u"}`).expect(t, "a blog before it is there", 404, "channel_not_found")
	p.channels(t, "GET", path+"/deletion", "").expect(t, "deletion before it is there", 404, "deletion_not_found")
	p.channels(t, "DELETE", path, "").expect(t, "deleting what never was", 404, "channel_not_found")

	created := p.channels(t, "PUT", path, `{"owner":"ann"}`)
	created.expect(t, "create", 201, "")
	if created.Channel != name || created.Owner != "ann" || created.Incarnation == "" || created.CreatedAt.IsZero() ||
		created.ETag != `"`+created.Incarnation+`"` || created.header.Get("ETag") != created.ETag || created.header.Get("Cache-Control") != "no-store" {
		t.Errorf("created: %s, %v", created.body, created.header)
	}
	location := strings.TrimPrefix(created.header.Get("Location"), "/api/channels")
	if read := p.channels(t, "GET", location, ""); read.status != 200 || read.body != created.body || read.header.Get("ETag") != created.ETag {
		t.Errorf("read: %d %s, want what was created: %s", read.status, read.body, created.body)
	}
	if again := p.channels(t, "PUT", path, `{"owner":"ann"}`); again.status != 200 || again.body != created.body {
		t.Errorf("created again by its owner: %d %s, want 200 with the same", again.status, again.body)
	}
	p.channels(t, "PUT", path, `{"owner":"bob"}`).expect(t, "created by another owner", 409, "channel_owned")
	p.channels(t, "DELETE", path, "", "If-Match", `"0123456789abcdef-0123456789abcdef"`).expect(t, "deleting another incarnation", 412, "channel_changed")
	// Only a bare * stands for any channel; with quotes it is an ETag, which no channel has.
	for _, etag := range []string{`"*"`, `W/"*"`, `"invalid"`} {
		p.channels(t, "DELETE", path, "", "If-Match", etag).expect(t, "deleting "+etag, 412, "channel_changed")
	}
	p.channels(t, "DELETE", path, "", "If-Match", "").expect(t, "deleting on an empty condition", 400, "bad_if_match")
	p.channels(t, "PUT", path, `{"owner":"ann"}`, "If-None-Match", "*").expect(t, "created by its owner, if there is none", 412, "channel_exists")
	p.channels(t, "PUT", path, `{"owner":"bob"}`, "If-None-Match", "*").expect(t, "created by another owner, if there is none", 412, "channel_exists")
	p.channels(t, "GET", path, "").expect(t, "after refused deletions", 200, "")

	deleted := p.channels(t, "DELETE", path, "", "If-Match", created.ETag)
	deleted.expect(t, "delete", 202, "")
	if deleted.Channel != name || deleted.Incarnation != created.Incarnation || deleted.State != "done" || deleted.Deleted != 0 || deleted.FinishedAt.IsZero() {
		t.Errorf("deletion of an empty channel: %s", deleted.body)
	}
	record := p.channels(t, "GET", strings.TrimPrefix(deleted.header.Get("Location"), "/api/channels"), "")
	record.expect(t, "record", 200, "")
	if record.body != deleted.body {
		t.Errorf("record: %s, want %s", record.body, deleted.body)
	}
	p.channels(t, "GET", path, "").expect(t, "after the deletion", 404, "channel_not_found")
	if again := p.channels(t, "DELETE", path, ""); again.status != 202 || again.body != deleted.body {
		t.Errorf("deleted again: %d %s, want 202 with the same record", again.status, again.body)
	}

	// The name is free at once, and the record of the one before stays.
	successor := p.channels(t, "PUT", path, `{"owner":"bob"}`, "If-None-Match", "*")
	successor.expect(t, "create again", 201, "")
	if successor.Incarnation == created.Incarnation {
		t.Errorf("two channels with incarnation %s", successor.Incarnation)
	}
	if again := p.channels(t, "DELETE", path, "", "If-Match", created.ETag); again.status != 202 || again.body != deleted.body {
		t.Errorf("a late repetition of the deletion: %d %s, want the record of the first channel", again.status, again.body)
	}
	p.channels(t, "GET", path, "").expect(t, "the successor", 200, "")
	if a := p.channels(t, "GET", path+"/deletion", ""); a.Incarnation != created.Incarnation {
		t.Errorf("latest deletion: %s", a.body)
	}
	p.channels(t, "GET", path+"/deletion?incarnation="+successor.Incarnation, "").expect(t, "deletion of the successor", 404, "deletion_not_found")
}

func TestBlogs(t *testing.T) {
	t.Parallel()
	p := shared(t)
	path := "/" + storetest.Name()
	p.channels(t, "PUT", path, `{"owner":"ann"}`).expect(t, "create", 201, "")

	const special = `{"title":"<b>&\u2028","text":"line\nüöä","userId":"ann"}`
	posted := p.channels(t, "POST", path+"/blogs", special)
	posted.expect(t, "post", 201, "")
	if posted.Blog == "" || posted.Title != "<b>&\u2028" || posted.Text != "line\nüöä" || posted.UserID != "ann" || posted.CreatedAt.IsZero() ||
		posted.ETag == "" || posted.header.Get("ETag") != posted.ETag || posted.header.Get("Location") != "/api/channels"+path+"/blogs/"+posted.Blog {
		t.Errorf("posted: %s, %v", posted.body, posted.header)
	}
	channel := p.channels(t, "GET", path, "")
	p.channels(t, "POST", path+"/blogs", apptest.Draft, "If-Match", `"0123456789abcdef-0123456789abcdef"`).expect(t, "post into another channel", 412, "channel_changed")
	into := p.channels(t, "POST", path+"/blogs", apptest.Draft, "If-Match", channel.ETag)
	into.expect(t, "post into the channel that was read", 201, "")
	p.channels(t, "DELETE", path+"/blogs/"+into.Blog, "").expect(t, "remove it", 204, "")
	p.blogsWithKey(t, path)
	blog := path + "/blogs/" + posted.Blog
	if read := p.channels(t, "GET", blog, ""); read.status != 200 || read.body != posted.body || read.header.Get("ETag") != posted.ETag {
		t.Errorf("read: %d %s, want what was posted: %s", read.status, read.body, posted.body)
	}

	p.channels(t, "PUT", blog, apptest.Draft).expect(t, "update without If-Match", 428, "no_condition")
	p.channels(t, "PUT", blog, apptest.Draft, "If-Match", `W/"1"`).expect(t, "update of what never was so", 412, "blog_changed")
	updated := p.channels(t, "PUT", blog, `{"title":"second","text":"","userId":"bob"}`, "If-Match", posted.ETag)
	updated.expect(t, "update", 200, "")
	if updated.Title != "second" || updated.Text != "" || updated.UserID != "bob" || !updated.CreatedAt.Equal(posted.CreatedAt) ||
		updated.ETag == posted.ETag || updated.header.Get("ETag") != updated.ETag {
		t.Errorf("updated: %s", updated.body)
	}
	p.channels(t, "PUT", blog, apptest.Draft, "If-Match", posted.ETag).expect(t, "update of what was so once", 412, "blog_changed")
	p.channels(t, "DELETE", blog, "", "If-Match", posted.ETag).expect(t, "removal of what was so once", 412, "blog_changed")
	for _, etag := range []string{`"*"`, `W/"*"`} { // only a bare * matches any version
		p.channels(t, "PUT", blog, apptest.Draft, "If-Match", etag).expect(t, "update of "+etag, 412, "blog_changed")
		p.channels(t, "DELETE", blog, "", "If-Match", etag).expect(t, "removal of "+etag, 412, "blog_changed")
	}
	if read := p.channels(t, "GET", blog, ""); read.body != updated.body {
		t.Errorf("after refusals: %s, want %s", read.body, updated.body)
	}
	overwritten := p.channels(t, "PUT", blog, apptest.Draft, "If-Match", "*")
	overwritten.expect(t, "update in any case", 200, "")
	p.channels(t, "DELETE", blog, "", "If-Match", overwritten.ETag).expect(t, "remove", 204, "")
	p.channels(t, "DELETE", blog, "").expect(t, "remove again", 204, "")
	p.channels(t, "GET", blog, "").expect(t, "after the removal", 404, "blog_not_found")
	p.channels(t, "PUT", blog, apptest.Draft, "If-Match", "*").expect(t, "update after the removal", 404, "blog_not_found")

	// As large as it can be, and in any script.
	long := strings.Repeat("ü", 128<<10)
	if a := p.channels(t, "POST", path+"/blogs", `{"title":"long","text":"`+long+`","userId":"ann"}`); a.status != 201 || a.Text != long {
		t.Errorf("the longest text: %d %.200s", a.status, a.body)
	}
}

// blogsWithKey checks that a blog with a key is added once. It leaves no blog.
func (p *process) blogsWithKey(t *testing.T, path string) {
	t.Helper()
	const other = `{"title":"other","text":"t","userId":"ann"}`
	post := func(body string, header ...string) answer {
		t.Helper()
		return p.channels(t, "POST", path+"/blogs", body, append(header, "Idempotency-Key", "!key~")...)
	}
	first := post(apptest.Draft)
	first.expect(t, "post with a key", 201, "")
	again := post(` { "userId":"ann", "text":"t", "title":"t" } `)
	if again.status != 201 || again.body != first.body || again.header.Get("ETag") != first.ETag || again.header.Get("Location") != first.header.Get("Location") {
		t.Errorf("again: %d %s %v, want what was posted: %s", again.status, again.body, again.header, first.body)
	}
	post(other).expect(t, "another blog with the key", 409, "key_reused")
	post(apptest.Draft, "If-Match", `"0123456789abcdef-0123456789abcdef"`).expect(t, "into another channel", 412, "channel_changed")
	blog := path + "/blogs/" + first.Blog
	updated := p.channels(t, "PUT", blog, other, "If-Match", first.ETag)
	if again := post(apptest.Draft); again.status != 201 || again.body != updated.body || again.header.Get("ETag") != updated.ETag {
		t.Errorf("again after an update: %d %s, want %s", again.status, again.body, updated.body)
	}
	p.channels(t, "DELETE", blog, "").expect(t, "remove it", 204, "")
	post(apptest.Draft).expect(t, "again after its removal", 410, "blog_deleted")
}

// TestLists checks that pages hold all items of a list in order, and that a
// continuation belongs to its list. Package channels proves the rest.
func TestLists(t *testing.T) {
	t.Parallel()
	p := shared(t)
	path := "/" + storetest.Name()
	p.channels(t, "PUT", path, `{"owner":"ann"}`).expect(t, "create", 201, "")
	if a := p.channels(t, "GET", path+"/blogs", ""); a.body != `{"items":[]}`+"\n" {
		t.Errorf("no blogs: %s", a.body)
	}
	var want []string
	for range 3 {
		want = append(want, p.channels(t, "POST", path+"/blogs", apptest.Draft).Blog)
	}
	list := func(address string, top int) (items []answer) {
		t.Helper()
		for next := ""; ; {
			separator := "?"
			if strings.Contains(address, "?") {
				separator = "&"
			}
			page := p.channels(t, "GET", fmt.Sprintf("%s%stop=%d%s", address, separator, top, next), "")
			page.expect(t, "page", 200, "")
			if items = append(items, page.Items...); len(page.Items) > top {
				t.Errorf("%d items on a page of %d", len(page.Items), top)
			}
			if page.Continuation == "" {
				return items
			}
			next = "&continuation=" + page.Continuation
		}
	}
	ids := func(items []answer) (ids []string) {
		for _, item := range items {
			ids = append(ids, item.Blog)
		}
		return ids
	}
	for _, top := range []int{1, 2, 1000} {
		var got []string
		for _, item := range list(path+"/blogs", top) {
			got = append(got, item.Blog)
			if item.ETag == "" || item.UserID != "ann" {
				t.Errorf("item %+v", item)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("pages of %d: %v, want %v", top, got, want)
		}
	}
	reversed := slices.Clone(want)
	slices.Reverse(reversed)
	for _, tt := range []struct {
		query string
		want  []string
	}{
		{"order=oldest", want}, {"order=newest", reversed},
		{"after=" + want[0], want[1:]}, {"order=newest&after=" + want[0], reversed[:2]},
	} {
		for _, top := range []int{1, 2, 1000} {
			if got := ids(list(path+"/blogs?"+tt.query, top)); !slices.Equal(got, tt.want) {
				t.Errorf("%s by pages of %d: %v, want %v", tt.query, top, got, tt.want)
			}
		}
	}
	found := false
	for _, item := range list("", 1000) {
		found = found || "/"+item.Channel == path && item.Owner == "ann" && item.ETag == `"`+item.Incarnation+`"`
	}
	if !found {
		t.Errorf("the list of channels lacks %s", path)
	}
	first := p.channels(t, "GET", path+"/blogs?top=2", "").Continuation
	p.channels(t, "GET", "?continuation="+first, "").expect(t, "continuation of another list", 400, "bad_continuation")
	p.channels(t, "GET", path+"/blogs?continuation=%21", "").expect(t, "invalid continuation", 400, "bad_continuation")
}

// TestNoLostUpdate: writers add lines to one blog through two processes, 16 in
// make prove. No line is lost or there twice.
func TestNoLostUpdate(t *testing.T) {
	t.Parallel()
	env := withStorage(t)
	both := []*process{start(t, built.handler, env), start(t, built.handler, env)}
	path := "/" + storetest.Name()
	both[0].channels(t, "PUT", path, `{"owner":"ann"}`).expect(t, "create", 201, "")
	posted := both[0].channels(t, "POST", path+"/blogs", `{"title":"all","text":"","userId":"ann"}`)
	posted.expect(t, "post", 201, "")
	blog := path + "/blogs/" + posted.Blog

	writers, lines := storetest.Scale(8, 16), storetest.Scale(2, 4)
	var writing sync.WaitGroup
	var conflicts atomic.Int64
	for w := range writers {
		writing.Go(func() {
			p := both[w%2]
			for n := 0; n < lines && !t.Failed(); {
				seen := p.channels(t, "GET", blog, "")
				draft, _ := json.Marshal(channels.Draft{Title: "all", Text: seen.Text + fmt.Sprintf("%d-%d\n", w, n), UserID: "ann"})
				switch a := p.channels(t, "PUT", blog, string(draft), "If-Match", seen.ETag); a.status {
				case http.StatusOK:
					n++
				case http.StatusPreconditionFailed:
					conflicts.Add(1)
				default:
					t.Errorf("update: %d %s", a.status, a.body)
				}
			}
		})
	}
	writing.Wait()
	text := both[1].channels(t, "GET", blog, "").Text
	lost := 0
	for i := range writers * lines {
		if strings.Count("\n"+text, fmt.Sprintf("\n%d-%d\n", i%writers, i/writers)) != 1 {
			lost++
		}
	}
	if lost > 0 || strings.Count(text, "\n") != writers*lines || conflicts.Load() == 0 {
		t.Errorf("%d lines are lost or there twice, %d updates were rejected; want none lost, and some rejected:\n%s", lost, conflicts.Load(), text)
	}
	t.Logf("figure: updates lost by %d writers of one blog (%d updates, %d refused) | %d | 0", writers, writers*lines, conflicts.Load(), lost)
}
