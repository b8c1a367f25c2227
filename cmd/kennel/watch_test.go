package main

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"kennel/channels"
	"kennel/internal/storetest"
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
		if got := w.describe(channels.Deletion{Channel: "news", Deleted: tt.deleted}, tt.elapsed, tt.idle); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

// news returns a channel of an app that returns the answers.
func news(answers ...any) channelsRemote {
	return channelsRemote{remoteOf(answering(new([]string), answers...), new([]string)), "news"}
}

func deletionIs(state string, deleted int) answer {
	return answer{200, "application/json", fmt.Sprintf(`{"channel":"news","incarnation":"1","state":%q,"deleted":%d}`, state, deleted), nil}
}

// TestWatch checks that a watch continues through outages and ends at a
// permanent error.
func TestWatch(t *testing.T) {
	running := deletionAnswer{Deletion: channels.Deletion{Channel: "news", Incarnation: "1", State: channels.Running, Deleted: 1000}}
	lost := errors.New("reset by peer")
	for _, tt := range []struct {
		name    string
		answers []any
		lines   []string // substrings of the output, in this order
		err     string
	}{
		{"done at once", []any{deletionIs("done", 3000)}, []string{"1000 of 3000"}, ""},
		{
			"outages", []any{lost, lost, appError(503, "storage_unavailable", nil), deletionIs("running", 2000), deletionIs("running", 2500), deletionIs("done", 3000)},
			[]string{"1000 of 3000", "reset by peer; still waiting", "503 storage_unavailable: broken; still waiting", "of 3000 blogs deleted"}, "",
		},
		{
			"stuck for a while", append(slices.Repeat([]any{deletionIs("running", 2000)}, 10), deletionIs("running", 2500), deletionIs("done", 3000)),
			[]string{"1000 of 3000", "2000 of 3000 blogs deleted, 400/s", "2000 of 3000 blogs deleted, stalled"}, "",
		},
		{"the record was deleted", []any{deletionIs("running", 2000), appError(404, "deletion_not_found", nil)}, nil, "404 deletion_not_found"},
		{"wrong key", []any{answer{401, "", "", nil}}, nil, "requires a function key"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var errs bytes.Buffer
				con := &console{stderr: &errs, env: map[string]string{}}
				app := news(tt.answers...)
				d, err := app.watch(t.Context(), con, running, watching{total: 3000, began: time.Now()})
				expectError(t, "watch", err, tt.err)
				if err == nil && (d.Deleted != 3000 || d.State != channels.Done) {
					t.Errorf("got %+v, want it done", d.Deletion)
				}
				rest := errs.String()
				for _, line := range tt.lines {
					_, after, found := strings.Cut(rest, line)
					if !found {
						t.Errorf("output %q does not contain %q in this order", errs.String(), tt.lines)
					}
					rest = after
				}
				if strings.Count(errs.String(), "reset by peer") > 1 {
					t.Errorf("the same error was printed twice: %q", errs.String())
				}
				if strings.ContainsAny(errs.String(), "\r\x1b") {
					t.Errorf("control characters without a terminal: %q", errs.String())
				}
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

// TestCountBlogs checks that counting stops at its limits of time and size.
func TestCountBlogs(t *testing.T) {
	page := func(n int, blog, continuation string) answer {
		return answer{200, "application/json", `{"items":[` + strings.Join(slices.Repeat([]string{blog}, n), ",") + `],"continuation":"` + continuation + `"}`, nil}
	}
	long := `{"text":"` + strings.Repeat("a", 256<<10-11) + `"}`
	busy := appError(503, "storage_unavailable", map[string]string{"Retry-After": "20"})
	for _, tt := range []struct {
		name    string
		answers []any // each after 1.2 s
		want    int64
		all     bool
		asked   int
	}{
		{"none", []any{page(0, "{}", "")}, 0, true, 1},
		{"short and empty pages", []any{page(3, "{}", "a"), page(0, "{}", "b"), page(4, "{}", "")}, 7, true, 3},
		{"without end", []any{page(1000, "{}", "again")}, 4000, false, 5},
		{"long ones", []any{page(16, long, "again")}, 64, false, 5},
		{"an app that is busy", []any{page(5, "{}", "again"), busy}, 5, false, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.name == "long ones" {
				storetest.OnlyInProve(t) // 16 MB of JSON
			}
			synctest.Test(t, func(t *testing.T) {
				asked := 0
				app := news(tt.answers...)
				answers := app.client.Transport.(tripper)
				app.client.Transport = tripper(func(r *http.Request) (answer, error) {
					asked++
					if err := pause(r.Context(), 1200*time.Millisecond); err != nil {
						return answer{}, err
					}
					return answers(r)
				})
				n, all, err := app.countBlogs(t.Context())
				if err != nil || n != tt.want || all != tt.all || asked != tt.asked {
					t.Errorf("%d, %v, %v after %d requests, want %d, %v after %d", n, all, err, asked, tt.want, tt.all, tt.asked)
				}
			})
		})
	}
}

// TestDeleteIsConditional checks that the channel that was read is the one that
// is deleted.
func TestDeleteIsConditional(t *testing.T) {
	var conditions []string
	app := channelsRemote{remoteOf(func(r *http.Request) (answer, error) {
		conditions = append(conditions, r.Method+" "+r.URL.EscapedPath()+" "+r.Header.Get("If-Match"))
		if r.Method == http.MethodGet {
			return answer{200, "application/json", `{"channel":"a b","owner":"ann","incarnation":"1","etag":"\"1\""}`, nil}, nil
		}
		return answer{202, "application/json", `{"channel":"a b","incarnation":"1","state":"done","deleted":1}`, nil}, nil
	}, new([]string)), "a b"}
	var out bytes.Buffer
	con := &console{stdout: &out, stderr: &out, env: map[string]string{}}
	if err := deleteChannel(t.Context(), con, app, channelOptions{yes: true}); err != nil {
		t.Fatal(err)
	}
	if want := []string{"GET /api/channels/a%20b ", `DELETE /api/channels/a%20b "1"`}; !slices.Equal(conditions, want) {
		t.Errorf("asked %q, want %q", conditions, want)
	}
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
		app := channelsRemote{remoteOf(func(r *http.Request) (answer, error) {
			switch r.URL.RequestURI() {
			case "/api/channels/news":
				return answer{200, "application/json", `{"channel":"news","owner":"bob","incarnation":"2","etag":"\"2\""}`, nil}, nil
			case "/api/channels/news/deletion?incarnation=1":
				return deletionIs("done", 7), nil
			}
			return appError(404, "deletion_not_found", nil), nil
		}, new([]string)), "news"}
		var out bytes.Buffer
		con := &console{stdout: &out, stderr: new(bytes.Buffer), env: map[string]string{}}
		err := showChannel(t.Context(), con, app, channelOptions{incarnation: tt.incarnation, watch: tt.incarnation == "1"})
		expectError(t, "incarnation "+tt.incarnation, err, tt.err)
		if !strings.HasPrefix(out.String(), tt.want) {
			t.Errorf("incarnation %q: %q, want %q", tt.incarnation, out.String(), tt.want)
		}
	}
}
