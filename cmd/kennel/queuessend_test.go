package main

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestQueueLinesInterrupted: after an error a person learns what was sent and
// where to go on.
func TestQueueLinesInterrupted(t *testing.T) {
	requests := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		if requests++; requests == 1 {
			answer{202, "application/json", `{"sent":999,"failed":[{"line":7,"code":"bad_message","message":"No \u001b[31m."}]}`, nil}.write(w)
			return
		}
		appError(503, "change_unclear", nil).write(w)
	}))
	defer server.Close()
	file := filepath.Join(t.TempDir(), "lines")
	if err := os.WriteFile(file, []byte(strings.Repeat("1\n", 2500)), 0o600); err != nil {
		t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	code := run(context.Background(), []string{"kennel", "queues", "send", "emails", "--lines", "--file", file, "--url", server.URL}, nil, strings.NewReader(""), &stdout, &stderr)
	wantErr := "line 7: bad_message: No \ufffd[31m.\nkennel queues send: lines 1001 to 2000: the app returned 503 change_unclear: broken; line 1000 is the last one that is done\n"
	if code != exitFailed || stdout.String() != "999 messages sent to emails\n" || stderr.String() != wantErr || requests != 2 {
		t.Errorf("code %d, %d requests, %q, %q, want %q", code, requests, stdout.String(), stderr.String(), wantErr)
	}
}
