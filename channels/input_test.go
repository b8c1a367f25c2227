package channels_test

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"testing"

	"kennel/channels"
)

// untouched says that nothing but a refusal came of something.
func (w *world) untouched(t *testing.T, what string, err error, field string) {
	t.Helper()
	refusal, ok := errors.AsType[*channels.InputError](err)
	if !ok || refusal.Field != field || refusal.Reason == "" {
		t.Errorf("%s: %v, want a refusal that names %s", what, err, field)
	}
	if n := w.requests.Load(); n != 0 {
		t.Errorf("%s made %d requests", what, n)
	}
}

func TestBadNames(t *testing.T) {
	w := newWorld()
	p := w.start(nil, nil)
	for _, name := range []string{"", "a/b", `a\b`, "a#b", "a?b", "a\x00b", "a\nb", "\x7f", "\u0085", "\xff", " a", "a ", ".", "..", strings.Repeat("n", 201), strings.Repeat("n", 2<<10)} {
		ctx := t.Context()
		id := "20260102T030405.000000000Z-00000000"
		for call, err := range map[string]error{
			"create": func() error { _, _, err := p.Create(ctx, name, "ann"); return err }(),
			"read":   errorOf(p.Read(ctx, name)),
			"delete": errorOf(p.Delete(ctx, name, "")),
			"record": errorOf(p.Deletion(ctx, name, "")),
			"post":   errorOf(p.Post(ctx, name, channels.Draft{Title: "t", UserID: "u"})),
			"list":   errorOf(p.Blogs(ctx, name, 1, "")),
			"blog":   errorOf(p.Blog(ctx, name, id)),
			"update": errorOf(p.Update(ctx, name, id, "*", channels.Draft{Title: "t", UserID: "u"})),
			"remove": p.Remove(ctx, name, id, ""),
		} {
			w.untouched(t, fmt.Sprintf("%s %.20q", call, name), err, "channel")
		}
	}
}

func TestBadInput(t *testing.T) {
	w := newWorld()
	p := w.start(nil, nil)
	ctx := t.Context()
	for _, id := range []string{"", "x", "a/b", `a\b`, "a#b", "a?b", "a\x00", "!fence", "name", strings.Repeat("k", 2<<10),
		"20260102T030405.000000000Z", "20260102T030405.000000000Z-", "20260102T030405.000000000Z-0000000", "20260102T030405.000000000Z-0000000G",
		"20260132T030405.000000000Z-00000000", "20260102T030405Z-00000000", "20260102T030405.000000000Z-00000000-1"} {
		w.untouched(t, fmt.Sprintf("blog %.30q", id), errorOf(p.Blog(ctx, "news", id)), "blog")
		w.untouched(t, fmt.Sprintf("remove %.30q", id), p.Remove(ctx, "news", id, ""), "blog")
		w.untouched(t, fmt.Sprintf("update %.30q", id), errorOf(p.Update(ctx, "news", id, "*", channels.Draft{Title: "t", UserID: "u"})), "blog")
	}
	for _, top := range []int{-1, 0, 1001, 1 << 40} {
		w.untouched(t, fmt.Sprint("top ", top), errorOf(p.List(ctx, top, "")), "top")
		w.untouched(t, fmt.Sprint("top ", top), errorOf(p.Blogs(ctx, "news", top, "")), "top")
	}
	for _, owner := range []string{"", strings.Repeat("o", 257), "\xff", "a\x00"} {
		_, _, err := p.Create(ctx, "news", owner)
		w.untouched(t, fmt.Sprintf("owner %.20q", owner), err, "owner")
	}
	for field, d := range map[string]channels.Draft{
		"title":  {UserID: "u"},
		"userId": {Title: "t"},
		"text":   {Title: "t", UserID: "u", Text: strings.Repeat("x", 2<<20)},
	} {
		w.untouched(t, "post without good "+field, errorOf(p.Post(ctx, "news", d)), field)
		w.untouched(t, "update without good "+field, errorOf(p.Update(ctx, "news", "20260102T030405.000000000Z-00000000", "*", d)), field)
	}
	for _, d := range []channels.Draft{
		{Title: strings.Repeat("t", 1025), UserID: "u"},
		{Title: "\xff", UserID: "u"},
		{Title: "t\x00", UserID: "u"},
	} {
		w.untouched(t, fmt.Sprintf("title %.20q", d.Title), errorOf(p.Post(ctx, "news", d)), "title")
	}
	for _, incarnation := range []string{"x", "name", strings.Repeat("0", 33), "0000000000000000-000000000000000G", "../x"} {
		w.untouched(t, fmt.Sprintf("incarnation %.40q", incarnation), errorOf(p.Deletion(ctx, "news", incarnation)), "incarnation")
	}
}

func TestContinuations(t *testing.T) {
	w := newWorld()
	w.fill(t, "news", 5)
	w.fill(t, "other", 5)
	p := w.start(nil, nil)
	ctx := t.Context()
	first, err := p.Blogs(ctx, "news", 2, "")
	if err != nil || len(first.Items) != 2 || first.Continuation == "" {
		t.Fatalf("list: %+v, %v", first, err)
	}
	good := first.Continuation
	if next, err := p.Blogs(ctx, "news", 1000, good); err != nil || len(next.Items) != 3 || next.Continuation != "" {
		t.Errorf("list: %+v, %v, want the other three", next, err)
	}
	names, err := p.List(ctx, 1, "")
	if err != nil || names.Continuation == "" {
		t.Fatalf("list: %+v, %v", names, err)
	}
	bad := map[string]string{
		"nonsense":            "nonsense",
		"not base64":          "!!!",
		"of another kind":     names.Continuation,
		"extended":            good + "AAAA",
		"long":                strings.Repeat("A", 10_000),
		"of another version":  "Ag" + good[2:],
		"empty within":        base64.RawURLEncoding.EncodeToString(make([]byte, 17)),
		"the store's own":     base64.RawURLEncoding.EncodeToString([]byte("news\n2026")),
		"padded":              good + "==",
		"with trailing space": good + " ",
	}
	for n := range good {
		bad[fmt.Sprintf("cut to %d", n)] = good[:n]
		c := byte('A')
		if good[n] == c {
			c = 'B'
		}
		bad[fmt.Sprintf("with another character %d", n)] = good[:n] + string(c) + good[n+1:]
	}
	delete(bad, "cut to 0")
	w.requests.Store(0)
	for name, continuation := range bad {
		list, err := p.Blogs(ctx, "news", 2, continuation)
		if refusal, ok := errors.AsType[*channels.InputError](err); !ok || refusal.Field != "continuation" {
			t.Errorf("continuation %s: %+v, %v, want a refusal", name, list, err)
		}
	}
	if _, err := p.List(ctx, 1, good); err == nil {
		t.Error("a list of blogs goes on as one of channels")
	}
	if list, err := p.Blogs(ctx, "other", 2, good); err == nil {
		t.Errorf("another channel's list goes on with %+v", list)
	}

	// The same name again is another list.
	if _, err := p.Delete(ctx, "news", ""); err != nil {
		t.Fatal(err)
	}
	w.fill(t, "news", 5)
	if list, err := p.Blogs(ctx, "news", 2, good); err == nil {
		t.Errorf("the list of a deleted channel goes on with %+v", list)
	}
}
