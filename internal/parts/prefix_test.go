package parts

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"kennel/devstore"
	"kennel/internal/attempt"
	"kennel/internal/azure"
	"kennel/internal/config"
	"kennel/internal/program"
	"kennel/internal/storetest"
)

// sharing is a program that shares an account with others.
type sharing struct {
	*Running
	prefix string
	ended  chan error

	mu   sync.Mutex
	done []string // what it worked on; guarded by mu
}

func (s *sharing) did(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.done = append(s.done, what)
}

// share starts a program as a worker.
func share(ctx context.Context, t *testing.T, store *devstore.Store, name, prefix string) *sharing {
	t.Helper()
	s := &sharing{prefix: prefix, ended: make(chan error, 1)}
	d := &program.Declared{
		Name: name,
		Queues: []*program.Queue{{Name: "emails", Handled: 1, Concurrency: 2, MaxAttempts: 2, Timeout: time.Minute, Raw: true,
			Retry: func(int, error) time.Duration { return time.Second },
			Work: func(_ context.Context, body []byte) error {
				s.did(string(body))
				if strings.HasPrefix(string(body), "bad") {
					return attempt.Reject(nil)
				}
				return nil
			}}},
		Timers: []*program.Timer{{Name: "nightly", Schedule: "0 3 1 1 *", Zone: "UTC", MaxAttempts: 2, Timeout: time.Minute, Work: func(context.Context) error {
			s.did("timer")
			return nil
		}}},
		Processors: []*program.Processor{{Name: "thumbnails", Check: func([]byte) error { return nil }, Work: func(_ context.Context, item []byte) ([]byte, error) {
			s.did("item " + string(item))
			return []byte("1"), nil
		}}},
	}
	for _, part := range []program.Part{program.Numbers, program.Gates, program.Batches, program.Channels} {
		d.Use(part)
	}
	cfg, err := config.Load(map[string]string{"AzureWebJobsStorage": store.InProcess(), "KENNEL_PREFIX": prefix})
	if err != nil {
		t.Fatal(err)
	}
	if s.Running, err = Open(cfg, d, Outside{Transport: &http.Client{Transport: store}}, func(error) {}, slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	go func() {
		err := s.Program.Work(ctx, func() {})
		if closing := s.Program.Close(context.WithoutCancel(ctx)); err == nil {
			err = closing
		}
		s.ended <- err
	}()
	return s
}

func (s *sharing) call(t *testing.T, method, path, kind, body string, want int) string {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
	if kind != "" {
		r.Header.Set("Content-Type", kind)
	}
	w := httptest.NewRecorder()
	s.Program.Host.ServeHTTP(w, r)
	if w.Code != want {
		t.Errorf("prefix %q: %s %s: %d %s", s.prefix, method, path, w.Code, w.Body)
	}
	return w.Body.String()
}

// TestPrefixes: programs with other prefixes, of one name and of several, share an
// account and see nothing of each other: no message, dead letter, number, gate,
// timer, batch or channel. All names that they show are without the prefix.
func TestPrefixes(t *testing.T) {
	storetest.OnlyInProve(t)
	synctest.Test(t, func(t *testing.T) {
		store, err := devstore.Open("", nil)
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		ctx, stop := context.WithCancel(t.Context())
		var all []*sharing
		for _, p := range [][2]string{{"shop", ""}, {"shop", "aa"}, {"shop", "bb2"}, {"mailer", "aab"}} {
			all = append(all, share(ctx, t, store, p[0], p[1]))
		}
		time.Sleep(time.Minute)
		for i, s := range all { // each has another count of everything
			for n := range i + 1 {
				s.call(t, "POST", "/api/queues/emails/messages", "text/plain", fmt.Sprintf("mail %s %d", s.prefix, n), 202)
				s.call(t, "POST", "/api/queues/emails/messages", "text/plain", fmt.Sprintf("bad %s %d", s.prefix, n), 202)
				s.call(t, "POST", fmt.Sprintf("/api/gates/gate%s%d/release", s.prefix, n), "", "", 200)
				if answer := s.call(t, "POST", "/api/sequences/orders/next", "", "", 200); !strings.Contains(answer, fmt.Sprintf(`"last":%d`, n+1)) {
					t.Errorf("prefix %q: number %d: %s", s.prefix, n+1, answer)
				}
				s.call(t, "POST", "/api/batches?processor=thumbnails", "application/x-ndjson", fmt.Sprintf("{\"id\":\"%s%d\"}\n", s.prefix, n), 202)
				s.call(t, "PUT", fmt.Sprintf("/api/channels/c%s%d", s.prefix, n), "application/json", `{"owner":"ann"}`, 201)
			}
		}
		all[1].call(t, "POST", "/api/timers/nightly/run", "", "", 202)
		time.Sleep(10 * time.Minute)
		for i, s := range all {
			s.check(t, i+1)
		}
		stop()
		for _, s := range all {
			if err := <-s.ended; err != nil {
				t.Errorf("prefix %q: %v", s.prefix, err)
			}
		}
		storedApart(t, store)
	})
}

// check checks that a program knows its own things alone: n of each kind.
func (s *sharing) check(t *testing.T, n int) {
	t.Helper()
	want := []string{}
	for i := range n {
		want = append(want, fmt.Sprintf("bad %s %d", s.prefix, i), fmt.Sprintf("item {\"id\":\"%s%d\"}", s.prefix, i), fmt.Sprintf("mail %s %d", s.prefix, i))
	}
	if s.prefix == "aa" {
		want = append(want, "timer")
	}
	s.mu.Lock()
	got := slices.Sorted(slices.Values(s.done))
	s.mu.Unlock()
	if slices.Sort(want); !slices.Equal(got, want) {
		t.Errorf("prefix %q worked on %q, want %q", s.prefix, got, want)
	}
	for path, once := range map[string]string{"/api/gates": `"gate":`, "/api/channels": `"channel":`, "/api/batches": `"processor":`} {
		answer := s.call(t, "GET", path, "", "", 200)
		if count := strings.Count(answer, once); count != n {
			t.Errorf("prefix %q: %s has %d, want %d: %s", s.prefix, path, count, n, answer)
		}
	}
	letters := s.call(t, "GET", "/api/deadletters/emails-poison", "", "", 200)
	if count := strings.Count(letters, `"id":`); count != n {
		t.Errorf("prefix %q: %d dead letters, want %d: %s", s.prefix, count, n, letters)
	}
	if timer := s.call(t, "GET", "/api/timers/nightly", "", "", 200); strings.Contains(timer, `"outcome":"done"`) != (s.prefix == "aa") {
		t.Errorf("prefix %q: %s", s.prefix, timer)
	}
	if s.prefix == "" {
		return // which lists the queues of all
	}
	for _, path := range []string{"/api/queues", "/api/deadletters", "/api/status", "/api/metrics", "/api/queues/emails", "/api/doctor"} {
		if answer := s.call(t, "GET", path, "", "", 200); strings.Contains(strings.ReplaceAll(answer, "prefix "+s.prefix, ""), s.prefix+"-") || strings.Contains(answer, s.prefix+"Instances") {
			t.Errorf("prefix %q: %s has it in a name: %s", s.prefix, path, answer)
		}
	}
	if list := s.call(t, "GET", "/api/deadletters", "", "", 200); strings.Count(list, `"queue":`) != 1 || !strings.Contains(list, `"emails-poison"`) {
		t.Errorf("prefix %q: dead letters %s", s.prefix, list)
	}
}

// storedApart checks the names in storage.
func storedApart(t *testing.T, store *devstore.Store) {
	t.Helper()
	queues, err := azure.Account{ConnectionString: store.InProcess()}.OpenQueues(&azure.Options{HTTP: &http.Client{Transport: store}})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"emails-poison", "aa-emails-poison", "bb2-emails-poison", "aab-emails-poison"} {
		if n, err := queues.Count(t.Context(), name); err != nil || n == 0 {
			t.Errorf("queue %s has %d messages, %v", name, n, err)
		}
	}
	if all, err := queues.List(t.Context(), "aa-aa"); err != nil || len(all) > 0 {
		t.Errorf("queues with two prefixes: %q, %v", all, err)
	}
}
