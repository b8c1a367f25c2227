package app

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestProbesOnThisMachine: at a loopback address, where a worker serves the
// console too, a page with a name of its own cannot read what workers report. A
// platform may probe /healthz and /readyz under any name.
func TestProbesOnThisMachine(t *testing.T) {
	metrics := func(context.Context) []byte { return []byte("kennel_queue") }
	for _, path := range []string{"/healthz", "/readyz", "/metrics", "/nothing"} {
		for host, own := range map[string]bool{"127.0.0.1:8080": true, "localhost": true, "evil.example:8080": false} {
			for _, local := range []bool{true, false} {
				p := &Probes{Metrics: metrics}
				if local {
					p.Console = http.NotFoundHandler()
				}
				r := httptest.NewRequestWithContext(t.Context(), "GET", "http://"+host+path, nil)
				w := httptest.NewRecorder()
				p.ServeHTTP(w, r)
				if refused := w.Code == 403; refused != (local && !own && path == "/metrics") || refused && strings.Contains(w.Body.String(), "kennel_queue") {
					t.Errorf("%s at %s, only for this machine: %t: %d %s", path, host, local, w.Code, w.Body)
				}
			}
		}
	}
}
