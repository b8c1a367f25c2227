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
	for _, test := range []struct {
		name        string
		total, from int64
		deleted     int64
		elapsed     time.Duration
		still       time.Duration
		want        string
	}{
		{"just begun", 3000, 0, 1000, 500 * time.Millisecond, time.Second, "news: 1000 of 3000 blogs deleted"},
		{"under way", 3000, 0, 1000, 2 * time.Second, time.Second, "news: 1000 of 3000 blogs deleted, 500/s, 4s left"},
		{"nothing yet", 3000, 0, 0, 10 * time.Second, time.Second, "news: 0 of 3000 blogs deleted"},
		{"all counted", 3000, 0, 3000, 10 * time.Second, time.Second, "news: 3000 of 3000 blogs deleted, 300/s, 1s left"},
		{"more than were counted", 3000, 0, 3001, 10 * time.Second, time.Second, "news: 3001 blogs deleted, 300/s"},
		{"never counted", unknown, 0, 1, 10 * time.Second, time.Second, "news: 1 blog deleted, 0/s"},
		{"begun before", unknown, 5000, 7000, 10 * time.Second, time.Second, "news: 7000 blogs deleted, 200/s"},
		{"begun before, and still", unknown, 5000, 5000, 10 * time.Second, time.Second, "news: 5000 blogs deleted"},
		{"for long", 1_000_000, 0, 10_000, 10 * time.Second, time.Second, "news: 10000 of 1000000 blogs deleted, 1000/s, 16m30s left"},
		{"stuck", 3000, 0, 1000, 100 * time.Second, stillAfter, "news: 1000 of 3000 blogs deleted, standing still for now"},
		{"never begun", unknown, 0, 0, 100 * time.Second, 100 * time.Second, "news: 0 blogs deleted, standing still for now"},
	} {
		w := watching{total: test.total, from: test.from}
		if got := w.describe(channels.Deletion{Channel: "news", Deleted: test.deleted}, test.elapsed, test.still); got != test.want {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
	}
}

// news is a channel behind an app that is answering.
func news(answers ...any) channelsRemote {
	return channelsRemote{remoteOf(answering(new([]string), answers...), new([]string)), "news"}
}

func deletionIs(state string, deleted int) answer {
	return answer{200, "application/json", fmt.Sprintf(`{"channel":"news","incarnation":"1","state":%q,"deleted":%d}`, state, deleted), nil}
}

// Outages are waited for; what cannot get better ends the watch.
func TestWatch(t *testing.T) {
	running := deletionAnswer{Deletion: channels.Deletion{Channel: "news", Incarnation: "1", State: channels.Running, Deleted: 1000}}
	lost := errors.New("reset by peer")
	for _, test := range []struct {
		name    string
		answers []any
		lines   []string // somewhere in what is said, in this order
		err     string
	}{
		{"done at once", []any{deletionIs("done", 3000)}, []string{"1000 of 3000"}, ""},
		{
			"outages", []any{lost, lost, appError(503, "storage_unavailable", nil), deletionIs("running", 2000), deletionIs("running", 2500), deletionIs("done", 3000)},
			[]string{"1000 of 3000", "reset by peer; waiting on", "503 storage_unavailable: so it is; waiting on", "of 3000 blogs deleted"}, "",
		},
		{
			"stuck for a while", append(slices.Repeat([]any{deletionIs("running", 2000)}, 10), deletionIs("running", 2500), deletionIs("done", 3000)),
			[]string{"1000 of 3000", "2000 of 3000 blogs deleted, 400/s", "2000 of 3000 blogs deleted, standing still for now"}, "",
		},
		{"the record is gone", []any{deletionIs("running", 2000), appError(404, "deletion_not_found", nil)}, nil, "404 deletion_not_found"},
		{"the key is wrong", []any{answer{401, "", "", nil}}, nil, "wants a function key"},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var errs bytes.Buffer
				con := &console{stderr: &errs, env: map[string]string{}}
				app := news(test.answers...)
				d, err := app.watch(t.Context(), con, running, watching{total: 3000, began: time.Now()})
				expectError(t, "watch", err, test.err)
				if err == nil && (d.Deleted != 3000 || d.State != channels.Done) {
					t.Errorf("got %+v, want it done", d.Deletion)
				}
				rest := errs.String()
				for _, line := range test.lines {
					_, after, found := strings.Cut(rest, line)
					if !found {
						t.Errorf("it said %q, want %q in it", errs.String(), test.lines)
					}
					rest = after
				}
				if strings.Count(errs.String(), "reset by peer") > 1 {
					t.Errorf("it said the same trouble again: %q", errs.String())
				}
				if strings.ContainsAny(errs.String(), "\r\x1b") {
					t.Errorf("it steers a terminal that is none: %q", errs.String())
				}
			})
		})
	}
}

// On a terminal the line is written over, and is gone in the end.
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

// A channel is counted page by page, but neither for long nor at any price.
func TestCountBlogs(t *testing.T) {
	page := func(n int, blog, continuation string) answer {
		return answer{200, "application/json", `{"items":[` + strings.Join(slices.Repeat([]string{blog}, n), ",") + `],"continuation":"` + continuation + `"}`, nil}
	}
	long := `{"text":"` + strings.Repeat("a", 256<<10-11) + `"}`
	busy := appError(503, "storage_unavailable", map[string]string{"Retry-After": "20"})
	for _, test := range []struct {
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
		t.Run(test.name, func(t *testing.T) {
			if test.name == "long ones" {
				storetest.OnlyInProve(t) // 16 MB of JSON
			}
			synctest.Test(t, func(t *testing.T) {
				asked := 0
				app := news(test.answers...)
				answers := app.client.Transport.(tripper)
				app.client.Transport = tripper(func(r *http.Request) (answer, error) {
					asked++
					if err := pause(r.Context(), 1200*time.Millisecond); err != nil {
						return answer{}, err
					}
					return answers(r)
				})
				n, all, err := app.countBlogs(t.Context())
				if err != nil || n != test.want || all != test.all || asked != test.asked {
					t.Errorf("%d, %v, %v after %d requests, want %d, %v after %d", n, all, err, asked, test.want, test.all, test.asked)
				}
			})
		})
	}
}

// What is deleted is the very channel that was found and shown.
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

// The channel that has the name now is not the one whose deletion is asked for.
func TestShowIncarnation(t *testing.T) {
	for _, test := range []struct {
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
		err := showChannel(t.Context(), con, app, channelOptions{incarnation: test.incarnation, watch: test.incarnation == "1"})
		expectError(t, "incarnation "+test.incarnation, err, test.err)
		if !strings.HasPrefix(out.String(), test.want) {
			t.Errorf("incarnation %q: %q, want %q", test.incarnation, out.String(), test.want)
		}
	}
}
