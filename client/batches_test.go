package client_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"kennel/client"
	"kennel/internal/storetest"
)

func batchIs(status int, state string, done int, more ...string) answer {
	body := fmt.Sprintf(`{"batch":"20261122-a","name":"","processor":"billing","state":%q,"items":3,"done":%d%s}`, state, done, strings.Join(more, ""))
	return answer{status, "application/json", body, nil}
}

func packed(t *testing.T, text string) string {
	t.Helper()
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	if _, err := z.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// TestSubmitOnTheWire checks that a body arrives whole, with its length, and
// compressed only if that is useful and not done yet.
func TestSubmitOnTheWire(t *testing.T) {
	long := strings.Repeat(`{"id":"a"}`+"\n", 1000)
	for _, test := range []struct {
		name, body string
		array      bool
		plain      bool   // it is sent as it is
		kind       string // the content type
	}{
		{"short", `{"id":"a"}`, false, true, "application/x-ndjson"},
		{"short array", `[{"id":"a"}]`, true, true, "application/json"},
		{"long", long, false, false, "application/x-ndjson"},
		{"long array", "[" + strings.ReplaceAll(strings.TrimSpace(long), "\n", ",") + "]", true, false, "application/json"},
		{"compressed", packed(t, long), false, true, "application/x-ndjson"},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			if err != nil || r.ContentLength != int64(len(body)) || r.TransferEncoding != nil {
				t.Errorf("%s: length %d of %d bytes, %v, %v", test.name, r.ContentLength, len(body), r.TransferEncoding, err)
			}
			if !test.plain {
				z, err := gzip.NewReader(bytes.NewReader(body))
				if err != nil {
					t.Errorf("%s: %v", test.name, err)
				} else if body, err = io.ReadAll(z); err != nil {
					t.Errorf("%s: %v", test.name, err)
				}
			}
			same(t, test.name, test.body, string(body))
			same(t, test.name, []string{test.kind, "", "/api/batches?name=a+%26+b&processor=billing"},
				[]string{r.Header.Get("Content-Type"), r.Header.Get("Content-Encoding"), r.RequestURI})
			batchIs(202, "submitting", 0).write(w)
		}))
		c, err := client.New(server.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		// The reader's length is not known, and it returns little at once.
		from := iotest.HalfReader(strings.NewReader(test.body))
		b, err := c.SubmitBatch(t.Context(), client.Submission{Processor: "billing", Name: "a & b", Body: from, Array: test.array})
		if err != nil || b.ID != "20261122-a" || b.Finished() {
			t.Errorf("%s: %+v, %v", test.name, b, err)
		}
		server.Close()
	}
}

// TestSubmitIsRepeated checks that the repeats of a submission have its key and
// its whole body, and that another submission has another key.
func TestSubmitIsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, c := playing(t, io.EOF, appError(503, "storage_unavailable", after("5")), batchIs(202, "running", 0))
		for range 2 {
			if _, err := c.SubmitBatch(t.Context(), client.Submission{Processor: "billing", Body: strings.NewReader(`{"id":"a"}`)}); err != nil {
				t.Fatal(err)
			}
		}
		first, rest, _ := strings.Cut(a.asked[0], " key ")
		if key, body, _ := strings.Cut(rest, " "); first != "POST /batches?processor=billing" || len(key) < 26 || body != `{"id":"a"}` {
			t.Errorf("asked %q, want the batch with a long random key", a.asked[0])
		}
		if len(a.asked) != 4 || a.asked[1] != a.asked[0] || a.asked[2] != a.asked[0] || a.asked[3] == a.asked[0] {
			t.Errorf("asked %q, want three times the same, and then with another key", a.asked)
		}
	})
}

func TestSubmitErrors(t *testing.T) {
	submission := func() client.Submission {
		return client.Submission{Processor: "billing", Key: "k", Body: strings.NewReader("{}")}
	}
	_, c := playing(t, answer{400, "application/json", `{"error":{"code":"bad_items","message":"Two.","items":[{"line":2,"message":"no id"},{"line":7,"message":"no sku"}]}}`, nil})
	_, err := c.SubmitBatch(t.Context(), submission())
	if e, ok := errors.AsType[*client.Error](err); !ok || e.Code != "bad_items" {
		t.Errorf("got %v, want bad_items", err)
	} else {
		same(t, "items", []client.BadItem{{Line: 2, Message: "no id"}, {Line: 7, Message: "no sku"}}, e.Items)
	}

	_, c = playing(t, ok(`{}`))
	_, err = c.SubmitBatch(t.Context(), submission())
	expectError(t, "no batch", err, "it is not a batch; the batch may have been submitted")

	synctest.Test(t, func(t *testing.T) {
		a, c := playing(t, batchIs(202, "running", 0))
		a.takes = time.Hour
		_, err := c.SubmitBatch(t.Context(), submission())
		expectError(t, "no answer", err, "waited for 1m40s; the batch may have been submitted")
		if !errors.Is(err, client.ErrUnclear) {
			t.Errorf("got %v, want it unclear", err)
		}
	})

	// No request is sent for what is invalid or cannot be read.
	a, c := playing(t, ok("{}"))
	for name, s := range map[string]client.Submission{
		"no processor": {Body: strings.NewReader("{}")},
		"no items":     {Processor: "billing", Body: strings.NewReader("")},
		"name":         {Processor: "billing", Name: "\xff", Body: strings.NewReader("{}")},
		"key":          {Processor: "billing", Key: "two words", Body: strings.NewReader("{}")},
	} {
		if _, err := c.SubmitBatch(t.Context(), s); !errors.Is(err, client.ErrInvalid) {
			t.Errorf("%s: %v, want it invalid", name, err)
		}
	}
	for name, after := range map[string]string{"at once": "", "later": strings.Repeat("a", 10_000)} {
		broken := io.MultiReader(strings.NewReader(after), iotest.ErrReader(errReset))
		if _, err := c.SubmitBatch(t.Context(), client.Submission{Processor: "billing", Body: broken}); !errors.Is(err, errReset) {
			t.Errorf("broken %s: %v, want the error of the reader", name, err)
		}
	}
	same(t, "requests", []string(nil), a.asked)
}

// TestSubmitTooLong checks that a body that no host accepts is not sent, and
// not kept whole in memory.
func TestSubmitTooLong(t *testing.T) {
	storetest.OnlyInProve(t) // 100 MiB
	a, c := playing(t, ok("{}"))
	endless := io.MultiReader(strings.NewReader("\x1f\x8b"), zeros{})
	_, err := c.SubmitBatch(t.Context(), client.Submission{Processor: "billing", Body: endless})
	expectError(t, "endless", err, "longer than 100 MiB after compression")
	if !errors.Is(err, client.ErrInvalid) || len(a.asked) > 0 {
		t.Errorf("got %v after %d requests, want it invalid", err, len(a.asked))
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func TestReadBatches(t *testing.T) {
	ctx := t.Context()
	finished := batchIs(200, "done", 2, `,"rejected":1,"finishedAt":"2026-11-22T21:06:13Z","lateBy":1.5,"storageOperations":40,"modelled":true`)
	a, c := playing(t, finished)
	b, err := c.Batch(ctx, "20261122-a")
	if err != nil || !b.Finished() || b.FinishedAt == nil || b.LateBy != 1.5 || b.StorageOperations != 40 || !b.Modelled || string(b.JSON()) != finished.body {
		t.Errorf("batch %+v, %v", b, err)
	}
	_, err = c.Batch(ctx, "other")
	expectError(t, "another batch", err, `it is not batch "other"`)
	_, err = c.Batch(ctx, "")
	expectError(t, "no name", err, "is empty")
	same(t, "requests", []string{"GET /batches/20261122-a", "GET /batches/other"}, a.asked)

	a, c = playing(t, ok(`{"items":[{"batch":"a"},{"batch":"b"}],"continuation":"x"}`), ok(`{"items":[{"batch":"c"}]}`))
	var names []string
	for b, err := range c.NewestBatches(ctx) {
		names = append(names, fmt.Sprint(b.ID, err))
	}
	for range c.Batches(ctx) {
	}
	same(t, "batches", []string{"a<nil>", "b<nil>", "c<nil>"}, names)
	same(t, "requests", []string{"GET /batches?top=100&order=newest", "GET /batches?top=100&continuation=x&order=newest", "GET /batches?top=100"}, a.asked)

	a, c = playing(t, ok(`{"items":[{"id":"1","outcome":"done","result":{"amount":"1.00"}}],"continuation":"x"}`),
		ok(`{"items":[{"id":"2","outcome":"rejected","error":"too large"}]}`), appError(404, "batch_not_found", nil))
	var results []string
	for r, err := range c.BatchResults(ctx, "a") {
		results = append(results, fmt.Sprint(r.ID, r.Outcome, string(r.Result), r.Error, err))
	}
	same(t, "results", []string{`1done{"amount":"1.00"}<nil>`, `2rejectedtoo large<nil>`}, results)
	same(t, "requests", []string{"GET /batches/a/results?top=1000", "GET /batches/a/results?top=1000&continuation=x"}, a.asked)
	for _, err := range c.BatchResults(ctx, "b") {
		expectError(t, "no batch", err, "404 batch_not_found")
	}
	for _, err := range c.BatchResults(ctx, "..") {
		expectError(t, "no name", err, "cannot have the name")
	}

	// A page of the results with an outcome may be empty, although others follow.
	a, c = playing(t, ok(`{"items":[],"continuation":"x"}`), ok(`{"items":[{"id":"2","outcome":"rejected","error":"too large"}]}`))
	results = nil
	for r, err := range c.BatchResultsWith(ctx, "a", client.ItemRejected) {
		results = append(results, fmt.Sprint(r.ID, r.Outcome, err))
	}
	same(t, "results", []string{"2rejected<nil>"}, results)
	same(t, "requests", []string{"GET /batches/a/results?top=1000&outcome=rejected", "GET /batches/a/results?top=1000&continuation=x&outcome=rejected"}, a.asked)
	for _, err := range c.BatchResultsWith(ctx, "", client.ItemDone) {
		expectError(t, "no name", err, "is empty")
	}
}

// TestBatchReport checks that only a report is written.
func TestBatchReport(t *testing.T) {
	const text = "account,currency,amount,items\r\nacme,EUR,1.00,2\r\n"
	for _, test := range []struct {
		name    string
		format  client.ReportFormat
		answers []any
		want    string
		err     string
	}{
		{"JSON", client.ReportJSON, []any{ok("{\"batch\":\"a\"}\n")}, "{\"batch\":\"a\"}\n", ""},
		{"CSV", client.ReportCSV, []any{answer{200, "text/csv; charset=utf-8", text, nil}}, text, ""},
		{"CSV at the second attempt", client.ReportCSV, []any{io.ErrUnexpectedEOF, answer{200, "text/csv", text, nil}}, text, ""},
		{"still running", client.ReportCSV, []any{appError(409, "batch_running", nil)}, "", "409 batch_running"},
		{"a sign-in page", client.ReportCSV, []any{answer{200, "text/html", "<h1>", nil}}, "", `content type "text/html" instead of text/csv`},
	} {
		synctest.Test(t, func(t *testing.T) {
			a, c := playing(t, test.answers...)
			var out bytes.Buffer
			expectError(t, test.name, c.BatchReport(t.Context(), "a", test.format, &out), test.err)
			same(t, test.name, test.want, out.String())
			request := "GET /batches/a/report"
			if test.format != client.ReportJSON {
				request += " as text/csv"
			}
			same(t, test.name, slices.Repeat([]string{request}, len(test.answers)), a.asked)
		})
	}
	_, c := playing(t, ok("{}"))
	expectError(t, "no name", c.BatchReport(t.Context(), "", client.ReportJSON, io.Discard), "is empty")
}

func TestWatchBatch(t *testing.T) {
	begin := client.Batch{ID: "20261122-a", State: client.BatchSubmitting}
	for _, test := range []struct {
		name    string
		answers []any
		states  []string
		said    []string
		err     string
	}{
		{"to its end", []any{batchIs(200, "running", 1), batchIs(200, "held", 1), batchIs(200, "gathering", 3), batchIs(200, "done", 3)},
			[]string{"submitting", "running", "held", "gathering", "done"}, nil, ""},
		{"to a failure", []any{batchIs(200, "failed", 1)}, []string{"submitting", "failed"}, nil, ""},
		{"outages", []any{errReset, appError(503, "storage_unavailable", nil), batchIs(200, "done", 3)}, []string{"submitting", "submitting", "submitting", "done"},
			[]string{"no response from http://app.example: reset by peer; still waiting", "the app returned 503 storage_unavailable: broken; still waiting", "the app responds again"}, ""},
		{"it was removed", []any{batchIs(200, "running", 1), appError(404, "batch_not_found", nil)}, []string{"submitting", "running", "running"}, nil, "404 batch_not_found"},
	} {
		synctest.Test(t, func(t *testing.T) {
			a, c := playing(t, test.answers...)
			var states []string
			var last error
			for b, err := range c.WatchBatch(t.Context(), begin) {
				states, last = append(states, b.State), err
			}
			expectError(t, test.name, last, test.err)
			same(t, test.name, test.states, states)
			same(t, test.name, test.said, a.said)
		})
	}
	synctest.Test(t, func(t *testing.T) {
		_, c := playing(t, batchIs(200, "held", 1))
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		var last error
		for _, err := range c.WatchBatch(ctx, begin) {
			last = err
		}
		if !errors.Is(last, context.DeadlineExceeded) {
			t.Errorf("the watch ended with %v, want the context's error", last)
		}
	})
}

// TestSubmitAboveTheLimitOfTheHost: the host answers an upload that is too long
// for it with 500 and no body. That is explained, and not repeated.
func TestSubmitAboveTheLimitOfTheHost(t *testing.T) {
	long := append([]byte("\x1f\x8b"), make([]byte, 8<<20)...)
	a, c := playing(t, answer{status: 500})
	_, err := c.SubmitBatch(t.Context(), client.Submission{Processor: "billing", Body: bytes.NewReader(long)})
	expectError(t, "too long for the host", err, "upload of 8.0 MiB, which is probably more than its Functions host accepts (FUNCTIONS_REQUEST_BODY_SIZE_LIMIT, 8 MiB as deployed)")
	same(t, "requests", 1, len(a.asked))
}
