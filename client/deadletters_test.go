package client_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"kennel/client"
)

func TestDeadLetters(t *testing.T) {
	_, c := playing(t, ok(`{"items":[{"queue":"a-poison","source":"a","messages":3},{"queue":"b-poison","source":"b","messages":1}]}`))
	queues, err := c.DeadLetterQueues(t.Context())
	if err != nil || len(queues) != 2 || queues[0].Queue != "a-poison" || queues[0].Messages != 3 || string(queues[1].JSON()) != `{"queue":"b-poison","source":"b","messages":1}` {
		t.Errorf("got %+v, %v", queues, err)
	}

	a, c := playing(t, ok(`{"items":[{"id":"x","reason":"r","attempts":10,"movedBy":"kennel","insertedAt":"2026-01-02T03:04:05Z","body":"b","encoding":"text","size":1},
		{"id":"y","attempts":null,"movedBy":"host","problem":"gone"}],"more":true}`))
	letters, more, err := c.DeadLetters(t.Context(), "a-poison")
	if err != nil || !more || len(letters) != 2 || *letters[0].Attempts != 10 || letters[0].MovedBy != client.MovedByKennel ||
		letters[1].Attempts != nil || letters[1].MovedBy != client.MovedByHost || !strings.HasPrefix(string(letters[1].JSON()), `{"id":"y",`) {
		t.Errorf("got %+v, %t, %v", letters, more, err)
	}
	same(t, "asked", []string{"GET /deadletters/a-poison"}, a.asked)

	a, c = playing(t, ok(`{"items":[]}`))
	if letters, more, err := c.DeadLetters(t.Context(), "a-poison"); err != nil || more || len(letters) != 0 {
		t.Errorf("got %+v, %t, %v", letters, more, err)
	}
	all := client.DeadLetterSelection{All: true}
	for what, call := range map[string]func() error{
		"no queue":  func() error { _, _, err := c.DeadLetters(t.Context(), ""); return err },
		"no queue ": func() error { _, err := c.RedriveDeadLetters(t.Context(), "", all); return err },
		"nothing is selected": func() error {
			_, err := c.RedriveDeadLetters(t.Context(), "a-poison", client.DeadLetterSelection{})
			return err
		},
		"all, and some": func() error {
			_, err := c.DeleteDeadLetters(t.Context(), "a-poison", client.DeadLetterSelection{All: true, IDs: []string{"x"}})
			return err
		},
		"no UTF-8": func() error {
			_, err := c.DeleteDeadLetters(t.Context(), "a-poison", client.DeadLetterSelection{IDs: []string{"\xff"}})
			return err
		},
	} {
		if err := call(); !errors.Is(err, client.ErrInvalid) {
			t.Errorf("%s: %v, want ErrInvalid", what, err)
		}
	}
	same(t, "asked", 1, len(a.asked))
}

// TestMoveDeadLetters checks which requests a redrive or a deletion sends until
// it is done.
func TestMoveDeadLetters(t *testing.T) {
	const before = `"2026-01-02T03:04:05Z"`
	moved := func(what string, n int, more bool) answer {
		return ok(fmt.Sprintf(`{"matched":%d,%q:%d,"more":%t,"before":%s}`, n, what, n, more, before))
	}
	type selection = client.DeadLetterSelection
	all := selection{All: true}
	for _, tt := range []struct {
		name   string
		remove bool
		s      selection
		answer []any
		want   []string // the bodies of the requests
	}{
		{"all", false, all, []any{moved("moved", 1000, true), moved("moved", 7, false)},
			[]string{`{"all":true}`, `{"all":true,"before":` + before + `}`}},
		{"none", false, all, []any{moved("moved", 0, false)}, []string{`{"all":true}`}},
		{"nothing can be moved", false, all, []any{moved("moved", 1000, true), moved("moved", 0, true)},
			[]string{`{"all":true}`, `{"all":true,"before":` + before + `}`}},
		{"some by id", false, selection{IDs: []string{"x", "y"}}, []any{moved("moved", 2, false)}, []string{`{"ids":["x","y"]}`}},
		{"a limit", false, selection{All: true, Limit: 1500}, []any{moved("moved", 1000, true), moved("moved", 500, true)},
			[]string{`{"all":true,"limit":1000}`, `{"all":true,"limit":500,"before":` + before + `}`}},
		{"a rate", false, selection{All: true, RatePerSecond: 10}, []any{moved("moved", 50, true), moved("moved", 3, false)},
			[]string{`{"all":true,"limit":50,"ratePerSecond":10}`, `{"all":true,"limit":50,"ratePerSecond":10,"before":` + before + `}`}},
		{"a low rate", false, selection{All: true, Limit: 2, RatePerSecond: 0.1}, []any{moved("moved", 1, true)},
			[]string{`{"all":true,"limit":1,"ratePerSecond":0.1}`, `{"all":true,"limit":1,"ratePerSecond":0.1,"before":` + before + `}`}},
		{"a rate, and all stay", false, selection{All: true, Limit: 7, RatePerSecond: 1}, []any{moved("moved", 0, true)}, []string{`{"all":true,"limit":5,"ratePerSecond":1}`}},
		{"a high rate", false, selection{All: true, RatePerSecond: 1e300}, []any{moved("moved", 1, false)}, []string{`{"all":true,"limit":1000,"ratePerSecond":1e+300}`}},
		{"a rehearsal", false, selection{All: true, DryRun: true}, []any{moved("moved", 0, true)}, []string{`{"all":true,"dryRun":true}`}},
		{"continued", false, selection{All: true, Before: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}, []any{moved("moved", 1, false)},
			[]string{`{"all":true,"before":"2026-01-01T00:00:00Z"}`}},
		{"a deletion", true, all, []any{moved("deleted", 1000, true), moved("deleted", 7, false)},
			[]string{`{"all":true}`, `{"all":true,"before":` + before + `}`}},
	} {
		a, c := playing(t, tt.answer...)
		repeat, verb := c.RepeatRedrive, "redrive"
		if tt.remove {
			repeat, verb = c.RepeatDelete, "delete"
		}
		for _, err := range repeat(t.Context(), "a-poison", tt.s) {
			expectError(t, tt.name, err, "")
		}
		for i, body := range tt.want {
			tt.want[i] = "POST /deadletters/a-poison/" + verb + " " + body
		}
		same(t, tt.name, tt.want, a.asked)
	}
}

// TestMoveIsInterrupted checks that a redrive ends where its caller ends it, and
// that it continues through a failure that it may repeat.
func TestMoveIsInterrupted(t *testing.T) {
	some := ok(`{"matched":5,"moved":5,"more":true,"before":"2026-01-02T03:04:05Z"}`)
	a, c := playing(t, some)
	for range c.RepeatRedrive(t.Context(), "a-poison", client.DeadLetterSelection{All: true}) {
		break
	}
	same(t, "asked", 1, len(a.asked))

	synctest.Test(t, func(t *testing.T) {
		// Deleting all may be repeated, also in steps; deleting a number of them
		// may not.
		lost := answer{500, "", "", nil}
		_, c := playing(t, lost, ok(`{"matched":25,"deleted":25,"more":true}`), lost, ok(`{"matched":1,"deleted":1}`))
		errs := collect(c.RepeatDelete(t.Context(), "a-poison", client.DeadLetterSelection{All: true, RatePerSecond: 5}))
		same(t, "errors", []bool{false, false}, errs)

		_, c = playing(t, lost)
		errs = collect(c.RepeatDelete(t.Context(), "a-poison", client.DeadLetterSelection{All: true, Limit: 5}))
		same(t, "errors", []bool{true}, errs)

		ctx, cancel := context.WithCancel(t.Context())
		a, c := playing(t, some)
		a.takes = time.Minute
		time.AfterFunc(90*time.Second, cancel)
		errs = collect(c.RepeatRedrive(ctx, "a-poison", client.DeadLetterSelection{All: true}))
		same(t, "errors", []bool{false, true}, errs)
	})
}

// collect returns which steps ended with an error.
func collect(steps iter.Seq2[client.MovedDeadLetters, error]) (failed []bool) {
	for _, err := range steps {
		failed = append(failed, err != nil)
	}
	return failed
}
