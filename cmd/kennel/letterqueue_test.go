package main

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
)

// TestLettersOfSharedQueue: the dead letters of a queue are found by its name, also
// if its messages are in a storage queue that it shares with others, and by that of
// a storage queue that is no queue of the program.
func TestLettersOfSharedQueue(t *testing.T) {
	var asked []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.Path)
		switch {
		case r.URL.Path == "/api/queues/mails":
			answer{200, "application/json", `{"queue":"mails","own":true,"storageQueue":"jobs"}`, nil}.write(w)
		case strings.HasPrefix(r.URL.Path, "/api/queues/"):
			appError(404, "not_found", nil).write(w)
		default:
			answer{200, "application/json", `{"items":[],"more":false}`, nil}.write(w)
		}
	}))
	defer server.Close()
	for name, want := range map[string][]string{
		"mails":       {"/api/queues/mails", "/api/deadletters/jobs-poison"},
		"mail-poison": {"/api/deadletters/mail-poison"},
		"work-0":      {"/api/deadletters/work-0-poison"},
		"legacy":      {"/api/queues/legacy", "/api/deadletters/legacy-poison"},
	} {
		asked = nil
		var stdout, stderr bytes.Buffer
		code := run(context.Background(), []string{"kennel", "deadletters", "list", name, "--url", server.URL}, nil, strings.NewReader(""), &stdout, &stderr)
		if code != 0 || !slices.Equal(asked, want) {
			t.Errorf("%s: code %d, requests %q, want %q; %s", name, code, asked, want, stderr.String())
		}
	}
}
