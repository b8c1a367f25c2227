package main

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"kennel/client"
)

func TestDescribeWatching(t *testing.T) {
	for _, tt := range []struct {
		name        string
		total, from int64
		deleted     int64
		elapsed     time.Duration
		idle        time.Duration
		want        string
	}{
		{"just begun", 3000, 0, 1000, 500 * time.Millisecond, time.Second, "news: 1000 of 3000 blogs deleted"},
		{"under way", 3000, 0, 1000, 2 * time.Second, time.Second, "news: 1000 of 3000 blogs deleted, 500/s, 4s left"},
		{"nothing yet", 3000, 0, 0, 10 * time.Second, time.Second, "news: 0 of 3000 blogs deleted"},
		{"all deleted", 3000, 0, 3000, 10 * time.Second, time.Second, "news: 3000 of 3000 blogs deleted, 300/s, 1s left"},
		{"more than were counted", 3000, 0, 3001, 10 * time.Second, time.Second, "news: 3001 blogs deleted, 300/s"},
		{"never counted", unknown, 0, 1, 10 * time.Second, time.Second, "news: 1 blog deleted, 0/s"},
		{"begun before", unknown, 5000, 7000, 10 * time.Second, time.Second, "news: 7000 blogs deleted, 200/s"},
		{"begun before, no progress", unknown, 5000, 5000, 10 * time.Second, time.Second, "news: 5000 blogs deleted"},
		{"long remaining time", 1_000_000, 0, 10_000, 10 * time.Second, time.Second, "news: 10000 of 1000000 blogs deleted, 1000/s, 16m30s left"},
		{"stuck", 3000, 0, 1000, 100 * time.Second, stalledAfter, "news: 1000 of 3000 blogs deleted, stalled"},
		{"never begun", unknown, 0, 0, 100 * time.Second, 100 * time.Second, "news: 0 blogs deleted, stalled"},
	} {
		w := watching{total: tt.total, from: tt.from}
		if got := w.describe(client.Deletion{Channel: "news", Deleted: tt.deleted}, tt.elapsed, tt.idle); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

func deletionIs(state string, deleted int) answer {
	return answer{200, "application/json", fmt.Sprintf(`{"channel":"news","incarnation":"1","state":%q,"deleted":%d}`, state, deleted), nil}
}

// TestWatchDeletion checks that a watch continues through outages, and that it
// shows no progress without a terminal.
func TestWatchDeletion(t *testing.T) {
	running := client.Deletion{Channel: "news", Incarnation: "1", State: client.Running, Deleted: 1000}
	lost := errors.New("reset by peer")
	for _, tt := range []struct {
		name    string
		answers []any
		stderr  string
		err     string
	}{
		{"done at once", []any{deletionIs("done", 3000)}, "", ""},
		{"under way", []any{deletionIs("running", 2000), deletionIs("running", 2500), deletionIs("done", 3000)}, "", ""},
		{
			"outages", []any{lost, lost, appError(503, "storage_unavailable", nil), deletionIs("running", 2000), deletionIs("done", 3000)},
			"no response from http://app.example: reset by peer; still waiting\nthe app returned 503 storage_unavailable: broken; still waiting\nthe app responds again\n", "",
		},
		{"the record was deleted", []any{deletionIs("running", 2000), appError(404, "deletion_not_found", nil)}, "", "404 deletion_not_found"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var errs bytes.Buffer
				con := &console{stderr: &errs, env: map[string]string{}}
				d, err := con.watch(t.Context(), appOf(t, answering(tt.answers...), nil), running, watching{total: 3000, began: time.Now()})
				expectError(t, "watch", err, tt.err)
				if err == nil && (d.Deleted != 3000 || d.State != client.Done) {
					t.Errorf("got %+v, want it done", d)
				}
				same(t, "standard error", tt.stderr, errs.String())
			})
		})
	}
}

// TestProgressOnTerminal checks that the line is overwritten and cleared at the
// end.
func TestProgressOnTerminal(t *testing.T) {
	var out bytes.Buffer
	p := &progress{con: &console{stderr: &out}, terminal: true}
	p.show("a long line")
	p.show("short\x1b[2J")
	p.say("something else")
	p.show("again")
	p.end()
	want := "\ra long line" + "\rshort\ufffd[2J  " + "\r" + strings.Repeat(" ", 9) + "\rsomething else\n" + "\ragain\r     \r"
	if got := out.String(); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestDeleteIsConditional checks that the channel that was read is the one that
// is deleted.
func TestDeleteIsConditional(t *testing.T) {
	var conditions []string
	app := appOf(t, func(r *http.Request) (answer, error) {
		conditions = append(conditions, r.Method+" "+r.URL.EscapedPath()+" "+r.Header.Get("If-Match"))
		if r.Method == http.MethodGet {
			return answer{200, "application/json", `{"channel":"a b","owner":"ann","incarnation":"1","etag":"\"1\""}`, nil}, nil
		}
		return answer{202, "application/json", `{"channel":"a b","incarnation":"1","state":"done","deleted":1}`, nil}, nil
	}, nil)
	var out bytes.Buffer
	con := &console{stdout: &out, stderr: &out, env: map[string]string{}}
	if err := deleteChannel(t.Context(), con, app, "a b", channelOptions{yes: true}); err != nil {
		t.Fatal(err)
	}
	same(t, "requests", []string{"GET /api/channels/a%20b ", `DELETE /api/channels/a%20b "1"`}, conditions)
}

// TestShowIncarnation checks that a deletion is found although another channel
// has the name now.
func TestShowIncarnation(t *testing.T) {
	for _, tt := range []struct {
		incarnation string
		want, err   string
	}{
		{"", "news belongs to bob", ""},
		{"2", "news belongs to bob", ""},
		{"1", "news was deleted with 7 blogs", ""},
		{"0", "", "404 deletion_not_found"},
	} {
		app := appOf(t, func(r *http.Request) (answer, error) {
			switch r.URL.RequestURI() {
			case "/api/channels/news":
				return answer{200, "application/json", `{"channel":"news","owner":"bob","incarnation":"2","etag":"\"2\""}`, nil}, nil
			case "/api/channels/news/deletion?incarnation=1":
				return deletionIs("done", 7), nil
			}
			return appError(404, "deletion_not_found", nil), nil
		}, nil)
		var out bytes.Buffer
		con := &console{stdout: &out, stderr: new(bytes.Buffer), env: map[string]string{}}
		err := showChannel(t.Context(), con, app, "news", channelOptions{incarnation: tt.incarnation, watch: tt.incarnation == "1"})
		expectError(t, "incarnation "+tt.incarnation, err, tt.err)
		if !strings.HasPrefix(out.String(), tt.want) {
			t.Errorf("incarnation %q: %q, want %q", tt.incarnation, out.String(), tt.want)
		}
	}
}
