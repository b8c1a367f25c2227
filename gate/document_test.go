package gate

import (
	"errors"
	"strings"
	"testing"
	"time"

	"kennel/internal/cas"
)

// stored is a document as an operator finds it in the portal.
const stored = `{
  "version": 2,
  "released": true,
  "generation": 1795258800000,
  "releases": 2,
  "history": [
    {
      "change": "release",
      "generation": 1795255200000,
      "at": "2026-11-21T10:00:00Z",
      "by": "ann",
      "reason": "",
      "operation": "A1"
    },
    {
      "change": "close",
      "generation": 1795255200000,
      "at": "2026-11-21T10:05:00Z",
      "by": "bob",
      "reason": "line 1\nline 2 <&> \"ü\" 日本",
      "operation": "B1"
    },
    {
      "change": "release",
      "generation": 1795258800000,
      "at": "2026-11-21T11:00:00Z",
      "by": "ann",
      "reason": "",
      "operation": "A2"
    }
  ]
}
`

func TestStoredDocument(t *testing.T) {
	for name, text := range map[string]string{
		"as stored":       stored,
		"byte order mark": "\ufeff" + stored,
		"no white space":  strings.NewReplacer("\n", "", "  ", "").Replace(stored),
		"tabs and CRLF":   strings.NewReplacer("\n", "\r\n", "  ", "\t").Replace(stored) + "\r\n\t ",
	} {
		s, err := parse("start", text)
		if err != nil || !s.Released || s.Generation != 1795258800000 || s.Releases != 2 || s.By != "ann" || len(s.History) != 3 ||
			s.History[1].Reason != "line 1\nline 2 <&> \"ü\" 日本" || !s.ChangedAt.Equal(time.UnixMilli(s.Generation)) {
			t.Errorf("%s: read %+v, %v", name, s, err)
		}
		// What is read is written again, byte for byte: other versions of this
		// program rely on the format.
		before := s
		before.History, before.Releases = s.History[:2], 1
		if again := next(before, s.History[2]).encode(); again != stored {
			t.Errorf("%s: written again it is\n%s\nwant\n%s", name, again, stored)
		}
	}
}

func TestCorruptDocument(t *testing.T) {
	replace := func(pairs ...string) string {
		text := strings.NewReplacer(pairs...).Replace(stored)
		if text == stored {
			t.Fatalf("nothing to replace: %q", pairs)
		}
		return text
	}
	for name, text := range map[string]string{
		"empty":                     "",
		"not JSON":                  "released",
		"null":                      "null",
		"empty object":              "{}",
		"cut":                       stored[:len(stored)-20],
		"more behind it":            stored + "{}",
		"not UTF-8":                 replace("bob", "b\xffb"),
		"newer format":              replace(`"version": 2`, `"version": 3`),
		"no format":                 replace(`  "version": 2,`, ""),
		"closed without history":    replace(`"released": true`, `"released": false`),
		"released as text":          replace(`"released": true`, `"released": "true"`),
		"released twice":            replace(`"released": true`, `"released": false, "released": true`),
		"released in capitals":      replace(`"released": true`, `"Released": true`),
		"unknown member":            replace(`"released": true`, `"released": true, "until": 5`),
		"member in another order":   replace("\"version\": 2,\n  \"released\": true,", "\"released\": true,\n  \"version\": 2,"),
		"generation beyond history": replace(`  "generation": 1795258800000,`+"\n  \"rel", `  "generation": 1795258800001,`+"\n  \"rel"),
		"generation too large":      replace("1795258800000", "9007199254740992"),
		"generation negative":       replace("1795255200000", "-1"),
		"generation goes down":      replace("1795258800000", "1795255199999"),
		"generation stays":          replace("1795258800000", "1795255200000"),
		"close changes generation":  replace("\"close\",\n      \"generation\": 1795255200000", "\"close\",\n      \"generation\": 1795255200001"),
		"too few releases":          replace(`"releases": 2`, `"releases": 1`),
		"no history":                stored[:strings.Index(stored, "[")] + "[]}",
		"two releases in a row":     replace(`"change": "close"`, `"change": "release"`),
		"unknown change":            replace(`"change": "close"`, `"change": "shut"`),
		"no name":                   replace(`"by": "bob"`, `"by": ""`),
		"no operation":              replace(`"operation": "B1"`, `"operation": ""`),
		"force in the middle":       replace(`"operation": "B1"`, `"operation": "B1", "replaced": "x"`),
		"no time":                   replace(`"2026-11-21T10:05:00Z"`, `""`),
	} {
		s, err := parse("start", text)
		if !errors.Is(err, ErrCorrupt) || s.Released || s.Generation != 0 {
			t.Errorf("%s: %+v, %v, want %v", name, s, err, ErrCorrupt)
		}
		if err != nil && (len(err.Error()) > 500 || strings.Contains(err.Error(), "\n")) {
			t.Errorf("%s: the message does not fit into a log: %v", name, err)
		}
	}
}

// The history keeps the last fifty, and the longest of them fit into the store.
func TestLongestDocument(t *testing.T) {
	s := chain(State{Gate: "start"}, 120)
	if len(s.History) != maxHistory || s.Releases != 60 || s.History[maxHistory-1].Generation != s.Generation {
		t.Errorf("%d entries, %d releases, want the last %d of 60", len(s.History), s.Releases, maxHistory)
	}
	for i := range s.History {
		c := &s.History[i]
		// U+2028 takes six bytes in JSON, and no character takes more.
		c.By, c.Reason = strings.Repeat("\u2028", MaxBy), strings.Repeat("\u2028", MaxReason)
		c.Operation, c.Replaced = strings.Repeat("A", 26), strings.Repeat("\u2028", 3*maxQuoted)
	}
	if text := next(s, s.History[0]).encode(); len(text) > cas.MaxText {
		t.Errorf("a document of %d bytes is longer than a store accepts", len(text))
	}
}

func FuzzParse(f *testing.F) {
	f.Add(stored)
	f.Add(`{"version":2,"released":false,"generation":0,"releases":0,"history":[{"change":"close","generation":0,"at":"2026-11-21T10:00:00Z","by":"a","reason":"","operation":"A","replaced":"\"x\""}]}`)
	f.Add(`{"version":1}`)
	f.Fuzz(func(t *testing.T, text string) {
		before, err := parse("start", text)
		if err != nil && !errors.Is(err, ErrCorrupt) {
			t.Errorf("error %v is not %v", err, ErrCorrupt)
		}
		for _, to := range []string{released, closed} {
			c := &change{gate: "start", to: to, by: "ann", op: "Z9", force: true}
			did, err := c.loaded(Value{Text: text, Version: "1", ReadAt: time.UnixMilli(1795258800000)}, nil)
			_, new, write, refused := c.request()
			if did == asItWas || refused != nil && errors.Is(refused, ErrCorrupt) {
				continue
			}
			after, corrupt := parse("start", new.Text)
			if err != nil || !write || corrupt != nil || after.Released != (to == released) || after.Generation < before.Generation {
				t.Errorf("%+v is %+v after a %s, %v, %v", before, after, to, err, corrupt)
			}
		}
	})
}
