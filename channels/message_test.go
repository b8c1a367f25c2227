package channels

import (
	"errors"
	"strings"
	"testing"

	"kennel/internal/table"
)

const someIncarnation = "678f0a1b2c3d4e5f-0123456789abcdef"

func TestMessage(t *testing.T) {
	for _, name := range []string{"news", `"quoted"`, "日本", "x" + strings.Repeat("<", 198) + "x"} {
		for _, parent := range []string{"", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"} {
			want := message{1, name, someIncarnation, parent}
			got, err := parseMessage(record{channel: name, incarnation: someIncarnation}.message(parent))
			if err != nil || got != want {
				t.Errorf("parsed %+v, %v, want %+v", got, err, want)
			}
		}
	}
	// The format must not change: messages in the old format may be in the
	// queue.
	const fixed = `{"v":1,"channel":"news","incarnation":"678f0a1b2c3d4e5f-0123456789abcdef"}`
	if got := (record{channel: "news", incarnation: someIncarnation}).message(""); got != fixed {
		t.Errorf("message is %s, want %s", got, fixed)
	}
}

func TestBadMessages(t *testing.T) {
	for _, tt := range []struct{ name, text, reason string }{
		{"empty", "", "decode"},
		{"not JSON", "delete news", "decode"},
		{"not an object", `["news"]`, "decode"},
		{"null", "null", "no version"},
		{"no version", `{"channel":"news","incarnation":"` + someIncarnation + `"}`, "no version"},
		{"unknown version", `{"v":2,"channel":"news","incarnation":"` + someIncarnation + `"}`, "version 2"},
		{"version as text", `{"v":"1","channel":"news","incarnation":"` + someIncarnation + `"}`, "decode"},
		{"no channel", `{"v":1,"incarnation":"` + someIncarnation + `"}`, "channel"},
		{"no incarnation", `{"v":1,"channel":"news"}`, "incarnation"},
		{"bad channel", `{"v":1,"channel":"a/b","incarnation":"` + someIncarnation + `"}`, "channel"},
		{"bad incarnation", `{"v":1,"channel":"news","incarnation":"name"}`, "incarnation"},
		{"unknown member", `{"v":1,"channel":"news","incarnation":"` + someIncarnation + `","all":true}`, "all"},
		{"text after its end", `{"v":1,"channel":"news","incarnation":"` + someIncarnation + `"}{}`, "after"},
		{"long", strings.Repeat(" ", 5000), "5000 bytes"},
	} {
		m, err := parseMessage(tt.text)
		if !errors.Is(err, ErrMessage) || !strings.Contains(err.Error(), tt.reason) {
			t.Errorf("%s: %+v, %v, want %v because of %q", tt.name, m, err, ErrMessage, tt.reason)
		}
	}
}

func FuzzMessage(f *testing.F) {
	for _, seed := range []string{
		`{"v":1,"channel":"news","incarnation":"678f0a1b2c3d4e5f-0123456789abcdef"}`,
		`{"v":2}`, `{"v":1,"channel":"a/b"}`, `null`, "\xff", `{"v":1,"V":2}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		m, err := parseMessage(text)
		if err != nil {
			if !errors.Is(err, ErrMessage) {
				t.Errorf("parse %q: %v, which is not %v", text, err, ErrMessage)
			}
			return
		}
		again, err := parseMessage(record{channel: m.Channel, incarnation: m.Incarnation}.message(""))
		if err != nil || again != m {
			t.Errorf("parsed %+v, and its message as %+v, %v", m, again, err)
		}
		if CheckName(m.Channel) != nil || checkIncarnation(m.Incarnation) != nil {
			t.Errorf("parsed an invalid name or incarnation: %+v", m)
		}
	})
}

func FuzzContinuation(f *testing.F) {
	f.Add("blogs of news", sealContinuation("blogs of news", "after"))
	f.Add("channels", "AAAA")
	f.Fuzz(func(t *testing.T, scope, continuation string) {
		after, err := openContinuation(scope, continuation)
		if err != nil {
			if _, ok := errors.AsType[*InputError](err); !ok {
				t.Errorf("open %q: %v, want an InputError", continuation, err)
			}
			return
		}
		if sealed := sealContinuation(scope, after); sealed != continuation {
			t.Errorf("opened %q, whose contents seal to %q", continuation, sealed)
		}
		if _, err := openContinuation(scope+"x", continuation); err == nil && continuation != "" {
			t.Errorf("%q is valid for another list too", continuation)
		}
	})
}

func FuzzBlogRow(f *testing.F) {
	f.Add("title", "text", "user")
	f.Add("", strings.Repeat("🐕", 20_000), "")
	f.Fuzz(func(t *testing.T, title, text, user string) {
		d := Draft{Title: title, Text: text, UserID: user}
		if d.check() != nil {
			return
		}
		row := blogRow("p", "20260102T030405.000000000Z-00000000", d, "op")
		if err := table.CheckWrites([]table.Write{{Verb: table.Insert, Row: row}}); err != nil {
			t.Errorf("a valid draft cannot be stored: %v", err)
		}
		got, err := readBlog(row)
		if err != nil || got.Title != title || got.Text != text || got.UserID != user {
			t.Errorf("stored %.100q %.100q %.100q, read %.300v, %v", title, text, user, got, err)
		}
	})
}

func TestStoredRows(t *testing.T) {
	good := record{channel: "news", incarnation: someIncarnation, owner: "ann", state: deleting, counted: 7, through: "x"}
	row := good.row()
	if got, err := readRecord(row); err != nil || got != good {
		t.Errorf("read %+v, %v, want %+v", got, err, good)
	}
	refused := func(column string, change func(values map[string]string)) {
		t.Helper()
		row := good.row()
		change(row.Values)
		if got, err := readRecord(row); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s %q: %+v, %v, want %v", column, row.Values[column], got, err, ErrCorrupt)
		}
	}
	for _, tt := range [][2]string{
		{"v", "2"}, {"v", ""}, {"state", "dead"}, {"counted", "-1"}, {"counted", "x"}, {"createdAt", "yesterday"}, {"channel", "other"},
	} {
		refused(tt[0], func(values map[string]string) { values[tt[0]] = tt[1] })
	}
	for column := range row.Values {
		refused(column, func(values map[string]string) { delete(values, column) })
	}
}
