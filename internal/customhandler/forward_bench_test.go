package customhandler

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"
)

// BenchmarkForwarded compares App, on the path that the host forwards, with the same handler on net/http alone. Both
// get the same load in turn, in the same run and over real connections, from a client that costs next to nothing and so
// hides nothing. The figure is of-bare-rate: App must reach 0.85 of the bare rate.
func BenchmarkForwarded(b *testing.B) {
	const pattern = "POST /api/sequences/{sequence}/next"
	const answer = `{"sequence":"orders","first":1001,"last":1001,"count":1}`
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, answer)
	})
	mux := http.NewServeMux()
	mux.Handle(pattern, h)
	app := New(quiet())
	app.HTTP("NextOrderId", "req", h, pattern)

	bare, close := dial(b, mux)
	defer close()
	ours, close := dial(b, app)
	defer close()

	const calls = 400
	var bareTime, ourTime time.Duration
	for b.Loop() {
		bareTime += load(b, bare, calls)
		ourTime += load(b, ours, calls)
	}
	b.ReportMetric(float64(bareTime)/float64(ourTime), "of-bare-rate")
	b.ReportMetric(float64(ourTime)/float64(b.N*calls), "ns/call")
}

// dial serves h and opens connections to it.
func dial(b *testing.B, h http.Handler) (conns []net.Conn, close func()) {
	server := httptest.NewServer(h)
	for range 8 {
		conn, err := net.Dial("tcp", server.Listener.Addr().String())
		if err != nil {
			b.Fatal(err)
		}
		conns = append(conns, conn)
	}
	return conns, func() {
		for _, conn := range conns {
			conn.Close()
		}
		server.Close()
	}
}

// load makes n calls over all connections at once and returns how long they took.
func load(b *testing.B, conns []net.Conn, n int) time.Duration {
	const request = "POST /api/sequences/orders/next HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 0\r\n" +
		"X-Azure-Functions-InvocationId: 4b6a0f7e-2f39-4c1e-9a55-0d8f6f6f1c11\r\n\r\n"
	start := time.Now()
	var wg sync.WaitGroup
	for _, conn := range conns {
		wg.Go(func() {
			answers := bufio.NewReader(conn)
			for range n / len(conns) {
				if _, err := io.WriteString(conn, request); err != nil {
					b.Error(err)
					return
				}
				resp, err := http.ReadResponse(answers, nil)
				if err != nil || resp.StatusCode != http.StatusOK {
					b.Errorf("answer %v, %v", resp, err)
					return
				}
				_, _ = io.Copy(io.Discard, resp.Body)
			}
		})
	}
	wg.Wait()
	return time.Since(start)
}
