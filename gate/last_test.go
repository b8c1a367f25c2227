package gate

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// TestLast: what is known of a gate with waiters needs no request. A read that
// fails changes nothing; a document that cannot be used counts as closed.
func TestLast(t *testing.T) {
	for name, tt := range map[string]struct {
		reads        []error
		text         string
		released, ok bool
	}{
		"no read":          {},
		"only failures":    {reads: []error{errors.New("no connection")}},
		"a missing gate":   {reads: []error{nil}, ok: true},
		"a released gate":  {reads: []error{nil}, text: releasedOnce, released: true, ok: true},
		"then a failure":   {reads: []error{nil, errors.New("no connection")}, text: releasedOnce, released: true, ok: true},
		"an unusable text": {reads: []error{nil}, text: "{", ok: true},
	} {
		synctest.Test(t, func(t *testing.T) {
			g, err := New(noStore{}, nil)
			if err != nil {
				t.Fatal(err)
			}
			if _, known := g.Last("hounds"); known {
				t.Errorf("%s: known without a watch", name)
			}
			w := g.newWatch("hounds")
			for _, err := range tt.reads {
				w.begin()
				w.afterRead(Value{Text: tt.text, Version: "1"}, err)
			}
			if s, known := g.Last("hounds"); known != tt.ok || s.Released != tt.released || s.History != nil {
				t.Errorf("%s: %+v, %v", name, s, known)
			}
			time.Sleep(time.Minute)
		})
	}
}

const releasedOnce = `{"version":2,"released":true,"generation":1764547200000,"releases":1,"history":[{"change":"release","generation":1764547200000,"at":"2025-12-01T00:00:00Z","by":"ann","reason":"","operation":"A"}]}`
