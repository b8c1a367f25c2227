package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"kennel/client"
)

func TestDescribeMove(t *testing.T) {
	for _, tt := range []struct {
		name         string
		moved, total int
		elapsed      time.Duration
		want         string
	}{
		{"just begun", 5, 2000, 900 * time.Millisecond, "5 of 2000 dead letters put back"},
		{"under way", 500, 2000, 10 * time.Second, "500 of 2000 dead letters put back, 50/s, 30s left"},
		{"slow", 1, 10, 8 * time.Second, "1 of 10 dead letters put back, 0.1/s, 1m12s left"},
		{"nothing yet", 0, 10, time.Minute, "0 of 10 dead letters put back"},
		{"unknown total", 100, 0, 10 * time.Second, "100 dead letters put back, 10/s"},
		{"more than were counted", 11, 10, time.Second, "11 dead letters put back, 11/s"},
		{"the last", 1999, 2000, 100 * time.Second, "1999 of 2000 dead letters put back, 20/s, 1s left"},
	} {
		w := &moving{move: redriving, queue: "q-poison", moved: tt.moved, total: tt.total}
		same(t, tt.name, tt.want, w.describe(tt.elapsed))
	}
}

// moved is the answer to a redrive of n dead letters, of which all are moved.
func moved(n int, more bool) answer {
	return answer{200, "application/json", fmt.Sprintf(`{"matched":%d,"moved":%d,"more":%t,"before":"2026-01-02T03:04:05.5Z"}`, n, n, more), nil}
}

// taking answers after a time.
func taking(d time.Duration, f tripper) tripper {
	return func(r *http.Request) (answer, error) {
		if err := pause(r.Context(), d); err != nil {
			return answer{}, err
		}
		return f(r)
	}
}

// sharedBuffer is written to by several goroutines.
type sharedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *sharedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *sharedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// TestMoveLetters checks what a redrive writes without a terminal.
func TestMoveLetters(t *testing.T) {
	for _, tt := range []struct {
		name           string
		answers        []any
		s              client.DeadLetterSelection
		interrupt      time.Duration // when Ctrl+C comes
		stdout, stderr string
		err            string
	}{
		{
			"to the end", []any{moved(30, true), moved(30, true), moved(30, true), moved(10, false)}, client.DeadLetterSelection{All: true}, time.Hour,
			"100 dead letters of q-poison put back\n", "60 dead letters put back, 6/s\n", "",
		},
		{
			"interrupted", []any{moved(30, true)}, client.DeadLetterSelection{All: true, RatePerSecond: 7.5, Limit: 100}, 12 * time.Second,
			"", "60 dead letters put back, 6/s\nthe current call to the app is completed first; a second Ctrl+C ends kennel immediately\n",
			"context canceled; 90 dead letters put back; to continue: kennel deadletters redrive q-poison --all --rate 7.5 --limit 10 --before 2026-01-02T03:04:05.5Z",
		},
		{
			"interrupted at the end", []any{moved(30, false)}, client.DeadLetterSelection{IDs: []string{"a"}}, 3 * time.Second,
			"30 dead letters of q-poison put back\n", "the current call to the app is completed first; a second Ctrl+C ends kennel immediately\n", "",
		},
		{
			"interrupted, some", []any{moved(1, true)}, client.DeadLetterSelection{IDs: []string{"a", "b"}, Before: time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)}, 3 * time.Second,
			"", "the current call to the app is completed first; a second Ctrl+C ends kennel immediately\n",
			"context canceled; 1 dead letter put back; to continue: kennel deadletters redrive q-poison … --before 2026-01-02T03:04:05.5Z",
		},
		{
			"killed app", []any{moved(30, true), io.EOF, moved(3, false)}, client.DeadLetterSelection{All: true}, time.Hour,
			"33 dead letters of q-poison put back\n", "no response from http://app.example: EOF; dead letters may have been redriven; retrying in 2s (1 of 5)\n", "",
		},
		{
			"a failure on the way", []any{moved(30, true), appError(409, "source_missing", nil)}, client.DeadLetterSelection{All: true}, time.Hour,
			"", "", "the app returned 409 source_missing: broken; 30 dead letters put back; to continue: kennel deadletters redrive q-poison --all --before 2026-01-02T03:04:05.5Z",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var out bytes.Buffer
				var errs sharedBuffer
				con := &console{stdout: &out, stderr: &errs, env: map[string]string{}, program: "kennel"}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				time.AfterFunc(tt.interrupt, cancel)
				err := con.moveLetters(ctx, appOf(t, taking(5*time.Second, answering(tt.answers...)), nil), redriving, "q-poison", tt.s, false)
				synctest.Wait()
				if (ctx.Err() != nil && tt.err != "") != errors.Is(err, context.Canceled) {
					t.Errorf("got %v, want the error of the context after Ctrl+C", err)
				}
				expectError(t, "redrive", err, tt.err)
				same(t, "standard output", tt.stdout, out.String())
				same(t, "standard error", tt.stderr, errs.String())
			})
		})
	}
}
