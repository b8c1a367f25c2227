package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestFailureAsJSON checks the line that --json adds to standard output when a
// command fails. Standard error has the same message as without --json.
func TestFailureAsJSON(t *testing.T) {
	busy := serving(t, appError(503, "storage_unavailable", map[string]string{"Retry-After": "3600", "X-Request-Id": "abc"}))
	closed := serving(t, answer{202, "application/json", `{"gate":"hounds","released":false,"generation":4,"releases":1}`, nil})
	for _, tt := range []struct {
		name string
		args []string
		code int
		want map[string]any // besides message
	}{
		{"answer of the app", []string{"next", "--url", busy, "--json"}, exitFailed,
			map[string]any{"code": "storage_unavailable", "status": 503.0, "requestId": "abc", "retryAfter": 3600.0}},
		{"answer of another site", []string{"next", "--url", serving(t, answer{404, "", "", nil}), "--json"}, exitFailed,
			map[string]any{"code": "refused", "status": 404.0}},
		{"not from the app", []string{"next", "--url", serving(t, answer{200, "text/html", "", nil}), "--json"}, exitFailed,
			map[string]any{"code": "unexpected_response"}},
		{"no app", []string{"channels", "list", "--json", "--url", "http://127.0.0.1:1"}, exitFailed, map[string]any{"code": "not_reached"}},
		{"invalid option", []string{"next", "--count", "10001", "--json"}, exitUsage, map[string]any{"code": "usage"}},
		{"unknown flag", []string{"next", "--cuont", "3", "--json"}, exitUsage, map[string]any{"code": "usage"}},
		{"unknown command", []string{"nxt", "--json"}, exitUsage, map[string]any{"code": "usage"}},
		{"no command", []string{"gate", "--json"}, exitUsage, map[string]any{"code": "usage"}},
		{"no timer", []string{"timers", "show", "--json"}, exitUsage, map[string]any{"code": "usage"}},
		{"no timer to run", []string{"timers", "run", "--json"}, exitUsage, map[string]any{"code": "usage"}},
		{"a word too many", []string{"timers", "run", "digest", "now", "--json"}, exitUsage, map[string]any{"code": "usage"}},
		{"a word after a list of timers", []string{"timers", "list", "x", "--json"}, exitUsage, map[string]any{"code": "usage"}},
		{"a word after a list of queues", []string{"queues", "list", "x", "--json"}, exitUsage, map[string]any{"code": "usage"}},
		{"no confirmation", []string{"gate", "release", "hounds", "--json"}, exitUsage, map[string]any{"code": "usage"}},
		{"no file", []string{"blogs", "add", "news", "--json", "--title", "T", "--file", "nowhere"}, exitFailed, map[string]any{"code": "failed"}},
		{"up, invalid option", []string{"up", "--port", "70000", "--json"}, exitUsage, map[string]any{"code": "usage"}},
		{"not in time", []string{"gate", "wait", "hounds", "--generation", "4", "--timeout", "1ms", "--json", "--url", closed}, exitTooLate,
			map[string]any{"code": "timeout"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			code, stdout, stderr := call(t, nil, tt.args...)
			var line struct {
				Gate  string
				Error map[string]any
			}
			if err := json.Unmarshal([]byte(stdout), &line); err != nil || strings.Count(stdout, "\n") != 1 {
				t.Fatalf("stdout %q is not a line of JSON: %v", stdout, err)
			}
			message, _ := line.Error["message"].(string)
			delete(line.Error, "message")
			if code != tt.code || message == "" || !strings.Contains(stderr, message) {
				t.Errorf("code %d, message %q, stderr %q, want %d and the same message", code, message, stderr, tt.code)
			}
			if diff := cmp.Diff(tt.want, line.Error); diff != "" {
				t.Errorf("error (-want +got):\n%s", diff)
			}
			if (tt.code == exitTooLate) != (line.Gate == "hounds") {
				t.Errorf("stdout %q, want the gate's state only if it is not released in time", stdout)
			}
		})
	}
}

// TestInterrupted checks the exit codes of commands that a signal ends.
func TestInterrupted(t *testing.T) {
	address := serving(t, answer{202, "application/json", `{"gate":"hounds","released":false,"generation":4,"releases":1}`, nil})
	for _, tt := range []struct {
		cause error
		code  int
		want  string
	}{
		{interrupted{os.Interrupt}, 130, "interrupted"},
		{interrupted{syscall.SIGTERM}, 143, "terminated"},
		{nil, 130, "interrupted"},
	} {
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(tt.cause)
		for _, args := range [][]string{
			{"gate", "wait", "hounds"}, {"next"}, {"channels", "list"}, {"blogs", "add", "news", "--title", "T", "--file", "-"},
		} {
			var stdout, stderr bytes.Buffer
			args = slices.Concat([]string{"kennel"}, args, []string{"--json", "--url", address})
			code := run(ctx, args, nil, blocked{}, &stdout, &stderr)
			if code != tt.code || !strings.Contains(stderr.String(), tt.want) || !strings.Contains(stdout.String(), `{"error":{"code":"interrupted"`) {
				t.Errorf("%v: code %d, stdout %q, stderr %q, want %d", args, code, stdout.String(), stderr.String(), tt.code)
			}
		}
	}
}

// blocked is a standard input on which nothing is typed.
type blocked struct{}

func (blocked) Read([]byte) (int, error) { select {} }
