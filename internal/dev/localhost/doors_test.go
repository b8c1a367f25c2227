package localhost

import (
	"net/http"
	"strings"
	"testing"
)

// TestForeignCallers: without keys, no page of another site can call a function
// or /admin. With keys the host is as open as in Azure.
func TestForeignCallers(t *testing.T) {
	foreign := []http.Header{
		{"Host": {"evil.example:7071"}},
		{"Sec-Fetch-Site": {"cross-site"}},
		{"Sec-Fetch-Site": {"same-site"}},
		{"Origin": {"http://evil.example"}},
		{"Origin": {"null"}, "Content-Type": {"text/plain"}},
	}
	for name, keys := range map[string]*Keys{"without keys": nil, "with keys": {Master: "master", Host: "host"}} {
		r := start(t, plainApp(), Options{Queues: newQueues(t), Keys: keys})
		call := func(method, path string, header http.Header) (int, string) {
			resp, body := r.call(t, method, path, strings.NewReader("{}"), func(req *http.Request) {
				if keys != nil {
					req.Header.Set("x-functions-key", "master")
				}
				for name, values := range header {
					req.Header[name] = values
					if name == "Host" {
						req.Host = values[0]
					}
				}
			})
			return resp.StatusCode, body
		}
		for _, to := range []string{"POST /api/raw/x?do=note:called", "PUT /api/raw/x", "GET /api/raw/x", "POST /api/still", "GET /admin/host/status", "POST /admin/functions/Tick", "GET /", "GET /nothing"} {
			method, path, _ := strings.Cut(to, " ")
			for _, header := range foreign {
				status, body := call(method, path, header)
				if refused := status == 403 && strings.Contains(body, `"foreign_caller"`) && strings.Contains(body, "Without a key"); refused != (keys == nil) {
					t.Errorf("%s, %s with %v: %d %s", name, to, header, status, body)
				}
			}
		}
		for _, header := range []http.Header{{}, {"Sec-Fetch-Site": {"none"}}, {"Sec-Fetch-Site": {"same-origin"}, "Origin": {r.URL()}}, {"Host": {"localhost"}}} {
			if status, body := call("POST", "/api/raw/x", header); status != 200 {
				t.Errorf("%s, with %v: %d %s, want it served", name, header, status, body)
			}
		}
		r.end(t)
		if called := strings.Contains(r.console.String(), "noted called"); called != (keys != nil) {
			t.Errorf("%s: the function was called: %t", name, called)
		}
	}
}
