package faultproxy

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"
)

// fixture is a proxy before a storage that applies what reaches it.
type fixture struct {
	*Proxy
	applied []string // methods of the requests that reached storage; one at a time
	urls    map[string]string
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{urls: make(map[string]string)}
	storage := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		f.applied = append(f.applied, r.Method)
		w.Header().Set("ETag", r.Header.Get("x-echo"))
		w.WriteHeader(http.StatusCreated)
		io.WriteString(w, r.URL.RequestURI()+" "+string(body))
	}))
	t.Cleanup(storage.Close)
	var err error
	f.Proxy, err = Start("AccountName=a;BlobEndpoint=" + storage.URL + "/a;TableEndpoint=" + storage.URL + "/a;QueueEndpoint=" + storage.URL + "/a;AccountKey=k==")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	for setting := range strings.SplitSeq(f.ConnectionString(), ";") {
		name, value, _ := strings.Cut(setting, "=")
		f.urls[name] = value
	}
	return f
}

// send returns status, body and whether the connection was closed instead.
func (f *fixture) send(t *testing.T, method, service, path, body string) (int, string, bool) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, f.urls[service+"Endpoint"]+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("x-echo", "7")
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, "", true
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, answer.Header.Get("x-ms-error-code") + answer.Header.Get("ETag") + string(text), false
}

func TestNoFault(t *testing.T) {
	f := newFixture(t)
	if f.urls["AccountKey"] != "k==" {
		t.Errorf("connection string %s, want the key unchanged", f.ConnectionString())
	}
	status, text, _ := f.send(t, "PUT", "Blob", "/c/b?x=1", "hello")
	if want := "7/a/c/b?x=1 hello"; status != 201 || text != want {
		t.Errorf("got %d %q, want 201 %q", status, text, want)
	}
	f.send(t, "GET", "Table", "/T()", "")
	f.send(t, "POST", "Queue", "/q/messages", "m")
	if got, want := f.Passed(), []string{"blob put 201", "table query 201", "queue put 201"}; !slices.Equal(got, want) {
		t.Errorf("passed %v, want %v", got, want)
	}
	if got := f.Requests.Operations(); got["blob"]["put"] != 1 || got["table"]["query"] != 1 || got["queue"]["put"] != 1 {
		t.Errorf("counted %v", got)
	}
}

// TestFaults sends four table queries and four queue puts to each fault.
func TestFaults(t *testing.T) {
	var calls []string
	call := func(when string) func(Request) {
		return func(r Request) { calls = append(calls, when+" "+r.String()) }
	}
	for _, tt := range []struct {
		name    string
		fault   Fault
		want    []string // what passed
		applied int
		calls   []string
	}{
		{name: "refuse all of a service", fault: Fault{Service: "table", Status: 503},
			want: []string{"table query 503", "queue put 201", "table query 503", "queue put 201", "table query 503", "queue put 201", "table query 503", "queue put 201"}, applied: 4},
		{name: "refuse the third of an operation", fault: Fault{Operation: "put", Nth: 3, Status: 403},
			want: []string{"table query 201", "queue put 201", "table query 201", "queue put 201", "table query 201", "queue put 403", "table query 201", "queue put 201"}, applied: 7},
		{name: "cut before storage", fault: Fault{Nth: 2, Before: call("before"), Cut: true},
			want: []string{"table query 201", "queue put 0", "table query 201", "queue put 201", "table query 201", "queue put 201", "table query 201", "queue put 201"}, applied: 7,
			calls: []string{"before request 2 (queue put)"}},
		{name: "lose the answer to reads", fault: Fault{Service: "table", Nth: 2, After: call("after"), Lose: true, Delay: time.Millisecond},
			want: []string{"table query 201", "queue put 201", "table query 0", "queue put 201", "table query 201", "queue put 201", "table query 201", "queue put 201"}, applied: 8,
			calls: []string{"after request 2 (table query)"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			calls = nil
			f := newFixture(t)
			heal := f.Add(tt.fault)
			for range 4 {
				f.send(t, "GET", "Table", "/T()", "")
				f.send(t, "POST", "Queue", "/q/messages", "m")
			}
			if got := f.Passed(); !slices.Equal(got, tt.want) {
				t.Errorf("passed %v, want %v", got, tt.want)
			}
			if len(f.applied) != tt.applied || !slices.Equal(calls, tt.calls) {
				t.Errorf("%d requests reached storage and calls were %q, want %d and %q", len(f.applied), calls, tt.applied, tt.calls)
			}
			heal()
			if status, _, _ := f.send(t, "GET", "Table", "/T()", ""); status != 201 {
				t.Errorf("healed: status %d, want 201", status)
			}
		})
	}
}

func TestFaultsHealOneAtATime(t *testing.T) {
	f := newFixture(t)
	busy, denied := f.Add(Fault{Status: 503}), f.Add(Fault{Service: "blob", Status: 403})
	status := func() int { status, _, _ := f.send(t, "GET", "Blob", "/c/b", ""); return status }
	got := []int{status()}
	busy()
	got = append(got, status())
	denied()
	if got = append(got, status()); !slices.Equal(got, []int{503, 403, 201}) {
		t.Errorf("statuses %v, want 503 with both, 403 with the second fault, 201 with none", got)
	}
}

// A share is the same for the same seed, and about as large as requested.
func TestShare(t *testing.T) {
	var runs [2][]string
	for i := range runs {
		f := newFixture(t)
		f.Add(Fault{Share: 0.25, Seed: 7, Status: 429})
		for range 200 {
			f.send(t, "GET", "Blob", "/c/b", "")
		}
		runs[i] = f.Passed()
	}
	refused := 0
	for _, passed := range runs[0] {
		if strings.HasSuffix(passed, "429") {
			refused++
		}
	}
	if !slices.Equal(runs[0], runs[1]) || refused < 25 || refused > 75 {
		t.Errorf("%d of 200 refused; same for the same seed: %v", refused, slices.Equal(runs[0], runs[1]))
	}
}

func TestErrorBodies(t *testing.T) {
	f := newFixture(t)
	f.Add(Fault{Service: "queue", Status: 400, Code: "PopReceiptMismatch"})
	f.Add(Fault{Status: 503})
	for service, want := range map[string]string{
		"Blob":  `ServerBusy<?xml version="1.0" encoding="utf-8"?><Error><Code>ServerBusy</Code>`,
		"Table": `{"odata.error":{"code":"ServerBusy",`,
		"Queue": `PopReceiptMismatch<?xml version="1.0" encoding="utf-8"?><Error><Code>PopReceiptMismatch</Code>`,
	} {
		if _, text, _ := f.send(t, "GET", service, "/x", ""); !strings.HasPrefix(text, want) {
			t.Errorf("%s: %q, want %q", service, text, want)
		}
	}
}
