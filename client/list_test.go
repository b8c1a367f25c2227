package client_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"kennel/internal/storetest"
)

// TestLists checks that all pages are read, and that an error ends a list.
func TestLists(t *testing.T) {
	page := func(continuation string, names ...string) answer {
		for i, name := range names {
			names[i] = `{ "channel":"` + name + `" }`
		}
		return ok(`{"items":[` + strings.Join(names, ",") + `],"continuation":` + strconv.Quote(continuation) + `}`)
	}
	a, c := playing(t, page("x/1", "a", "b"), page("x/2"), page("", "c"))
	var names []string
	for ch, err := range c.Channels(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, ch.Name+string(ch.JSON()))
	}
	same(t, "channels", []string{`a{"channel":"a"}`, `b{"channel":"b"}`, `c{"channel":"c"}`}, names)
	same(t, "requests", []string{"GET /channels?top=100", "GET /channels?top=100&continuation=x%2F1", "GET /channels?top=100&continuation=x%2F2"}, a.asked)

	same(t, "left out", []string(nil), a.said)

	a, c = playing(t, ok(`{"items":[],"continuation":"x","leftOut":2}`), page(""))
	for b, err := range c.BlogsAfter(t.Context(), "news", "a&b") {
		t.Errorf("a blog of an empty list: %+v, %v", b, err)
	}
	same(t, "left out after a blog", []string{"/channels/news/blogs lacks 2"}, a.said)
	same(t, "requests after a blog", []string{"GET /channels/news/blogs?top=100&after=a%26b", "GET /channels/news/blogs?top=100&continuation=x&after=a%26b"}, a.asked)

	a, c = playing(t, page(""))
	for b, err := range c.NewestBlogs(t.Context(), "news") {
		t.Errorf("a blog of an empty list: %+v, %v", b, err)
	}
	same(t, "left out of the newest", []string(nil), a.said)
	same(t, "requests for the newest", []string{"GET /channels/news/blogs?top=100&order=newest"}, a.asked)

	a, c = playing(t, ok(`{"items":[],"continuation":"x","partial":true}`), page(""))
	for g, err := range c.Gates(t.Context()) {
		t.Errorf("a gate of an empty list: %+v, %v", g, err)
	}
	same(t, "partial", []string{"/gates is partial"}, a.said)

	for _, test := range []struct {
		name string
		next answer
		want string
	}{
		{"refused", appError(400, "bad_continuation", nil), "bad_continuation"},
		{"invalid item", ok(`{"items":["text"]}`), "unexpected response"},
	} {
		_, c = playing(t, page("x", "a"), test.next)
		var errs []error
		for _, err := range c.Channels(t.Context()) {
			errs = append(errs, err)
		}
		if len(errs) != 2 || errs[0] != nil {
			t.Fatalf("%s: errors %v", test.name, errs)
		}
		expectError(t, test.name, errs[1], test.want)
	}
	a, c = playing(t, page("x", "a"))
	for range c.Channels(t.Context()) {
		break
	}
	same(t, "requests after a break", 1, len(a.asked))
}

// TestCountBlogs checks that counting stops at its limits of time and size.
func TestCountBlogs(t *testing.T) {
	page := func(n int, blog, continuation string) answer {
		return ok(`{"items":[` + strings.Join(slices.Repeat([]string{blog}, n), ",") + `],"continuation":"` + continuation + `"}`)
	}
	for _, test := range []struct {
		name    string
		answers []any // each after 1.2 s
		want    int64
		all     bool
		asked   int
	}{
		{"none", []any{page(0, "{}", "")}, 0, true, 1},
		{"short and empty pages", []any{page(3, "{}", "a"), page(0, "{}", "b"), page(4, "{}", "")}, 7, true, 3},
		{"without end", []any{page(1000, "{}", "again")}, 4000, false, 5},
		{"long ones", []any{page(3, `{"text":"`+strings.Repeat("a", 4<<20)+`"}`, "again")}, 3, false, 2},
		{"an app that is busy", []any{page(5, "{}", "again"), appError(503, "storage_unavailable", after("20"))}, 5, false, 2},
	} {
		t.Run(test.name, func(t *testing.T) {
			if test.name == "long ones" {
				storetest.OnlyInProve(t) // 16 MB of JSON
			}
			synctest.Test(t, func(t *testing.T) {
				a, c := playing(t, test.answers...)
				a.takes = 1200 * time.Millisecond
				n, all, err := c.CountBlogs(t.Context(), "news")
				if err != nil || n != test.want || all != test.all || len(a.asked) != test.asked {
					t.Errorf("%d, %v, %v after %d requests, want %d, %v after %d", n, all, err, len(a.asked), test.want, test.all, test.asked)
				}
			})
		})
	}
}
