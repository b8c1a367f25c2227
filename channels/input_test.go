package channels_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"testing"

	"kennel/channels"
)

// TestBadInput: bad input is refused before any request, with an error that
// names the field.
func TestBadInput(t *testing.T) {
	const good = "20260102T030405.000000000Z-00000000"
	draft := someDraft
	w := newWorld()
	p := w.start(nil, nil)
	// calls are all that take a channel's name and a blog's id.
	type calls map[string]func(ctx context.Context, name, id string) error
	blogCalls := calls{
		"blog":   func(ctx context.Context, name, id string) error { return errorOf(p.Blog(ctx, name, id)) },
		"update": func(ctx context.Context, name, id string) error { return errorOf(p.Update(ctx, name, id, "*", draft)) },
		"remove": func(ctx context.Context, name, id string) error { return p.Remove(ctx, name, id, "") },
	}
	channelCalls := calls{
		"create": func(ctx context.Context, name, _ string) error { return last(p.Create(ctx, name, "ann")) },
		"read":   func(ctx context.Context, name, _ string) error { return errorOf(p.Read(ctx, name)) },
		"delete": func(ctx context.Context, name, _ string) error { return errorOf(p.Delete(ctx, name, "")) },
		"record": func(ctx context.Context, name, _ string) error { return errorOf(p.Deletion(ctx, name, "")) },
		"post":   func(ctx context.Context, name, _ string) error { return errorOf(p.Post(ctx, name, draft)) },
		"list":   func(ctx context.Context, name, _ string) error { return errorOf(p.Blogs(ctx, name, 1, "")) },
	}
	refused := func(what string, err error, field string) {
		t.Helper()
		refusal, ok := errors.AsType[*channels.InputError](err)
		if !ok || refusal.Field != field || refusal.Reason == "" {
			t.Errorf("%s: %v, want a refusal that names %s", what, err, field)
		}
	}
	for _, name := range []string{"", "a/b", `a\b`, "a#b", "a?b", "a\x00b", "a\nb", "\x7f", "\u0085", "\xff", " a", "a ", ".", "..", strings.Repeat("n", 201), strings.Repeat("n", 2<<10)} {
		for _, all := range []calls{channelCalls, blogCalls} {
			for call, do := range all {
				refused(fmt.Sprintf("%s %.20q", call, name), do(t.Context(), name, good), "channel")
			}
		}
	}
	for _, id := range []string{"", "x", "a/b", `a\b`, "a#b", "a?b", "a\x00", "!fence", "name", strings.Repeat("k", 2<<10),
		"20260102T030405.000000000Z", "20260102T030405.000000000Z-", "20260102T030405.000000000Z-0000000", "20260102T030405.000000000Z-0000000G",
		"20260132T030405.000000000Z-00000000", "20260102T030405Z-00000000", good + "-1"} {
		for call, do := range blogCalls {
			refused(fmt.Sprintf("%s %.30q", call, id), do(t.Context(), "news", id), "blog")
		}
	}
	for _, top := range []int{-1, 0, 1001, 1 << 40} {
		refused(fmt.Sprint("top ", top), errorOf(p.List(t.Context(), top, "")), "top")
		refused(fmt.Sprint("top ", top), errorOf(p.Blogs(t.Context(), "news", top, "")), "top")
	}
	for _, owner := range []string{"", strings.Repeat("o", 257), "\xff", "a\x00"} {
		refused(fmt.Sprintf("owner %.20q", owner), last(p.Create(t.Context(), "news", owner)), "owner")
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
		refused("post", errorOf(p.Post(t.Context(), "news", tt.draft)), tt.field)
		refused("update", errorOf(p.Update(t.Context(), "news", good, "*", tt.draft)), tt.field)
	}
	for _, incarnation := range []string{"x", "name", strings.Repeat("0", 33), "0000000000000000-000000000000000G", "../x"} {
		refused(fmt.Sprintf("incarnation %.40q", incarnation), errorOf(p.Deletion(t.Context(), "news", incarnation)), "incarnation")
	}
	if n := w.requests.Load(); n != 0 {
		t.Errorf("%d requests were made", n)
	}
}

// TestContinuations: a continuation works for the list that gave it, and for no
// other.
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
	if err != nil || names.Continuation == "" {
		t.Fatalf("list: %+v, %v", names, err)
	}
	encoded := base64.RawURLEncoding.EncodeToString
	bad := []string{"nonsense", "!!!", names.Continuation, good + "AAAA", strings.Repeat("A", 10_000), "Ag" + good[2:],
		encoded(make([]byte, 17)), encoded([]byte("news\n2026")), good + "==", good + " "}
	for n := range good {
		c := "A"
		if good[n] == 'A' {
			c = "B"
		}
		bad = append(bad, good[:n]+c+good[n+1:])
		if n > 0 {
			bad = append(bad, good[:n])
		}
	}
	refused := func(what string, err error) {
		t.Helper()
		if refusal, ok := errors.AsType[*channels.InputError](err); !ok || refusal.Field != "continuation" {
			t.Errorf("%s: %v, want a refusal", what, err)
		}
	}
	for _, continuation := range bad {
		refused(continuation, errorOf(p.Blogs(t.Context(), "news", 2, continuation)))
	}
	refused("a list of channels", errorOf(p.List(t.Context(), 1, good)))
	refused("another channel", errorOf(p.Blogs(t.Context(), "other", 2, good)))
	must(t, errorOf(p.Delete(t.Context(), "news", "")))
	w.fill(t, "news", 5)
	refused("another channel of the same name", errorOf(p.Blogs(t.Context(), "news", 2, good)))
}
