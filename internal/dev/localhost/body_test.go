package localhost

import (
	"io"
	"net/http"
	"runtime"
	"testing"
)

// zeros is a body without end.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// TestLongBody checks that a body is forwarded as a stream. It does not run in
// parallel, so that the other tests allocate nothing meanwhile.
func TestLongBody(t *testing.T) {
	r := start(t, rawApp(), Options{})
	const length = 64 << 20
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	resp, _ := r.call(t, "POST", "/api/raw/x?do=pid", io.LimitReader(zeros{}, length), func(req *http.Request) { req.ContentLength = length })
	runtime.ReadMemStats(&after)
	if got, want := resp.Header.Get("X-Seen"), "POST /api/raw/x?do=pid 67108864"; resp.StatusCode != 200 || got != want {
		t.Errorf("got %d, seen %q; want 200, %q", resp.StatusCode, got, want)
	}
	if got := after.TotalAlloc - before.TotalAlloc; got > 8<<20 {
		t.Errorf("the host and the caller allocated %d bytes for a body of %d", got, length)
	}
}
