package client_test

import (
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"kennel/client"
)

// TestRepeats checks which requests are sent again, after which failures.
func TestRepeats(t *testing.T) {
	const (
		once    = 1
		isAgain = 2
	)
	calls := map[string]func(context.Context, *client.Client) error{
		"next": func(ctx context.Context, c *client.Client) error { _, err := c.Next(ctx, "orders", 1); return err },
		"read": func(ctx context.Context, c *client.Client) error { _, err := c.Channel(ctx, "news"); return err },
		"create": func(ctx context.Context, c *client.Client) error {
			_, _, err := c.CreateChannel(ctx, "news", "")
			return err
		},
		"delete": func(ctx context.Context, c *client.Client) error {
			_, err := c.DeleteChannel(ctx, "news", `"1"`)
			return err
		},
		"delete any": func(ctx context.Context, c *client.Client) error {
			_, err := c.DeleteChannel(ctx, "news", "")
			return err
		},
		"raise": func(ctx context.Context, c *client.Client) error {
			_, err := c.RaiseSequence(ctx, "orders", client.Raise{})
			return err
		},
		"release": func(ctx context.Context, c *client.Client) error {
			_, err := c.Release(ctx, "hounds", client.Change{})
			return err
		},
		"add blog": func(ctx context.Context, c *client.Client) error {
			_, err := c.AddBlog(ctx, "news", client.Draft{})
			return err
		},
		"update blog": func(ctx context.Context, c *client.Client) error {
			_, err := c.UpdateBlog(ctx, "news", "b", `"1"`, client.Draft{})
			return err
		},
		"overwrite blog": func(ctx context.Context, c *client.Client) error {
			_, err := c.UpdateBlog(ctx, "news", "b", "*", client.Draft{})
			return err
		},
		"delete blog":     func(ctx context.Context, c *client.Client) error { return c.DeleteBlog(ctx, "news", "b", `"1"`) },
		"delete any blog": func(ctx context.Context, c *client.Client) error { return c.DeleteBlog(ctx, "news", "b", "") },
		"redrive": func(ctx context.Context, c *client.Client) error {
			_, err := c.RedriveDeadLetters(ctx, "q-poison", client.DeadLetterSelection{All: true, Limit: 10})
			return err
		},
		"delete all letters": func(ctx context.Context, c *client.Client) error {
			_, err := c.DeleteDeadLetters(ctx, "q-poison", client.DeadLetterSelection{All: true})
			return err
		},
		"delete some letters": func(ctx context.Context, c *client.Client) error {
			_, err := c.DeleteDeadLetters(ctx, "q-poison", client.DeadLetterSelection{All: true, Limit: 10})
			return err
		},
		"count letters": func(ctx context.Context, c *client.Client) error {
			_, err := c.DeleteDeadLetters(ctx, "q-poison", client.DeadLetterSelection{All: true, DryRun: true})
			return err
		},
	}
	reads := []string{"read", "count letters"}
	always := []string{"create", "add blog", "delete", "raise", "release", "overwrite blog", "delete any blog", "redrive", "delete all letters"}
	ifUnchanged := []string{"delete any", "update blog", "delete blog", "delete some letters"}
	all := slices.Concat(reads, always, ifUnchanged, []string{"next"})

	for _, failure := range []struct {
		name    string
		answer  any
		again   []string // the calls that are repeated
		unclear []string // those that may have had an effect, if this was the last answer
	}{
		{"nothing changed", appError(503, "storage_unavailable", after("5")), all, nil},
		{"stopping", appError(503, "stopping", after("1")), all, nil},
		{"unclear", appError(503, "change_unclear", after("5")), slices.Concat(reads, always, []string{"next"}), slices.Concat(always, ifUnchanged, []string{"next"})},
		{"busy proxy", answer{503, "", "", after("5")}, slices.Concat(reads, always, []string{"next"}), slices.Concat(always, ifUnchanged, []string{"next"})},
		{"killed, as the host sees it", answer{500, "", "", nil}, slices.Concat(reads, always), slices.Concat(always, ifUnchanged, []string{"next"})},
		{"killed", io.EOF, slices.Concat(reads, always), slices.Concat(always, ifUnchanged, []string{"next"})},
		{"reset", &net.OpError{Op: "read", Err: errReset}, slices.Concat(reads, always), slices.Concat(always, ifUnchanged, []string{"next"})},
		{"refused", &net.OpError{Op: "dial", Err: errReset}, nil, nil},
		{"no such host", &net.DNSError{Name: "app.example", IsNotFound: true}, nil, nil},
		{"an unknown failure", errReset, nil, slices.Concat(always, ifUnchanged, []string{"next"})},
		{"too many sequences", appError(503, "too_many_sequences", nil), nil, nil},
		{"corrupt", appError(500, "gate_corrupt", nil), nil, nil},
		{"bad request", appError(400, "bad_json", after("1")), nil, nil},
		{"too many", appError(429, "too_many_requests", after("1")), all, nil},
		{"too many for a proxy", answer{429, "", "", after("1")}, all, nil},
		{"too many, without a time", answer{429, "", "", nil}, nil, nil},
	} {
		for name, call := range calls {
			synctest.Test(t, func(t *testing.T) {
				a, c := playing(t, failure.answer, appError(418, "end", nil))
				call(t.Context(), c)
				want := once
				if slices.Contains(failure.again, name) {
					want = isAgain
				}
				if len(a.asked) != want {
					t.Errorf("%s, %s: %d requests, want %d", failure.name, name, len(a.asked), want)
				}
				if want == isAgain && len(a.said) != 1 {
					t.Errorf("%s, %s: notices %q, want one", failure.name, name, a.said)
				}
				_, c = playing(t, failure.answer)
				err := call(t.Context(), c)
				if got, want := errors.Is(err, client.ErrUnclear), slices.Contains(failure.unclear, name); err == nil || got != want {
					t.Errorf("%s, %s: %v is unclear: %t, want %t", failure.name, name, err, got, want)
				}
			})
		}
	}
}

// TestEarlierAttempt checks that an error reports the effect of any attempt, not
// only of the last one.
func TestEarlierAttempt(t *testing.T) {
	dial := &net.OpError{Op: "dial", Err: errReset}
	unchanged := appError(503, "storage_unavailable", after("5"))
	for _, test := range []struct {
		name    string
		answers []any
		err     string
		unclear bool
	}{
		{"killed, and does not start again", []any{io.EOF, dial}, "gave up after 6 attempts; after an earlier attempt the gate may have been changed", true},
		{"storage fails later", []any{io.EOF, unchanged}, "after an earlier attempt the gate may have been changed", true},
		{"rejected later", []any{appError(503, "change_unclear", after("1")), appError(500, "gate_corrupt", nil)}, "gate_corrupt: broken; after an earlier attempt the gate may", true},
		{"the caller gives up later", []any{io.EOF, appError(503, "stopping", after("30"))}, context.DeadlineExceeded.Error() + "; after an earlier attempt the gate may", true},
		{"the last one is unclear", []any{unchanged, io.EOF}, "EOF; the gate may have been changed; gave up after 6 attempts", true},
		{"nothing changed", []any{unchanged}, "storage_unavailable", false},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 29*time.Second)
			defer cancel()
			_, c := playing(t, test.answers...)
			_, err := c.Release(ctx, "hounds", client.Change{})
			expectError(t, test.name, err, test.err)
			if got := errors.Is(err, client.ErrUnclear); got != test.unclear {
				t.Errorf("%s: %v is unclear: %t, want %t", test.name, err, got, test.unclear)
			}
			if e, ok := errors.AsType[*client.Error](err); test.name == "rejected later" && (!ok || e.Code != "gate_corrupt") {
				t.Errorf("%s: %v does not wrap the last error", test.name, err)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		_, c := playing(t, io.EOF, dial)
		if _, err := c.Gate(t.Context(), "hounds"); err == nil || errors.Is(err, client.ErrUnclear) {
			t.Errorf("a read failed with %v, want an error that is not unclear", err)
		}
	})
}

// TestPauses checks the number of repeats, the pauses between them and what is
// reported.
func TestPauses(t *testing.T) {
	one := ok(`{"sequence":"orders","first":5,"last":5,"count":1}`)
	dial := &net.OpError{Op: "dial", Err: errReset}
	for _, test := range []struct {
		name    string
		answers []any
		calls   int
		takes   time.Duration
		said    []string
		err     string
	}{
		{"busy twice", []any{answer{503, "", "", after("2")}, answer{503, "", "", after("Sat, 01 Jan 2000 00:00:12 GMT")}, one}, 3, 12 * time.Second,
			[]string{"the app is busy; retrying in 2s (1 of 5)", "the app is busy; retrying in 10s (2 of 5)"}, ""},
		{"always busy", []any{answer{503, "", "", after("0")}}, 6, 5 * time.Second,
			[]string{"the app is busy; retrying in 1s (1 of 5)", "the app is busy; retrying in 1s (2 of 5)", "the app is busy; retrying in 1s (3 of 5)",
				"the app is busy; retrying in 1s (4 of 5)", "the app is busy; retrying in 1s (5 of 5)"}, "gave up after 6 attempts"},
		{"busy for longer than the caller waits", []any{answer{503, "", "", after("30")}}, 1, 20 * time.Second,
			[]string{"the app is busy; retrying in 30s (1 of 5)"}, "503 Service Unavailable; numbers may have been drawn and lost; gave up: " + context.DeadlineExceeded.Error()},
		{"busy for too long", []any{answer{503, "", "", after("31")}}, 1, 0, nil, "its Retry-After is 31s"},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			a, c := playing(t, test.answers...)
			began := time.Now()
			_, err := c.Next(ctx, "orders", 1)
			expectError(t, test.name, err, test.err)
			if takes := time.Since(began); len(a.asked) != test.calls || takes != test.takes {
				t.Errorf("%s: %d requests in %v, want %d in %v", test.name, len(a.asked), takes, test.calls, test.takes)
			}
			same(t, test.name, test.said, a.said)
		})
	}
	// An app that was killed and refuses connections while it starts again.
	synctest.Test(t, func(t *testing.T) {
		a, c := playing(t, io.EOF, dial, dial, gateIs(200, true, 1))
		if _, err := c.Gate(t.Context(), "hounds"); err != nil || len(a.asked) != 4 {
			t.Errorf("%d requests, %v", len(a.asked), err)
		}
		same(t, "said", "no response from http://app.example: EOF; retrying in 2s (1 of 5)", a.said[0])
	})
}

// TestEndOfContext checks that a change that was cut off is unclear, and that a
// silent app does not hold a caller for ever.
func TestEndOfContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, c := playing(t, ok("{}"))
		a.takes = time.Hour
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := c.AddBlog(ctx, "news", client.Draft{})
		if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, client.ErrUnclear) {
			t.Errorf("got %v, want it unclear, with the error of the context", err)
		}
		began := time.Now()
		_, err = c.AddBlog(t.Context(), "news", client.Draft{})
		expectError(t, "silent app", err, "waited for 1m40s; the blog may have been created")
		same(t, "time", 100*time.Second, time.Since(began))
	})
}
