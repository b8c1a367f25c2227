package devbus

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

// TestFaultsOverHTTP controls the faults of a local broker.
func TestFaultsOverHTTP(t *testing.T) {
	b, err := Listen(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	b.CreateQueue("faults", nil)
	for _, tt := range []struct {
		method, path, body string
		status             int
		want               string // part of the answer
	}{
		{"POST", "/faults", `{"kind":"reject","entity":"q","on":["send","settle"],"times":2,"condition":"c","description":"d"}`, 201, `{"id":1}`},
		{"POST", "/faults", `{"kind":"admin","status":429,"delay":"1m30s"}`, 201, `{"id":2}`},
		{"GET", "/faults", "", 200, `[{"id":1,"kind":"reject","entity":"q","on":["send","settle"],"times":2,"condition":"c","description":"d"},{"id":2,"kind":"admin","on":["send"],"status":429,"delay":"1m30s"}]`},
		{"GET", "/faults?api-version=2024-05", "", 429, "injected by a fault"}, // the queue
		{"DELETE", "/faults/2", "", 204, ""},
		{"GET", "/faults?api-version=2024-05", "", 200, "QueueDescription"},
		{"GET", "/faults", "", 200, `[{"id":1,`},
		{"POST", "/faults", `{"kind":"rejects"}`, 400, `unknown kind "rejects"; the kinds are admin, black-hole,`},
		{"POST", "/faults", `{"kind":"reject","on":["receive"]}`, 400, "the operations are request, send, settle"},
		{"POST", "/faults", `{"kind":"slow","delay":"10"}`, 400, "missing unit"},
		{"POST", "/faults", `{"sort":"reject"}`, 400, "unknown field"},
		{"DELETE", "/faults/2", "", 404, "no such fault"},
		{"DELETE", "/faults/one", "", 400, "number"},
		{"PUT", "/faults", "", 405, ""},
		{"DELETE", "/faults", "", 204, ""},
		{"GET", "/faults", "", 200, "[]"},
	} {
		r, _ := http.NewRequest(tt.method, "http://"+b.listener.Addr().String()+tt.path, strings.NewReader(tt.body))
		r.Header.Set("Authorization", "any")
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode != tt.status || !strings.Contains(string(body), tt.want) {
			t.Errorf("%s %s %s: got %d %s, want %d with %s", tt.method, tt.path, tt.body, resp.StatusCode, body, tt.status, tt.want)
		}
		if tt.status == http.StatusTooManyRequests && resp.Header.Get("Retry-After") != "90" {
			t.Errorf("got Retry-After %q, want 90", resp.Header.Get("Retry-After"))
		}
	}
	for name, value := range map[string]string{"Host": "evil.example", "Origin": "http://evil.example", "Sec-Fetch-Site": "cross-site"} {
		for _, method := range []string{"POST", "GET", "DELETE"} {
			r, _ := http.NewRequest(method, b.FaultsURL(), strings.NewReader(`{"kind":"refuse-dial"}`))
			r.Header.Set(name, value)
			if name == "Host" {
				r.Host = value
			}
			resp, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			body, _ := io.ReadAll(resp.Body)
			resp.Body.Close()
			if resp.StatusCode != 403 || len(b.listFaults()) > 0 {
				t.Errorf("%s with %s: %s: got %d %s and the faults %v, want 403 and none", method, name, value, resp.StatusCode, body, b.listFaults())
			}
		}
	}
	for kind := RefuseDial; kind <= ClockSkew; kind++ {
		if kinds[kind.String()] != kind {
			t.Errorf("kind %d has no name", kind)
		}
	}
}
