package parts

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"kennel/internal/api"
	"kennel/internal/apptest"
	"kennel/internal/customhandler"
	"kennel/internal/edge"
	"kennel/internal/memory"
	"kennel/internal/worker"
	"kennel/queue"
	"kennel/work"
)

// apiOf returns the API of batches.
func apiOf(t *testing.T, m *memoryBatches) *customhandler.App {
	t.Helper()
	host, err := customhandler.New(&customhandler.Options{Log: m.BatchResource.Log})
	if err != nil {
		t.Fatal(err)
	}
	edge.ServeRoutes(host, m.Routes())
	m.Functions(host)
	return host
}

// batchAnswer is an answer about batches.
type batchAnswer struct {
	*httptest.ResponseRecorder
	work.Batch
	failed struct {
		Code, Message string
		Items         []work.ItemError
	}
}

// call makes a call of the API of batches.
func (m *memoryBatches) call(t *testing.T, host *customhandler.App, method, path, body string, header ...string) batchAnswer {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
	if body != "" {
		r.Header.Set("Content-Type", api.NdjsonMedia)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	a := batchAnswer{ResponseRecorder: apptest.ServeDescribed(t, host, r, body)}
	var got struct {
		Error struct {
			Code, Message string
			Items         []work.ItemError
		}
	}
	if a.Code >= 400 {
		if err := json.Unmarshal(a.Body.Bytes(), &got); err != nil {
			t.Errorf("%s %s: %s: %v", method, path, a.Body, err)
		}
		a.failed = got.Error
	} else if strings.HasPrefix(a.Body.String(), "{") {
		_ = json.Unmarshal(a.Body.Bytes(), &a.Batch) // of another kind than a batch
	}
	return a
}

// deliver does the work of all queues until they are empty, as a Functions host
// would.
func (m *memoryBatches) deliver(t *testing.T) {
	t.Helper()
	functions := map[string]func(context.Context, customhandler.QueueMessage) error{}
	for _, name := range WorkQueues(m.partitions) {
		functions[name] = m.parcels(name)
	}
	for range 1000 {
		left := 0
		for name, do := range functions {
			messages, err := m.queues.Receive(t.Context(), name, queue.MaxReceive, time.Minute)
			if err != nil {
				t.Fatal(err)
			}
			for _, q := range messages {
				text, err := worker.TextOf(q.Body)
				if err != nil {
					t.Fatal(err)
				}
				if err := do(t.Context(), customhandler.QueueMessage{Text: text, ID: q.ID, DequeueCount: q.DequeueCount}); err == nil {
					if err := m.queues.Delete(t.Context(), name, q); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
		for name := range functions {
			left += len(m.queues.All(name))
		}
		if left == 0 {
			return
		}
		time.Sleep(time.Second)
	}
	t.Fatal("the queues do not become empty")
}

// TestBatch follows a batch from its submission to its report.
func TestBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemoryBatches(t, memory.NewQueues(nil), nil)
		host := apiOf(t, m)
		const submit = "/api/batches?processor=billing&name=October"
		sent := m.call(t, host, "POST", submit, apptest.Items(1200), "Idempotency-Key", "k")
		if sent.Code != 202 || sent.Header().Get("Location") != "/api/batches/"+sent.ID || sent.Name != "October" || sent.Items != 1200 || sent.Header().Get("Cache-Control") != "no-store" {
			t.Fatalf("submitted: %d %v %s", sent.Code, sent.Header(), sent.Body)
		}
		if report := m.call(t, host, "GET", "/api/batches/"+sent.ID+"/report", ""); report.Code != 409 || report.failed.Code != "batch_running" {
			t.Errorf("the report before the end: %d %s", report.Code, report.Body)
		}
		if again := m.call(t, host, "POST", submit, apptest.Items(1200), "Idempotency-Key", "k"); again.Code != 202 || again.ID != sent.ID || again.Header().Get("Location") != sent.Header().Get("Location") {
			t.Errorf("submitted again: %d %s", again.Code, again.Body)
		}
		if other := m.call(t, host, "POST", submit, apptest.Items(3), "Idempotency-Key", "k"); other.Code != 409 || other.failed.Code != "key_reused" {
			t.Errorf("the key with another batch: %d %s", other.Code, other.Body)
		}
		array := "[" + apptest.Item(1) + "," + apptest.Item(2) + "]"
		small := m.call(t, host, "POST", "/api/batches?processor=billing", array, "Content-Type", "application/json")
		if small.Code != 202 || small.Items != 2 || len(m.queues.All(work.ExpressQueue)) != 1 {
			t.Errorf("an array: %d %s, and %d express messages", small.Code, small.Body, len(m.queues.All(work.ExpressQueue)))
		}
		m.deliver(t)
		done := m.call(t, host, "GET", "/api/batches/"+sent.ID, "")
		if done.Code != 200 || done.State != work.Done || done.Done != 1200 || done.FinishedAt == nil {
			t.Fatalf("the batch at the end: %d %s", done.Code, done.Body)
		}
		report := m.call(t, host, "GET", "/api/batches/"+sent.ID+"/report", "")
		if report.Code != 200 || report.Header().Get("Content-Type") != "application/json" || !strings.Contains(report.Body.String(), `"amount":"1500.00"`) {
			t.Errorf("report: %d %v %s", report.Code, report.Header(), report.Body)
		}
		if report = m.call(t, host, "GET", "/api/batches/"+sent.ID+"/report?safe=2", ""); report.Code != 400 || report.failed.Code != "bad_safe" {
			t.Errorf("another value of safe: %d %s", report.Code, report.Body)
		}
		if report = m.call(t, host, "GET", "/api/batches/"+sent.ID+"/report?safe=1", "", "Accept", "text/csv"); report.Code != 200 || !strings.HasPrefix(report.Body.String(), "account,") {
			t.Errorf("a safe report: %d %s", report.Code, report.Body)
		}
		report = m.call(t, host, "GET", "/api/batches/"+sent.ID+"/report", "", "Accept", "text/csv")
		if report.Code != 200 || report.Header().Get("Content-Type") != "text/csv; charset=utf-8" || !strings.HasPrefix(report.Body.String(), "account,currency,amount,items") {
			t.Errorf("report as CSV: %d %v %s", report.Code, report.Header(), report.Body)
		}
		for path, want := range map[string]int{"/api/batches?top=1": 1, "/api/batches?order=newest": 2, "/api/batches/" + sent.ID + "/results?top=1000": 1000, "/api/batches/" + sent.ID + "/results?outcome=done&top=7": 7, "/api/batches/" + sent.ID + "/results?outcome=failed": 0} {
			list := m.call(t, host, "GET", path, "")
			var page struct {
				Items        []json.RawMessage
				Continuation string
			}
			if err := json.Unmarshal(list.Body.Bytes(), &page); err != nil || list.Code != 200 || len(page.Items) == 0 && want > 0 || len(page.Items) > want {
				t.Errorf("%s: %d %.500s, want up to %d items", path, list.Code, list.Body, want)
			}
		}
		if problems := m.Problems(); len(problems) > 0 {
			t.Errorf("problems %+v", problems)
		}
	})
}

// TestBadBatches checks the errors of submissions. None of them queues
// anything.
func TestBadBatches(t *testing.T) {
	m := newMemoryBatches(t, memory.NewQueues(nil), nil, "KENNEL_BATCH_MAX_ITEMS=100")
	host := apiOf(t, m)
	for _, tt := range []struct {
		name, query, body, kind string
		status                  int
		code, text              string
		lines                   []int
	}{
		{"no processor", "", apptest.Items(1), api.NdjsonMedia, 400, "bad_processor", "billing, webhook", nil},
		{"unknown processor", "?processor=other", apptest.Items(1), api.NdjsonMedia, 400, "bad_processor", "", nil},
		{"name", "?processor=billing&name=a%0Ab", apptest.Items(1), api.NdjsonMedia, 400, "bad_name", "200 bytes", nil},
		{"long name", "?processor=billing&name=" + strings.Repeat("a", 201), apptest.Items(1), api.NdjsonMedia, 400, "bad_name", "", nil},
		{"no content type", "?processor=billing", apptest.Items(1), "", 415, "unsupported_media_type", "application/x-ndjson", nil},
		{"content type", "?processor=billing", apptest.Items(1), "text/plain", 415, "unsupported_media_type", "application/json", nil},
		{"charset", "?processor=billing", apptest.Items(1), "application/json; charset=latin1", 415, "unsupported_media_type", "utf-8", nil},
		{"no body", "?processor=billing", "", api.NdjsonMedia, 411, "length_required", "missing or empty", nil},
		{"no items", "?processor=billing", "\n", api.NdjsonMedia, 400, "bad_items", "no items", []int{}},
		{"bad item", "?processor=billing", apptest.Item(1) + "\n{}\n" + apptest.Item(2), api.NdjsonMedia, 400, "bad_items", "an invalid item", []int{2}},
		{"bad items", "?processor=billing", "[" + apptest.Item(1) + ",{},3]", "application/json", 400, "bad_items", "2 invalid items", []int{2, 3}},
		{"many bad items", "?processor=billing", strings.Repeat("{}\n", 50), api.NdjsonMedia, 400, "bad_items", "first 20", []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20}},
		{"too many", "?processor=billing", apptest.Items(101), api.NdjsonMedia, 413, "batch_too_large", "KENNEL_BATCH_MAX_ITEMS", nil},
		{"parameter", "?procesor=billing", apptest.Items(1), api.NdjsonMedia, 400, "bad_query", "Did you mean processor?", nil},
	} {
		got := m.call(t, host, "POST", "/api/batches"+tt.query, tt.body, "Content-Type", tt.kind)
		var lines []int
		for _, item := range got.failed.Items {
			lines = append(lines, item.Line)
		}
		if got.Code != tt.status || got.failed.Code != tt.code || !strings.Contains(got.failed.Message, tt.text) || fmt.Sprint(lines) != fmt.Sprint(tt.lines) {
			t.Errorf("%s: %d %s, want %d %s with %q and lines %v", tt.name, got.Code, got.Body, tt.status, tt.code, tt.text, tt.lines)
		}
	}
	for _, name := range WorkQueues(m.partitions) {
		if n := len(m.queues.All(name)); n > 0 {
			t.Errorf("%d messages in %s", n, name)
		}
	}
	for path, code := range map[string]string{
		"/none": "batch_not_found", "/20261122210601123-aaaaaaaa": "batch_not_found", "/none/results": "batch_not_found", "/none/report": "batch_not_found",
		"?order=random": "bad_order", "?top=0": "bad_top", "?continuation=x": "bad_continuation",
		"/20261122210601123-aaaaaaaa/results?outcome=perfect": "bad_outcome", "/20261122210601123-aaaaaaaa/results?outcome=": "bad_outcome",
	} {
		if got := m.call(t, host, "GET", "/api/batches"+path, ""); got.failed.Code != code {
			t.Errorf("GET %s: %d %s, want %s", path, got.Code, got.Body, code)
		}
	}
}
