package deadletters_test

import (
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"kennel/deadletters"
	"kennel/queue"
)

// FuzzLetter lists and redrives a letter of any text. It is listed as JSON that
// is read back, and its message arrives or the letter stays. A text of another
// program arrives as it was.
func FuzzLetter(f *testing.F) {
	for _, form := range newWorld(f, nil).forms(1) {
		f.Add(form.stored)
	}
	for _, text := range []string{
		"", "{", `{"v":1}`, "test", "AAAA", "////", " e30= ", `{"v":2,"queue":"work","message":"m"}`,
		queue.DeadLetter{Queue: "other", Message: "m", Text: "whole"}.Encode(),
		`{"v":1,"id":"a","time":"2026-11-23T00:00:00Z","size":0,"sha256":"47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=","text":"","raw":true}`,
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, body string) {
		if queue.CheckPut(poison, body, 0) != nil {
			return
		}
		w := newWorld(t, nil)
		w.create(source)
		w.put(poison, body)
		l := w.letters(nil, deadletters.Options{})
		items := w.front(l)
		if len(items) != 1 {
			t.Fatalf("listed %+v", items)
		}
		item := items[0]
		text, err := json.Marshal(item)
		var again deadletters.Letter
		if err == nil {
			err = json.Unmarshal(text, &again)
		}
		if err != nil || again.Body != item.Body || item.ID == "" {
			t.Errorf("%+v is read back as %+v, %v", item, again, err)
		}
		r, err := l.Redrive(t.Context(), poison, all)
		if err != nil || r.Matched != 1 || r.Moved+len(r.Left) != 1 || len(w.bodies(source)) != r.Moved || w.visible(poison) != 1-r.Moved {
			t.Errorf("%+v, %v, put %q, left %q", r, err, w.bodies(source), w.bodies(poison))
		}
		if readable(body) || time.Since(r.Before).Abs() > time.Hour {
			return
		}
		if !slices.Equal(w.bodies(source), []string{body}) || item.MovedBy != deadletters.ByHost || item.Attempts != nil {
			t.Errorf("%+v of %q was put as %q", item, body, w.bodies(source))
		}
	})
}

// readable reports whether a text may be one that we wrote.
func readable(body string) bool {
	text, _ := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(body), ""))
	for _, body := range []string{body, string(text)} {
		d, letterErr := queue.ReadDeadLetter(body)
		_, envelopeErr := queue.Parse(body)
		if letterErr == nil && d.Queue == source || envelopeErr == nil {
			return true
		}
	}
	return false
}
