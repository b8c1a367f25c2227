package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"kennel/client"
)

func TestIsArray(t *testing.T) {
	zipped := func(text string) string {
		var out bytes.Buffer
		z := gzip.NewWriter(&out)
		z.Write([]byte(text))
		z.Close()
		return out.String()
	}
	for _, tt := range []struct {
		path, head string
		want       bool
	}{
		{"-", `{"id":"a"}`, false},
		{"-", "", false},
		{"-", " \r\n\t[", true},
		{"-", "\ufeff[", true},
		{"items.ndjson", `{"id":"a"}`, false},
		{"items.ndjson", `[{"id":"a"}]`, true},
		{"items.json", "", true},
		{"items.json.gz", "", true},
		{"items.ndjson.gz", zipped(`{"id":"a"}`), false},
		{"items.gz", zipped(`[{"id":"a"}]`), true},
		{"-", zipped("[" + strings.Repeat("a", 100_000))[:100], true},
		{"-", "\x1f\x8b", false},
	} {
		if got := isArray(tt.path, []byte(tt.head)); got != tt.want {
			t.Errorf("%s %q: got %t", tt.path, tt.head, got)
		}
	}
}

// TestSubmitStdin checks what is sent of standard input.
func TestSubmitStdin(t *testing.T) {
	var got []string
	app := appOf(t, func(r *http.Request) (answer, error) {
		body, err := io.ReadAll(r.Body)
		got = append(got, r.Method, r.URL.RequestURI(), r.Header.Get("Content-Type"), r.Header.Get("Idempotency-Key"), string(body))
		return batchIs("running", 0), err
	}, nil)
	var out, errs bytes.Buffer
	con := &console{stdin: strings.NewReader(`[{"id":"a"}]`), stdout: &out, stderr: &errs, program: "kennel"}
	if err := con.submit(t.Context(), app, "-", submitOptions{processor: "webhook", name: "first", once: "k1"}); err != nil {
		t.Fatal(err)
	}
	same(t, "request", []string{"POST", "/api/batches?name=first&processor=webhook", "application/json", "k1", `[{"id":"a"}]`}, got)
	same(t, "standard output", "b is running: 0 of 2000 items, submitted at 2026-11-22T21:06:01Z\n", out.String())
	same(t, "standard error", "the app continues the batch; to watch it: kennel batch show b --watch\n", errs.String())
}

// TestUnclearSubmission checks that the key is named with which a repeat is
// safe, also if kennel has chosen it.
func TestUnclearSubmission(t *testing.T) {
	for _, once := range []string{"", "k1"} {
		synctest.Test(t, func(t *testing.T) {
			key := ""
			app := appOf(t, func(r *http.Request) (answer, error) {
				key = r.Header.Get("Idempotency-Key")
				return answer{}, pause(r.Context(), time.Hour)
			}, nil)
			con := &console{stdin: strings.NewReader(`{"id":"a"}`)}
			err := con.submit(t.Context(), app, "-", submitOptions{processor: "billing", once: once})
			if !errors.Is(err, client.ErrUnclear) || key == "" || once != "" && key != once {
				t.Errorf("key %q, %v, want it unclear", key, err)
			}
			expectError(t, "submit", err, "the batch may have been submitted; run the command again with --idempotency-key "+key+", which is safe")
		})
	}
}

// TestInterruptedInput checks that Ctrl+C ends a submission whose items are
// being typed.
func TestInterruptedInput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		typed, keyboard := io.Pipe()
		defer keyboard.Close()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		con := &console{stdin: typed}
		err := con.submit(ctx, appOf(t, answering(errHangs), nil), "-", submitOptions{processor: "billing"})
		if !errors.Is(err, ctx.Err()) || errors.Is(err, client.ErrUnclear) {
			t.Errorf("got %v, want only the error of the context", err)
		}
	})
}
