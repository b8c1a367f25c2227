package parts

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"kennel/internal/apptest"
	"kennel/internal/azure"
	"kennel/internal/customhandler"
	"kennel/internal/edge"
	"kennel/internal/observe"
	"kennel/internal/storetest"
)

// counted counts requests as storage does: a transaction is one.
type counted struct {
	next http.RoundTripper
	sent atomic.Int64
}

func (c *counted) RoundTrip(r *http.Request) (*http.Response, error) {
	c.sent.Add(1)
	return c.next.RoundTrip(r)
}

// TestStorageRequestsOfCalls: no call costs more than docs/operations.md
// states.
func TestStorageRequestsOfCalls(t *testing.T) {
	t.Parallel()
	account := azure.Account{ConnectionString: storetest.Storage(t).ConnectionString()}
	counted := &counted{next: http.DefaultTransport}
	log := slog.New(slog.DiscardHandler)
	e := &environment{account: account, transport: &http.Client{Transport: counted}, meter: &observe.Meter{}, log: log}
	c, err := newChannels(e)
	if err != nil {
		t.Fatal(err)
	}
	host, err := customhandler.New(&customhandler.Options{Log: log})
	if err != nil {
		t.Fatal(err)
	}
	edge.ServeRoutes(host, c.Serves.Routes())
	const withKey = apptest.Draft + " " // differs from the others
	call := func(method, path, body string) (answer struct{ Blog, ETag string }, cost int64) {
		t.Helper()
		r := httptest.NewRequestWithContext(t.Context(), method, "/api/channels"+path, strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		if strings.Contains(path, "/blogs/") && method != "GET" {
			r.Header.Set("If-Match", "*")
		}
		if body == withKey {
			r.Header.Set("Idempotency-Key", "k")
		}
		before := counted.sent.Load()
		w := apptest.ServeDescribed(t, host, r, body)
		if w.Code/100 != 2 {
			t.Fatalf("%s %s: %d %s", method, path, w.Code, w.Body)
		}
		if w.Body.Len() > 0 {
			if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil {
				t.Fatal(err)
			}
		}
		return answer, counted.sent.Load() - before
	}

	for round := range 2 {
		path, blog := "/"+storetest.Name(), ""
		for _, step := range []struct {
			what, method, path, body string
			most                     int64
		}{
			{"PUT a new channel", "PUT", path, `{"owner":"ann"}`, 4},
			{"PUT a channel that is there", "PUT", path, `{"owner":"ann"}`, 1},
			{"GET a channel", "GET", path, "", 1},
			{"GET a short list of channels", "GET", "?top=1", "", 1},
			{"POST a blog", "POST", path + "/blogs", apptest.Draft, 2},
			{"GET a blog", "GET", path + "/blogs/", "", 2},
			{"PUT a blog", "PUT", path + "/blogs/", apptest.Draft, 2},
			{"GET a short list of blogs", "GET", path + "/blogs?top=1", "", 2},
			{"GET a short list of the newest blogs", "GET", path + "/blogs?order=newest&top=1", "", 3},
			{"DELETE a blog", "DELETE", path + "/blogs/", "", 2},
			{"POST a blog with a key", "POST", path + "/blogs", withKey, 4}, // one in 32 looks for expired keys
			{"POST it again", "POST", path + "/blogs", withKey, 4},
			{"DELETE a channel with one blog and its key", "DELETE", path, "", 10},
			{"DELETE it again", "DELETE", path, "", 2},
			{"GET the record of a deletion", "GET", path + "/deletion", "", 1},
		} {
			address := step.path
			if strings.HasSuffix(address, "/blogs/") {
				address += blog
			}
			answer, cost := call(step.method, address, step.body)
			if answer.Blog != "" {
				blog = answer.Blog
			}
			if round == 0 {
				continue // it creates tables and queue, too
			}
			if cost > step.most {
				t.Errorf("%s: %d storage requests, want at most %d", step.what, cost, step.most)
			}
			t.Logf("figure: storage requests: %s | %d | ≤ %d", step.what, cost, step.most)
		}
	}
}
