package client_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"kennel/client"
)

func TestNew(t *testing.T) {
	for _, test := range []struct{ address, key, err string }{
		{"http://127.0.0.1:7071", "", ""},
		{"https://app.example/behind/proxy/", "a key", ""},
		{"127.0.0.1:7071", "", "not a valid URL"},
		{"ftp://app.example", "", "not a valid URL"},
		{"http://:7071", "", "not a valid URL"},
		{"https://user:secret@app.example", "", "only that of the app"},
		{"https://app.example?code=secret", "", "only that of the app"},
		{"https://app.example", "secret\n", "line breaks"},
	} {
		_, err := client.New(test.address, &client.Options{Key: test.key})
		expectError(t, test.address, err, test.err)
		if err != nil && (!errors.Is(err, client.ErrInvalid) || strings.Contains(err.Error(), "secret")) {
			t.Errorf("%s: %v, want it invalid, without the key", test.address, err)
		}
	}
	c, err := client.New("http://127.0.0.1:7071/", nil)
	if err != nil || c.Address() != "http://127.0.0.1:7071" {
		t.Errorf("address %v, %v", c, err)
	}
}

// TestRequests checks what each call sends.
func TestRequests(t *testing.T) {
	const (
		channel  = `{"channel":"a b","owner":"ann","incarnation":"1","etag":"\"1\""}`
		deletion = `{"channel":"a b","incarnation":"1","state":"done","deleted":1}`
		blog     = `{"blog":"b1","title":"<T>","text":"","userId":"ann","etag":"W/\"2\""}`
	)
	draft := client.Draft{Title: "<T>", UserID: "ann"}
	ctx := t.Context()
	for _, test := range []struct {
		answer answer
		call   func(*client.Client) error
		want   string
	}{
		{ok(`{"sequence":"a/b c%","first":1,"last":2,"count":2}`), func(c *client.Client) error {
			n, err := c.Next(ctx, "a/b c%", 2)
			same(t, "numbers", []int64{1, 2}, slices.Collect(n.All()))
			return err
		}, "POST /sequences/a%2Fb%20c%25/next?count=2"},
		{ok(`{"items":[{"gate":"hounds","released":false,"generation":3,"waiters":2},{"gate":"spoiled","generation":null}]}`), func(c *client.Client) (err error) {
			var got []string
			for g, failed := range c.Gates(ctx) {
				got, err = append(got, fmt.Sprintln(g.Name, g.Generation != nil, g.Waiters)), failed
			}
			same(t, "gates", []string{"hounds true 2\n", "spoiled false 0\n"}, got)
			return err
		}, "GET /gates?top=100"},
		{gateIs(200, true, 3), func(c *client.Client) error { _, err := c.Gate(ctx, "hounds"); return err }, "GET /gates/hounds"},
		{ok(`{"items":[{"instance":"a-1","waiters":3}],"partial":true}`), func(c *client.Client) error {
			w, err := c.Waiters(ctx, "hounds")
			same(t, "waiters", []client.InstanceWaiters{{Instance: "a-1", Waiters: 3}}, w.Items)
			if !w.Partial {
				t.Errorf("got %+v, want it partial", w)
			}
			return err
		}, "GET /gates/hounds/waiters"},
		{gateIs(200, true, 3, `,"changed":true,"signalled":false`), func(c *client.Client) error {
			g, err := c.Release(ctx, "hounds", client.Change{By: "ann", Reason: "warm", Force: true})
			if !g.Changed || !g.Released || g.Generation != 3 || g.Signalled == nil || *g.Signalled {
				t.Errorf("got %+v", g)
			}
			return err
		}, `POST /gates/hounds/release {"by":"ann","reason":"warm","force":true}`},
		{gateIs(200, false, 3), func(c *client.Client) error { _, err := c.Close(ctx, "hounds", client.Change{}); return err },
			`POST /gates/hounds/close {"by":"","reason":"","force":false}`},
		{answer{201, "application/json", channel, nil}, func(c *client.Client) error {
			ch, created, err := c.CreateChannel(ctx, "a b", "ann")
			if !created || ch.ETag != `"1"` || string(ch.JSON()) != channel {
				t.Errorf("created %t, %+v", created, ch)
			}
			return err
		}, `PUT /channels/a%20b {"owner":"ann"}`},
		{ok(channel), func(c *client.Client) error { _, err := c.Channel(ctx, "a b"); return err }, "GET /channels/a%20b"},
		{answer{202, "application/json", deletion, nil}, func(c *client.Client) error {
			d, err := c.DeleteChannel(ctx, "a b", `"1"`)
			if d.State != client.Done || d.Deleted != 1 {
				t.Errorf("deletion %+v", d)
			}
			return err
		}, `DELETE /channels/a%20b if "1"`},
		{ok(deletion), func(c *client.Client) error { _, err := c.Deletion(ctx, "a b", "1"); return err }, "GET /channels/a%20b/deletion?incarnation=1"},
		{ok(deletion), func(c *client.Client) error { _, err := c.Deletion(ctx, "a b", ""); return err }, "GET /channels/a%20b/deletion"},
		{answer{201, "application/json", blog, nil}, func(c *client.Client) error { _, err := c.AddBlogOnce(ctx, "a b", "k~", draft); return err },
			`POST /channels/a%20b/blogs key k~ {"title":"<T>","text":"","userId":"ann"}`},
		{ok(blog), func(c *client.Client) error { _, err := c.Blog(ctx, "a b", "b1"); return err }, "GET /channels/a%20b/blogs/b1"},
		{ok(blog), func(c *client.Client) error { _, err := c.UpdateBlog(ctx, "a b", "b1", `W/"2"`, draft); return err },
			`PUT /channels/a%20b/blogs/b1 if W/"2" {"title":"<T>","text":"","userId":"ann"}`},
		{answer{204, "", "", nil}, func(c *client.Client) error { return c.DeleteBlog(ctx, "a b", "b1", `W/"2"`) }, `DELETE /channels/a%20b/blogs/b1 if W/"2"`},
		{ok(`{"status":"degraded","storage":{"account":"a","reachable":true,"tables":{"reachable":false}}}`), func(c *client.Client) error {
			s, err := c.Status(ctx)
			if s.Status != "degraded" || !s.Storage.Reachable || s.Storage.Tables.Reachable {
				t.Errorf("status %+v", s)
			}
			return err
		}, "GET /status"},
		{ok(`{"checks":[{"name":"clock","ok":false,"detail":"wrong","fix":"ntpdate","milliseconds":2}]}`), func(c *client.Client) error {
			d, err := c.Doctor(ctx)
			same(t, "checks", []client.Check{{Name: "clock", Detail: "wrong", Fix: "ntpdate", Milliseconds: 2}}, d.Checks)
			return err
		}, "GET /doctor"},
		{ok(`{"status":"ok"}`), func(c *client.Client) error { return c.Health(ctx) }, "GET /health"},
	} {
		a, c := playing(t, test.answer)
		if err := test.call(c); err != nil {
			t.Errorf("%s: %v", test.want, err)
		}
		same(t, "request", []string{test.want}, a.asked)
	}
}

// TestInvalid checks that no request is sent for an invalid argument.
func TestInvalid(t *testing.T) {
	a, c := playing(t, ok("{}"))
	_, noCount := c.Next(t.Context(), "orders", 0)
	_, noName := c.Gate(t.Context(), "")
	_, parent := c.Channel(t.Context(), "..")
	_, text := c.Release(t.Context(), "hounds", client.Change{By: "\xff"})
	_, noETag := c.UpdateBlog(t.Context(), "news", "b1", "", client.Draft{})
	_, generation := c.Wait(t.Context(), "hounds", -2, 0)
	_, noKey := c.AddBlogOnce(t.Context(), "news", "", client.Draft{})
	_, longKey := c.AddBlogOnce(t.Context(), "news", strings.Repeat("k", 129), client.Draft{})
	_, badKey := c.AddBlogOnce(t.Context(), "news", "two words", client.Draft{})
	errs := []error{noKey, longKey, badKey, noCount, noName, parent, text, noETag, generation}
	for _, err := range c.Blogs(t.Context(), "") {
		errs = append(errs, err)
	}
	for i, err := range errs {
		if !errors.Is(err, client.ErrInvalid) {
			t.Errorf("error %d is %v, want it invalid", i, err)
		}
	}
	same(t, "requests", []string(nil), a.asked)
}

// TestKeys checks that each new blog has a key of its own, and that its repeats
// have the same.
func TestKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, c := playing(t, io.EOF, appError(503, "change_unclear", after("5")), ok(`{"blog":"b1"}`))
		for range 2 {
			if _, err := c.AddBlog(t.Context(), "news", client.Draft{}); err != nil {
				t.Fatal(err)
			}
		}
		first, rest, found := strings.Cut(a.asked[0], " key ")
		if key, _, _ := strings.Cut(rest, " "); !found || len(key) < 26 || first != "POST /channels/news/blogs" {
			t.Errorf("asked %q, want it with a long random key", a.asked[0])
		}
		if len(a.asked) != 4 || a.asked[1] != a.asked[0] || a.asked[2] != a.asked[0] || a.asked[3] == a.asked[0] {
			t.Errorf("asked %q, want three times the same, and then with another key", a.asked)
		}
	})
}

// TestOnTheWire checks what a server receives and what its answers mean.
func TestOnTheWire(t *testing.T) {
	const key = "secret"
	for _, test := range []struct {
		name   string
		answer answer
		err    string
	}{
		{"numbers", ok("{\"sequence\": \"orders\",\n \"first\": 41,\"last\":43 ,\"count\":3}"), ""},
		{"fewer numbers than requested", ok(`{"sequence":"orders","first":41,"last":42,"count":2}`), "does not contain 3 numbers"},
		{"numbers of another sequence", ok(`{"sequence":"invoices","first":41,"last":43,"count":3}`), "does not contain 3 numbers"},
		{"half an answer", answer{200, "application/json", `{"sequence":"orders",`, map[string]string{"Content-Length": "100"}}, "unexpected EOF; numbers may have been drawn"},
		{"no JSON", ok("hello"), "invalid character"},
		{"a long answer", ok(strings.Repeat(" ", 1<<20) + "1"), "longer than 1048576 bytes"},
		{"a sign-in page", answer{200, "text/html", "<h1>hello</h1>", nil}, `content type "text/html" instead of JSON`},
		{"error of the app", appError(400, "bad_count", nil), "the app returned 400 bad_count: broken"},
		{"wrong key", answer{401, "", "", nil}, "requires a valid function key (401)"},
		{"no app", answer{404, "text/html", "<h1>no</h1>", nil}, "does not serve this request (404)"},
		{"redirect", answer{307, "", "", map[string]string{"Location": "https://example.com/"}}, "redirects (307) to https://example.com/"},
		{"killed", answer{500, "", "", nil}, "500 Internal Server Error; numbers may have been drawn and lost"},
	} {
		t.Run(test.name, func(t *testing.T) {
			asked := 0
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				asked++
				same(t, "request", []string{"POST", "/prefix/api/sequences/orders/next?count=3", "application/json", "kennel-client", key, "0", "[]"},
					[]string{r.Method, r.RequestURI, r.Header.Get("Accept"), r.UserAgent(), r.Header.Get("X-Functions-Key"), r.Header.Get("Content-Length"), fmt.Sprint(r.TransferEncoding)})
				test.answer.write(w)
			}))
			defer server.Close()
			c, err := client.New(server.URL+"/prefix/", &client.Options{Key: key})
			if err != nil {
				t.Fatal(err)
			}
			n, err := c.Next(t.Context(), "orders", 3)
			expectError(t, test.name, err, test.err)
			if err == nil && string(n.JSON()) != `{"sequence":"orders","first":41,"last":43,"count":3}` {
				t.Errorf("JSON %s", n.JSON())
			}
			if asked != 1 || err != nil && strings.Contains(err.Error(), key) {
				t.Errorf("%d requests, want 1; error %v, want it without the key", asked, err)
			}
		})
	}
}

// TestContentLength checks that bodies are not sent in chunks, which the
// Functions host drops.
func TestContentLength(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.ContentLength != int64(len(body)) || r.TransferEncoding != nil || r.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%s: length %d, %v, headers %v", r.RequestURI, r.ContentLength, r.TransferEncoding, r.Header)
		}
		gateIs(200, true, 1).write(w)
	}))
	defer server.Close()
	c, err := client.New(server.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Release(t.Context(), "hounds", client.Change{By: "ann"}); err != nil {
		t.Error(err)
	}
}

func TestErrorFields(t *testing.T) {
	_, c := playing(t, appError(503, "change_unclear", map[string]string{"Retry-After": "60", "X-Request-Id": "id-1"}))
	_, err := c.Release(t.Context(), "hounds", client.Change{})
	e, ok := errors.AsType[*client.Error](err)
	if !ok || e.Status != 503 || e.Code != "change_unclear" || e.Message != "broken" || e.RequestID != "id-1" || e.RetryAfter != time.Minute || !errors.Is(err, client.ErrUnclear) {
		t.Errorf("error %#v, want all fields", err)
	}
	expectError(t, "a long Retry-After", err, "its Retry-After is 1m0s, and a call waits at most 30s")
}
