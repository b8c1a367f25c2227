package edge

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"kennel/client"
	"kennel/internal/apptest"
	"kennel/internal/config"
	"kennel/internal/customhandler"
	"kennel/internal/principal"
)

// TestQuota: a process serves so many requests at once and a second, and answers
// the others before it has done anything. Another route is not affected.
func TestQuota(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		host, served := limitedRoutes(t)
		call := func(path string) (refused bool) {
			t.Helper()
			w := httptest.NewRecorder()
			before := *served
			host.ServeHTTP(w, httptest.NewRequest("POST", path, nil))
			refused = w.Code == 429
			if refused != strings.Contains(w.Body.String(), `"code":"too_many_requests"`) || refused != (w.Header().Get("Retry-After") == "1") || refused == (*served > before) {
				t.Errorf("%s: %d %v %s, served: %t", path, w.Code, w.Header(), w.Body, *served > before)
			}
			return refused
		}
		passed := func() (n int) {
			for !call("/api/limited/a") {
				n++
			}
			return n
		}
		for _, wait := range []struct {
			pause time.Duration
			want  int
		}{{0, QuotaBurst}, {0, 0}, {time.Second, QuotaPerSecond}, {time.Second / 2, QuotaPerSecond / 2}, {time.Millisecond, 0}, {time.Hour, QuotaBurst}} {
			time.Sleep(wait.pause)
			if n := passed(); n != wait.want {
				t.Errorf("%d requests were served after %v, want %d", n, wait.pause, wait.want)
			}
			if call("/api/other/a") || call("/api/free/a") {
				t.Error("another route is limited")
			}
		}
		if w := httptest.NewRecorder(); true {
			r := httptest.NewRequest("POST", "/api/limited/a?by=ann", nil)
			if host.ServeHTTP(w, r); w.Code != 400 {
				t.Errorf("an invalid request: %d, want 400 before the quota counts", w.Code)
			}
		}
	})
}

// TestQuotaOfConsole: the console and the API share a quota, and who may not make
// a call uses up nothing of it.
func TestQuotaOfConsole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		host, err := customhandler.New(nil)
		if err != nil {
			t.Fatal(err)
		}
		api := []Route{{Function: "A", Pattern: "POST /api/limited/{gate}", Quota: &Quota{}, Handler: Respond(func(error) *Fault { return nil }, func(*http.Request) (Reply, error) {
			return Reply{Status: http.StatusOK, Body: struct{}{}}, nil
		})}}
		log := slog.New(slog.DiscardHandler)
		ServeRoutes(host, api)
		ServeRoutes(host, NewPeople(config.Config{SignedIn: true}, log).Routes(api))
		calls := func(n int, path, header string) (last int) {
			for range n {
				r := httptest.NewRequest("POST", path, nil)
				r.Header.Set("X-Kennel-Console", "1")
				if header != "" {
					r.Header.Set(principal.Header, header)
				}
				w := httptest.NewRecorder()
				host.ServeHTTP(w, r)
				last = w.Code
			}
			return last
		}
		const people, machines = "/api/console/api/limited/a", "/api/limited/a"
		for _, tt := range []struct {
			name   string
			calls  int
			path   string
			header string
			want   int
		}{
			{"not signed in", 2 * QuotaBurst, people, "", 401},
			{"Reader", 2 * QuotaBurst, people, apptest.PrincipalOf("eve", "Reader"), 403},
			{"Operator", QuotaBurst / 2, people, apptest.PrincipalOf("ann", "Operator"), 200},
			{"the other half, with a key", QuotaBurst / 2, machines, "", 200},
			{"one more, with a key", 1, machines, "", 429},
			{"one more of Operator", 1, people, apptest.PrincipalOf("ann", "Operator"), 429},
			{"not signed in, then", 1, people, "", 401},
		} {
			if got := calls(tt.calls, tt.path, tt.header); got != tt.want {
				t.Errorf("%s: %d, want %d", tt.name, got, tt.want)
			}
		}
	})
}

// limitedRoutes returns routes with and without a quota, and how often they were
// served.
func limitedRoutes(t *testing.T) (host *customhandler.App, served *int) {
	host, err := customhandler.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	served = new(int)
	do := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		*served++
		WriteJSON(w, http.StatusOK, map[string]any{"gate": "a", "moved": 1000, "more": *served%1000 != 0})
	})
	ServeRoutes(host, []Route{
		{Function: "A", Pattern: "POST /api/limited/{gate}", Quota: &Quota{}, Handler: do},
		{Function: "A", Pattern: "POST /api/other/{gate}", Quota: &Quota{}, Handler: do},
		{Function: "A", Pattern: "POST /api/free/{gate}", Handler: do},
		{Function: "A", Pattern: "POST /api/gates/{gate}/release", Body: true, Quota: &Quota{}, Handler: do},
		{Function: "A", Pattern: "POST /api/deadletters/{queue}/redrive", Body: true, Quota: &Quota{}, Handler: do},
	})
	return host, served
}

// TestClientWaitsForQuota: a program that calls as fast as it can is held up, and
// no call fails. A redrive that a client repeats moves 20,000 dead letters a
// second before that.
func TestClientWaitsForQuota(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		host, _ := limitedRoutes(t)
		retries := 0
		c, err := client.New("http://app.example", &client.Options{HTTP: &http.Client{Transport: inProcess{host}}, Notify: func(n client.Notice) {
			retries++
			if !strings.HasPrefix(n.String(), "the app is busy; retrying in 1s (1 of ") {
				t.Errorf("notice %q", n)
			}
		}})
		if err != nil {
			t.Fatal(err)
		}
		for what, run := range map[string]func(ctx context.Context) error{
			"releases": func(ctx context.Context) error {
				for i := range 1000 {
					if gate, err := c.Release(ctx, "a", client.Change{Reason: fmt.Sprint(i)}); err != nil {
						return fmt.Errorf("release %d: %v, %w", i, gate, err)
					}
				}
				return nil
			},
			"redrives": func(ctx context.Context) error {
				calls := 0
				for _, err := range c.RepeatRedrive(ctx, "q-poison", client.DeadLetterSelection{All: true}) {
					if err != nil {
						return err
					}
					calls++
				}
				if calls != 1000 {
					return fmt.Errorf("%d calls, want 1000", calls)
				}
				return nil
			},
		} {
			began, before := time.Now(), retries
			if err := run(t.Context()); err != nil {
				t.Errorf("%s: %v", what, err)
			}
			const seconds = (1000 - QuotaBurst) / QuotaPerSecond
			if took := time.Since(began).Seconds(); took != seconds || retries-before != seconds {
				t.Errorf("1,000 %s took %v s with %d retries, want %d", what, took, retries-before, seconds)
			}
		}
	})
}

// inProcess carries requests to an app in this process.
type inProcess struct{ host http.Handler }

func (p inProcess) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	p.host.ServeHTTP(w, r)
	return w.Result(), nil
}
