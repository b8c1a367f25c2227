package channels_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"kennel/channels"
)

// TestMessagesThatMeanNothing: each says why it belongs into the dead-letter
// queue, or does nothing, and the channel is as it was.
func TestMessagesThatMeanNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld().clone(nil)
		first := w.fill(t, "news", 3)
		p := w.start(nil, nil)
		done, err := p.Delete(t.Context(), "news", "")
		if err != nil {
			t.Fatal(err)
		}
		second := w.fill(t, "news", 5)
		rows := func() string { return fmt.Sprint(w.channels.Rows(""), w.blogs.Rows("")) }
		before := rows()
		for name, text := range map[string]string{
			"not JSON":          "delete it",
			"unknown version":   `{"v":7,"channel":"news","incarnation":"` + second + `"}`,
			"no channel":        `{"v":1,"incarnation":"` + second + `"}`,
			"no incarnation":    `{"v":1,"channel":"news"}`,
			"no such channel":   `{"v":1,"channel":"olds","incarnation":"` + second + `"}`,
			"never was":         `{"v":1,"channel":"news","incarnation":"` + strings.Repeat("0", 16) + "-" + strings.Repeat("0", 16) + `"}`,
			"the name row":      `{"v":1,"channel":"news","incarnation":"name"}`,
			"another partition": `{"v":1,"channel":"news@` + second + `","incarnation":"` + first + `"}`,
		} {
			d, err := p.Handle(t.Context(), text)
			if !errors.Is(err, channels.ErrMessage) || d != (channels.Deletion{}) {
				t.Errorf("%s: %+v, %v, want %v", name, d, err, channels.ErrMessage)
			}
		}
		// The old incarnation is done: there is nothing to do and nothing wrong.
		time.Sleep(time.Hour)
		d, err := p.Handle(t.Context(), `{"v":1,"channel":"news","incarnation":"`+first+`"}`)
		if err != nil || d != done {
			t.Errorf("older incarnation: %+v, %v, want the record %+v", d, err, done)
		}
		if got := rows(); got != before {
			t.Errorf("rows: %s, before: %s", got, before)
		}
		if ch, err := p.Read(t.Context(), "news"); err != nil || ch.Incarnation != second {
			t.Errorf("channel: %+v, %v", ch, err)
		}
	})
}

// TestMessageAlone: if whoever put the message died right after, the message
// does it all.
func TestMessageAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld().clone(nil)
		incarnation := w.fill(t, "news", 101)
		if died := w.dieAt(channels.StepMessagePut, func(p *process) { p.Delete(p.Context(), "news", "") }); !died {
			t.Fatal("the process survived")
		}
		if ch, err := w.start(nil, nil).Read(t.Context(), "news"); err != nil || ch.Incarnation != incarnation {
			t.Errorf("right after: %+v, %v, want the channel", ch, err)
		}
		w.host(t, func() *process { return w.start(nil, nil) })
		w.gone(t, "news", incarnation, 101)
	})
}
