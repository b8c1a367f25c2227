package gate

import (
	"errors"
	"strings"
	"testing"
	"time"
)

// stored is a document as it is found in the portal.
const stored = `{
  "version": 1,
  "life": "A1",
  "released": true,
  "generation": 2,
  "history": [
    {
      "change": "release",
      "generation": 1,
      "at": "2026-11-21T10:00:00Z",
      "by": "ann",
      "reason": "",
      "operation": "A1"
    },
    {
      "change": "close",
      "generation": 1,
      "at": "2026-11-21T10:05:00.25Z",
      "by": "bob",
      "reason": "line 1\nline 2 <&> \"ü\" 日本",
      "operation": "B1"
    },
    {
      "change": "release",
      "generation": 2,
      "at": "2026-11-21T11:00:00Z",
      "by": "ann",
      "reason": "",
      "operation": "A2"
    }
  ]
}
`

func TestStoredDocument(t *testing.T) {
	s, err := parse("start", stored)
	if err != nil {
		t.Fatal(err)
	}
	if !s.Released || s.Generation != 2 || s.By != "ann" || len(s.History) != 3 || s.History[1].Reason != "line 1\nline 2 <&> \"ü\" 日本" || s.life != "A1" {
		t.Errorf("read %+v", s)
	}
	if want := time.Date(2026, 11, 21, 11, 0, 0, 0, time.UTC); !s.ChangedAt.Equal(want) {
		t.Errorf("changed at %v, want %v", s.ChangedAt, want)
	}
	// What is read is written again, byte for byte: other versions of this
	// program rely on the format.
	before := s
	before.History = s.History[:2]
	if again := next(before, s.History[2]).encode(); again != stored {
		t.Errorf("written again it is\n%s\nwant\n%s", again, stored)
	}
}

func TestTolerated(t *testing.T) {
	for name, text := range map[string]string{
		"byte order mark": "\ufeff" + stored,
		"no white space":  strings.NewReplacer("\n", "", "  ", "").Replace(stored),
		"tabs and CRLF":   strings.NewReplacer("\n", "\r\n", "  ", "\t").Replace(stored) + "\r\n\t ",
	} {
		if s, err := parse("start", text); err != nil || s.Generation != 2 {
			t.Errorf("%s: %+v, %v", name, s, err)
		}
	}
}

func TestNonsense(t *testing.T) {
	replace := func(pairs ...string) string {
		text := strings.NewReplacer(pairs...).Replace(stored)
		if text == stored {
			t.Fatalf("nothing to replace: %q", pairs)
		}
		return text
	}
	for name, text := range map[string]string{
		"empty":                     "",
		"white space":               " \n",
		"not JSON":                  "released",
		"another JSON":              "true",
		"a list":                    "[" + stored + "]",
		"null":                      "null",
		"nothing in it":             "{}",
		"cut":                       stored[:len(stored)-20],
		"more behind it":            stored + "{}",
		"two byte order marks":      "\ufeff\ufeff" + stored,
		"not UTF-8":                 replace("bob", "b\xffb"),
		"older format":              replace(`"version": 1`, `"version": 0`),
		"newer format":              replace(`"version": 1`, `"version": 2`),
		"no format":                 replace(`  "version": 1,`, ""),
		"no life":                   replace(`"life": "A1"`, `"life": ""`),
		"base above":                replace(`"life": "A1"`, `"life": "A1", "base": 3`),
		"base of the release":       replace(`"life": "A1"`, `"life": "A1", "base": 2`),
		"shut without history":      replace(`"released": true`, `"released": false`),
		"released as text":          replace(`"released": true`, `"released": "true"`),
		"released as number":        replace(`"released": true`, `"released": 1`),
		"released twice":            replace(`"released": true`, `"released": false, "released": true`),
		"released in capitals":      replace(`"released": true`, `"Released": true`),
		"unknown member":            replace(`"released": true`, `"released": true, "until": 5`),
		"member in another order":   replace("\"version\": 1,\n  \"life\": \"A1\",", "\"life\": \"A1\",\n  \"version\": 1,"),
		"generation beyond history": replace(`"generation": 2`, `"generation": 3`),
		"generation as text":        replace(`"generation": 2,`, `"generation": "2",`),
		"generation with fraction":  replace(`"generation": 2`, `"generation": 2.0`),
		"generation too large":      replace(`"generation": 2`, `"generation": 9007199254740992`),
		"generation negative":       replace(`"generation": 1`, `"generation": -1`),
		"generations that jump":     replace(`"generation": 2`, `"generation": 5`),
		"no history":                stored[:strings.Index(stored, "[")] + "[]}",
		"two releases in a row":     replace(`"change": "close"`, `"change": "release"`),
		"unknown change":            replace(`"change": "close"`, `"change": "shut"`),
		"nobody":                    replace(`"by": "bob"`, `"by": ""`),
		"no operation":              replace(`"operation": "B1"`, `"operation": ""`),
		"no time":                   replace(`"2026-11-21T10:05:00.25Z"`, `""`),
		"time of another kind":      replace(`"2026-11-21T10:05:00.25Z"`, `"21.11.2026"`),
	} {
		s, err := parse("start", text)
		if !errors.Is(err, ErrCorrupt) || s.Released || s.Generation != 0 {
			t.Errorf("%s: %+v, %v, want %v", name, s, err, ErrCorrupt)
		}
		if err != nil && (len(err.Error()) > 500 || strings.Contains(err.Error(), "\n")) {
			t.Errorf("%s: the message is not fit for a log: %v", name, err)
		}
	}
}

// The history keeps the last fifty, and the longest of them fit into the store.
func TestLongestDocument(t *testing.T) {
	var s State
	for i := range 120 {
		c := Transition{Change: closed, Generation: s.Generation, By: "ann", Operation: "A"}
		if i%2 == 0 {
			c.Change, c.Generation = released, s.Generation+1
		}
		s = next(s, c).state("start")
	}
	if len(s.History) != maxHistory || s.Generation != 60 || s.History[0].Generation != 36 {
		t.Errorf("%d entries from generation %d on, at generation %d, want the last %d", len(s.History), s.History[0].Generation, s.Generation, maxHistory)
	}
	for i := range s.History {
		c := &s.History[i]
		c.At = time.Date(2026, 11, 21, 12, 0, 0, 999999999, time.UTC)
		// U+2028 takes six bytes in JSON, and no character takes more.
		c.By, c.Reason = strings.Repeat("\u2028", MaxBy), strings.Repeat("\u2028", MaxReason)
		c.Operation, c.Replaced = strings.Repeat("A", 26), strings.Repeat("\u2028", 3*maxQuoted)
	}
	text := next(State{Generation: 59, History: s.History[1:], life: strings.Repeat("A", 26)}, s.History[0]).encode()
	if len(text) > MaxText {
		t.Errorf("a document of %d bytes is longer than a store takes", len(text))
	}
}

func FuzzParse(f *testing.F) {
	f.Add(`{"version":1,"life":"A","released":true,"generation":1,"history":[{"change":"release","generation":1,"at":"2026-11-21T10:00:00Z","by":"a","reason":"","operation":"A"}]}`)
	f.Add(`{"version":1,"life":"A","base":3,"released":false,"generation":3,"history":[{"change":"close","generation":3,"at":"2026-11-21T10:00:00Z","by":"a","reason":"","operation":"A","replaced":"\"x\""}]}`)
	f.Add(`{"version":1}`)
	at := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, text string) {
		s, err := parse("start", text)
		if err != nil {
			if !errors.Is(err, ErrCorrupt) {
				t.Errorf("error %v is not %v", err, ErrCorrupt)
			}
			s = salvage("start", text) // which must not panic, and lead to something readable
		}
		c := Transition{Change: released, Generation: s.Generation + 1, At: at, By: "ann", Operation: "Z9"}
		if err != nil {
			c.Replaced = quote(text)
		} else if s.Released {
			c.Change, c.Generation = closed, s.Generation
		}
		if c.Generation > MaxGeneration {
			return
		}
		again, err := parse("start", next(s, c).encode())
		if err != nil || again.Generation != c.Generation || again.Released != (c.Change == released) {
			t.Errorf("%+v, changed by %+v, is %+v, %v", s, c, again, err)
		}
	})
}
