package app

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestProbe: `handler probe` finds a worker at each address at which it may
// listen, and needs no settings.
func TestProbe(t *testing.T) {
	p := &Probes{} // not ready, which is none of its health
	live := httptest.NewServer(p)
	t.Cleanup(live.Close)
	failing := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(failing.Close)
	moved := httptest.NewServer(http.RedirectHandler(live.URL+"/healthz", http.StatusFound))
	t.Cleanup(moved.Close)
	ended := httptest.NewServer(p)
	ended.Close()
	address := func(s *httptest.Server) string { return s.Listener.Addr().String() }
	_, port, _ := net.SplitHostPort(address(live))
	for _, tt := range []struct {
		name, address string
		code          int
		want          string
	}{
		{"live", address(live), 0, ""},
		{"live, without a host", ":" + port, 0, ""},
		{"live, all addresses", "0.0.0.0:" + port, 0, ""},
		{"live, by name", "localhost:" + port, 0, ""},
		{"ended", address(ended), 1, "the worker does not answer"},
		{"another program", address(failing), 1, "answers /healthz with 404 Not Found"},
		{"a redirection", address(moved), 1, "answers /healthz with 302 Found"},
	} {
		var stdout, stderr bytes.Buffer
		code := Main(t.Context(), []string{"probe", "--listen", tt.address}, nil, &stdout, &stderr, nil)
		if code != tt.code || !strings.Contains(stderr.String(), tt.want) || stdout.Len() > 0 || code == 0 && stderr.Len() > 0 {
			t.Errorf("%s: code %d, %q %q, want %d and %q", tt.name, code, &stdout, &stderr, tt.code, tt.want)
		}
	}
}

// TestProbeOfHangingWorker: a probe ends with its context, so at its limit.
func TestProbeOfHangingWorker(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	hanging := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		cancel()
		<-r.Context().Done()
	}))
	t.Cleanup(hanging.Close)
	if err := requestHealth(ctx, hanging.Listener.Addr().String()); err == nil || !strings.Contains(err.Error(), "does not answer") {
		t.Errorf("got %v", err)
	}
}
