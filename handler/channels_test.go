package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"kennel/channels"
	"kennel/internal/storetest"
)

// channelsAnswer is what a caller may read in an answer about channels.
type channelsAnswer struct {
	Channel, Owner, Incarnation, ETag string
	CreatedAt                         time.Time

	Blog, Title, Text, UserID string

	State                 string
	Deleted               int64
	StartedAt, FinishedAt time.Time

	Items        []channelsAnswer
	Continuation string

	Error  struct{ Code, Message string }
	status int
	header http.Header
	body   string
}

// channels calls an address below /api/channels; body "" sends none.
func (p *process) channels(t testing.TB, method, path, body string, header ...string) channelsAnswer {
	t.Helper()
	var a channelsAnswer
	a.status, a.header, a.body = p.request(t, method, "/api/channels"+path, body, &a, header...)
	return a
}

// expect checks status and, for an error, code.
func (a channelsAnswer) expect(t testing.TB, what string, status int, code string) {
	t.Helper()
	if a.status != status || a.Error.Code != code || code != "" && a.Error.Message == "" {
		t.Errorf("%s: %d %.300s, want %d %s", what, a.status, a.body, status, code)
	}
}

func TestChannels(t *testing.T) {
	t.Parallel()
	p := start(t, built.handler, withAzurite(t))
	p.ready(t)
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
	p.channels(t, "PUT", path, `{"owner":"bob"}`).expect(t, "created by somebody else", 409, "channel_owned")
	p.channels(t, "DELETE", path, "", "If-Match", `"0123456789abcdef-0123456789abcdef"`).expect(t, "deleting another incarnation", 412, "channel_changed")
	// Only a bare * stands for any channel; with quotes it is an ETag, which no channel has.
	for _, etag := range []string{`"*"`, `"**"`, `W/"*"`, `"nonsense"`, `W/"datetime'2026-01-02T03%3A04%3A05Z'"`} {
		p.channels(t, "DELETE", path, "", "If-Match", etag).expect(t, "deleting "+etag, 412, "channel_changed")
	}
	p.channels(t, "DELETE", path, "", "If-Match", "").expect(t, "deleting on an empty condition", 400, "bad_if_match")
	p.channels(t, "PUT", path, `{"owner":"ann"}`, "If-None-Match", "*").expect(t, "created by its owner, if there is none", 412, "channel_exists")
	p.channels(t, "PUT", path, `{"owner":"bob"}`, "If-None-Match", "*").expect(t, "created by somebody else, if there is none", 412, "channel_exists")
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
	p := start(t, built.handler, withAzurite(t))
	p.ready(t)
	path := "/" + storetest.Name()
	p.channels(t, "PUT", path, `{"owner":"ann"}`).expect(t, "create", 201, "")

	const draft = `{"title":"<b>&\u2028","text":"line\nüöä","userId":"ann"}`
	posted := p.channels(t, "POST", path+"/blogs", draft)
	posted.expect(t, "post", 201, "")
	if posted.Blog == "" || posted.Title != "<b>&\u2028" || posted.Text != "line\nüöä" || posted.UserID != "ann" || posted.CreatedAt.IsZero() ||
		posted.ETag == "" || posted.header.Get("ETag") != posted.ETag || posted.header.Get("Location") != "/api/channels"+path+"/blogs/"+posted.Blog {
		t.Errorf("posted: %s, %v", posted.body, posted.header)
	}
	blog := path + "/blogs/" + posted.Blog
	if read := p.channels(t, "GET", blog, ""); read.status != 200 || read.body != posted.body || read.header.Get("ETag") != posted.ETag {
		t.Errorf("read: %d %s, want what was posted: %s", read.status, read.body, posted.body)
	}

	p.channels(t, "PUT", blog, draft).expect(t, "update without If-Match", 428, "no_condition")
	p.channels(t, "PUT", blog, draft, "If-Match", `W/"1"`).expect(t, "update of what never was so", 412, "blog_changed")
	updated := p.channels(t, "PUT", blog, `{"title":"second","text":"","userId":"bob"}`, "If-Match", posted.ETag)
	updated.expect(t, "update", 200, "")
	if updated.Title != "second" || updated.Text != "" || updated.UserID != "bob" || !updated.CreatedAt.Equal(posted.CreatedAt) ||
		updated.ETag == posted.ETag || updated.header.Get("ETag") != updated.ETag {
		t.Errorf("updated: %s", updated.body)
	}
	p.channels(t, "PUT", blog, draft, "If-Match", posted.ETag).expect(t, "update of what was so once", 412, "blog_changed")
	p.channels(t, "DELETE", blog, "", "If-Match", posted.ETag).expect(t, "removal of what was so once", 412, "blog_changed")
	for _, etag := range []string{`"*"`, `"**"`, `W/"*"`, `"nonsense"`} { // a bare * alone is any
		p.channels(t, "PUT", blog, draft, "If-Match", etag).expect(t, "update of "+etag, 412, "blog_changed")
		p.channels(t, "DELETE", blog, "", "If-Match", etag).expect(t, "removal of "+etag, 412, "blog_changed")
	}
	if read := p.channels(t, "GET", blog, ""); read.body != updated.body {
		t.Errorf("after refusals: %s, want %s", read.body, updated.body)
	}
	overwritten := p.channels(t, "PUT", blog, draft, "If-Match", "*")
	overwritten.expect(t, "update in any case", 200, "")
	p.channels(t, "DELETE", blog, "", "If-Match", overwritten.ETag).expect(t, "remove", 204, "")
	p.channels(t, "DELETE", blog, "").expect(t, "remove again", 204, "")
	p.channels(t, "GET", blog, "").expect(t, "after the removal", 404, "blog_not_found")
	p.channels(t, "PUT", blog, draft, "If-Match", "*").expect(t, "update after the removal", 404, "blog_not_found")

	// As large as it can be, and in any script.
	long := strings.Repeat("ü", 128<<10)
	if a := p.channels(t, "POST", path+"/blogs", `{"title":"long","text":"`+long+`","userId":"ann"}`); a.status != 201 || a.Text != long {
		t.Errorf("the longest text: %d %.200s", a.status, a.body)
	}
}

// Pages go through a list without leaving anything out, whatever their size,
// and belong to that list.
func TestListsOfChannels(t *testing.T) {
	t.Parallel()
	p := start(t, built.handler, withAzurite(t))
	p.ready(t)
	path := "/" + storetest.Name()
	p.channels(t, "PUT", path, `{"owner":"ann"}`).expect(t, "create", 201, "")
	if a := p.channels(t, "GET", path+"/blogs", ""); a.body != `{"items":[]}`+"\n" {
		t.Errorf("no blogs: %s", a.body)
	}
	var want []string
	for i := range 7 {
		a := p.channels(t, "POST", path+"/blogs", fmt.Sprintf(`{"title":"%d","text":"t","userId":"ann"}`, i))
		a.expect(t, "post", 201, "")
		want = append(want, a.Blog)
	}
	for _, top := range []int{1, 3, 7, 1000} {
		var got []string
		for next := ""; ; {
			page := p.channels(t, "GET", fmt.Sprintf("%s/blogs?top=%d%s", path, top, next), "")
			page.expect(t, "page", 200, "")
			if len(page.Items) > top {
				t.Errorf("%d items on a page of %d", len(page.Items), top)
			}
			for _, item := range page.Items {
				got = append(got, item.Blog)
				if item.ETag == "" || item.UserID != "ann" {
					t.Errorf("item %+v", item)
				}
			}
			if page.Continuation == "" {
				break
			}
			next = "&continuation=" + page.Continuation
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("pages of %d: %v, want %v", top, got, want)
		}
	}

	first := p.channels(t, "GET", path+"/blogs?top=2", "").Continuation
	other := "/" + storetest.Name()
	p.channels(t, "PUT", other, `{"owner":"ann"}`).expect(t, "create another", 201, "")
	forged := "AQ" + strings.Repeat("A", 60)
	for what, address := range map[string]string{
		"truncated":            path + "/blogs?continuation=" + first[:len(first)-3],
		"of another channel":   other + "/blogs?continuation=" + first,
		"of the other list":    "?continuation=" + first,
		"forged":               path + "/blogs?continuation=" + forged,
		"no base64":            path + "/blogs?continuation=%21",
		"longer than they are": path + "/blogs?continuation=" + strings.Repeat("A", 9000),
	} {
		p.channels(t, "GET", address, "").expect(t, "continuation "+what, 400, "bad_continuation")
	}

	// The list of channels holds those that are there, with what reading them says.
	found := 0
	for next := ""; ; {
		page := p.channels(t, "GET", "?top=1000"+next, "")
		page.expect(t, "channels", 200, "")
		for _, item := range page.Items {
			if item.ETag != `"`+item.Incarnation+`"` || item.Owner == "" {
				t.Errorf("item %+v", item)
			}
			if "/"+item.Channel == path || "/"+item.Channel == other {
				found++
			}
		}
		if page.Continuation == "" {
			break
		}
		next = "&continuation=" + page.Continuation
	}
	if found != 2 {
		t.Errorf("the list of channels has %d of the two that were created", found)
	}
}

func TestBadRequestsForChannels(t *testing.T) {
	t.Parallel()
	p := start(t, built.handler, withAzurite(t))
	p.ready(t)
	path := "/" + storetest.Name()
	p.channels(t, "PUT", path, `{"owner":"ann"}`).expect(t, "create", 201, "")
	posted := p.channels(t, "POST", path+"/blogs", `{"title":"t","text":"t","userId":"ann"}`)
	posted.expect(t, "post", 201, "")
	blog := path + "/blogs/" + posted.Blog
	before := p.channels(t, "GET", "?top=1000", "").body

	const owner, draft = `{"owner":"ann"}`, `{"title":"t","text":"t","userId":"ann"}`
	long := strings.Repeat("a", 2<<10)
	for _, tt := range []struct {
		method, path, body string
		header             string // If-Match
		status             int
		code, says         string
	}{
		{"PUT", "/a%2Fb", owner, "", 400, "bad_channel", "no /"},
		{"PUT", "/a%5Cb", owner, "", 400, "bad_channel", `\`},
		{"PUT", "/a%23b", owner, "", 400, "bad_channel", "#"},
		{"PUT", "/a%3Fb", owner, "", 400, "bad_channel", "?"},
		{"PUT", "/a%00b", owner, "", 400, "bad_channel", "control"},
		{"PUT", "/a%7Fb", owner, "", 400, "bad_channel", "control"},
		{"PUT", "/a%C2%85b", owner, "", 400, "bad_channel", "control"},
		{"PUT", "/a%FFb", owner, "", 400, "bad_channel", "UTF-8"},
		{"PUT", "/%20a", owner, "", 400, "bad_channel", "space"},
		{"PUT", "/" + long, owner, "", 400, "bad_channel", "2048"},
		{"GET", "/" + long, "", "", 400, "bad_channel", "2048"},
		{"GET", "/a%2Fb/blogs", "", "", 400, "bad_channel", ""},
		{"GET", "/a%2Fb/deletion", "", "", 400, "bad_channel", ""},
		{"DELETE", "/a%5Cb", "", "", 400, "bad_channel", ""},
		{"POST", "/a%0Ab/blogs", draft, "", 400, "bad_channel", ""},
		{"GET", path + "/blogs/a%2Fb", "", "", 400, "bad_blog", "form"},
		{"GET", path + "/blogs/%00", "", "", 400, "bad_blog", ""},
		{"GET", path + "/blogs/" + long, "", "", 400, "bad_blog", ""},
		{"GET", path + "/blogs/!fence", "", "", 400, "bad_blog", ""},
		{"DELETE", path + "/blogs/!fence", "", "", 400, "bad_blog", ""},
		{"PUT", path + "/blogs/%23", draft, "*", 400, "bad_blog", ""},
		{"GET", path + "/deletion?incarnation=name", "", "", 400, "bad_incarnation", ""},

		{"PUT", path, "", "", 411, "length_required", ""},
		{"PUT", path, "owner", "", 400, "bad_json", ""},
		{"PUT", path, `{"ownr":"ann"}`, "", 400, "bad_json", "ownr"},
		{"PUT", path, `{}`, "", 400, "bad_owner", "missing"},
		{"PUT", path, `{"owner":"` + strings.Repeat("a", 257) + `"}`, "", 400, "bad_owner", "256"},
		{"PUT", path, `{"owner":"a\u0000"}`, "", 400, "bad_owner", ""},
		{"POST", path + "/blogs", `{"text":"t","userId":"ann"}`, "", 400, "bad_title", ""},
		{"POST", path + "/blogs", `{"title":"t","text":null,"userId":"ann"}`, "", 400, "bad_json", "null"},
		{"POST", path + "/blogs", `{"title":"t","text":"t"}`, "", 400, "bad_userId", ""},
		{"POST", path + "/blogs", `{"title":"t","text":"` + strings.Repeat("a", 256<<10+1) + `","userId":"ann"}`, "", 400, "bad_text", "262144"},
		{"POST", path + "/blogs", `{"title":"t","text":"` + strings.Repeat("a", 2<<20) + `","userId":"ann"}`, "", 413, "body_too_large", "1048576"},
		{"POST", path + "/blogs", draft + draft, "", 400, "bad_json", ""},
		{"PUT", blog, draft, "", 428, "no_condition", "If-Match"},
		{"PUT", blog, "nonsense", "", 428, "no_condition", ""},
		{"PUT", blog, `{}`, "*", 400, "bad_title", ""},
		{"PUT", blog, draft, "unquoted", 400, "bad_if_match", "quotes"},
		{"PUT", blog, draft, `"a", "b"`, 400, "bad_if_match", "one"},
		{"PUT", blog, draft, `"a`, 400, "bad_if_match", ""},
		{"DELETE", blog, "", `""`, 400, "bad_if_match", ""},
		{"DELETE", path, "", "nonsense", 400, "bad_if_match", ""},
		{"DELETE", path, "", `""`, 400, "bad_if_match", ""},
		{"DELETE", path, "", `*, *`, 400, "bad_if_match", "one"},
		{"DELETE", "/never-there", "", `"nonsense"`, 412, "channel_changed", ""},
		{"PUT", path, owner, "*", 400, "bad_if_match", "Omit"},

		{"PUT", path, "{\"owner\":\"\xff\"}", "", 400, "bad_json", "UTF-8"},
		{"POST", path + "/blogs", "{\"title\":\"t\",\"text\":\"\xed\xa0\x80\",\"userId\":\"ann\"}", "", 400, "bad_json", "UTF-8"},
		{"POST", path + "/blogs", `{"title":"t","text":"\ud83d","userId":"ann"}`, "", 400, "bad_json", `\ud83d`},
		{"PUT", blog, `{"title":"\udc00","text":"t","userId":"ann"}`, "*", 400, "bad_json", `\udc00`},
		{"PUT", path, `{"owner":"ann","OWNER":"bob"}`, "", 400, "bad_json", "OWNER"},
		{"PUT", path, `{"owner":"ann","owner":"bob"}`, "", 400, "bad_json", "duplicate"},

		{"GET", "?top=0", "", "", 400, "bad_top", "1 to 1000"},
		{"GET", "?top=1001", "", "", 400, "bad_top", "1 to 1000"},
		{"GET", "?top=-1", "", "", 400, "bad_top", ""},
		{"GET", "?top=", "", "", 400, "bad_top", ""},
		{"GET", "?top=many", "", "", 400, "bad_top", ""},
		{"GET", "?top=1,2", "", "", 400, "bad_top", ""},
		{"GET", path + "/blogs?top=0", "", "", 400, "bad_top", ""},
		{"GET", path + "/blogs?TOP=1001", "", "", 400, "bad_top", ""},

		{"POST", "", owner, "", 405, "method_not_allowed", "POST"},
		{"POST", path, owner, "", 405, "method_not_allowed", ""},
		{"PUT", path + "/blogs", draft, "", 405, "method_not_allowed", ""},
		{"DELETE", path + "/deletion", "", "", 405, "method_not_allowed", ""},
		{"OPTIONS", path, "", "", 405, "method_not_allowed", ""},
		{"PATCH", path, owner, "", 405, "method_not_allowed", ""},
		{"GET", path + "/nonsense", "", "", 404, "not_found", ""},
		{"GET", blog + "/more", "", "", 404, "not_found", ""},
	} {
		var header []string
		if tt.header != "" {
			header = []string{"If-Match", tt.header}
		}
		what := fmt.Sprintf("%s %.60s %.60s", tt.method, tt.path, tt.body)
		a := p.channels(t, tt.method, tt.path, tt.body, header...)
		a.expect(t, what, tt.status, tt.code)
		if !strings.Contains(a.Error.Message, tt.says) {
			t.Errorf("%s: %q does not say %q", what, a.Error.Message, tt.says)
		}
		if (tt.status == 405) != (a.header.Get("Allow") != "") || a.header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: headers %v", what, a.header)
		}
	}
	a := p.channels(t, "PUT", path, owner, "Content-Type", "text/plain")
	a.expect(t, "a body of another type", 415, "unsupported_media_type")
	for _, charset := range []string{"latin1", "utf-16"} {
		p.channels(t, "PUT", path, owner, "Content-Type", "application/json;charset="+charset).expect(t, charset, 415, "unsupported_media_type")
	}
	for _, etag := range []string{`"a"`, "", "*, *"} {
		p.channels(t, "PUT", path, owner, "If-None-Match", etag).expect(t, "If-None-Match: "+etag, 400, "bad_if_none_match")
	}
	p.channels(t, "PUT", blog, draft, "If-Match", "*", "If-None-Match", "*").expect(t, "a blog, if there is none", 400, "bad_if_none_match")
	for _, address := range []string{"", path, blog, path + "/blogs"} {
		if status, header, body := p.call(t, "HEAD", "/api/channels"+address, nil); status != 200 || body != "" || header.Get("Content-Type") != "application/json" {
			t.Errorf("HEAD %s: %d %v %q", address, status, header, body)
		}
	}

	// Nothing of that has touched anything.
	if after := p.channels(t, "GET", blog, ""); after.body != posted.body {
		t.Errorf("the blog is now %s", after.body)
	}
	if after := p.channels(t, "GET", path+"/blogs", ""); len(after.Items) != 1 {
		t.Errorf("the blogs are now %s", after.body)
	}
	if strings.Contains(before, "never-there") {
		t.Error("a channel was made by asking for it")
	}
}

// Sixteen writers add a line each, many times, to one blog, through two
// processes. None of their lines is lost or there twice.
func TestNoLostUpdate(t *testing.T) {
	t.Parallel()
	env := withAzurite(t)
	both := []*process{start(t, built.handler, env), start(t, built.handler, env)}
	for _, p := range both {
		p.ready(t)
	}
	path := "/" + storetest.Name()
	both[0].channels(t, "PUT", path, `{"owner":"ann"}`).expect(t, "create", 201, "")
	posted := both[0].channels(t, "POST", path+"/blogs", `{"title":"all","text":"","userId":"ann"}`)
	posted.expect(t, "post", 201, "")
	blog := path + "/blogs/" + posted.Blog

	const writers, lines = 16, 4
	var writing sync.WaitGroup
	var mu sync.Mutex
	conflicts := 0
	for w := range writers {
		writing.Go(func() {
			p := both[w%2]
			for n := 0; n < lines && !t.Failed(); {
				seen := p.channels(t, "GET", blog, "")
				seen.expect(t, "read", 200, "")
				draft, _ := json.Marshal(channels.Draft{Title: "all", Text: seen.Text + fmt.Sprintf("%d-%d\n", w, n), UserID: "ann"})
				switch a := p.channels(t, "PUT", blog, string(draft), "If-Match", seen.ETag); a.status {
				case http.StatusOK:
					n++
				case http.StatusPreconditionFailed:
					mu.Lock()
					conflicts++
					mu.Unlock()
				default:
					t.Errorf("update: %d %s", a.status, a.body)
				}
			}
		})
	}
	writing.Wait()
	text := both[1].channels(t, "GET", blog, "").Text
	lost := 0
	for w := range writers {
		for n := range lines {
			if strings.Count("\n"+text, fmt.Sprintf("\n%d-%d\n", w, n)) != 1 {
				lost++
			}
		}
	}
	if lost > 0 || strings.Count(text, "\n") != writers*lines {
		t.Errorf("%d lines are lost or there twice in\n%s", lost, text)
	}
	if conflicts == 0 {
		t.Error("no update was ever refused: nothing was shown")
	}
	t.Logf("figure: updates lost by 16 writers of one blog (%d updates, %d refused) | %d | 0", writers*lines, conflicts, lost)
}
