package customhandler

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// zeros is a body without end.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// TestUpload sends bodies as the host does: a body is sent to its end before
// the answer is read.
func TestUpload(t *testing.T) {
	const large = 64 << 20
	app := newApp(t, Options{MaxBody: 10})
	app.HTTP("Small", "req", http.HandlerFunc(serveCalls), "POST /api/small/{how}/{id}")
	app.Upload("Large", "req", large, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := int64(0)
		switch r.PathValue("how") {
		case "whole":
			n, _ = io.Copy(io.Discard, r.Body)
		case "beginning":
			n, _ = io.CopyN(io.Discard, r.Body, 1000)
		case "panic":
			panic("of the function")
		case "nothing":
			return
		}
		fmt.Fprint(w, n)
	}), "POST /api/large/{how}")
	server, _ := serve(t, app)
	for _, tt := range []struct {
		path   string
		length int64
		want   string // status and the beginning of the body
	}{
		{"large/whole", large, "200 67108864"},
		{"large/beginning", large, "200 1000"},
		{"large/nothing", large, "200 "},
		{"large/panic", large, `500 {"error":{"code":"internal"`},
		{"large/whole", large + 1, `413 {"error":{"code":"body_too_large"`},
		{"large/whole/other", large, `404 {"error":{"code":"not_found"`},
		{"small/show/1", 10, "200 POST 1"},
		{"small/show/1", large, `413 {"error":{"code":"body_too_large"`},
	} {
		t.Run(fmt.Sprint(tt.path, tt.length), func(t *testing.T) {
			conn, err := net.Dial("tcp", server.Listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			fmt.Fprintf(conn, "POST /api/%s HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n", tt.path, tt.length)
			if _, err := io.Copy(conn, io.LimitReader(zeros{}, tt.length)); err != nil {
				t.Fatalf("send the body: %v", err)
			}
			resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(resp.Body)
			if got := fmt.Sprintf("%d %s", resp.StatusCode, body); err != nil || !strings.HasPrefix(got, tt.want) {
				t.Errorf("answer = %s, %v, want %s", got, err, tt.want)
			}
			runtime.ReadMemStats(&after)
			if got := after.TotalAlloc - before.TotalAlloc; got > 8<<20 {
				t.Errorf("allocated %d bytes for a body of %d", got, tt.length)
			}
		})
	}

	t.Run("in an envelope", func(t *testing.T) {
		_, client := serve(t, app)
		e, err := Trigger{Function: "Large", Binding: "req"}.HTTP(httptest.NewRequest("POST", "/api/large/whole", strings.NewReader("eleven byte")), nil)
		if err != nil {
			t.Fatal(err)
		}
		a, err := client.Invoke(t.Context(), "Large", e)
		if err != nil {
			t.Fatal(err)
		}
		if res, err := a.HTTP("res"); err != nil || res.Status != 413 {
			t.Errorf("answer = %d %s, %v, want 413", res.Status, res.Body, err)
		}
	})
}

// oneConn is a listener with one connection.
type oneConn chan net.Conn

func (l oneConn) Accept() (net.Conn, error) {
	conn, ok := <-l
	if !ok {
		return nil, net.ErrClosed
	}
	return conn, nil
}

func (l oneConn) Close() error   { return nil }
func (l oneConn) Addr() net.Addr { return &net.TCPAddr{} }

// TestIncompleteBody proves that a body that ends early, or does not arrive in
// time, is reported to the caller, and not as a failure of the function.
func TestIncompleteBody(t *testing.T) {
	read := func(w http.ResponseWriter, r *http.Request) {
		var v struct{}
		WriteError(w, r, fmt.Errorf("read: %w", ReadJSON(r, 1<<20, &v)))
	}
	const head = "POST /api/reads HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n{"
	for _, length := range []int{10, 1 << 20} {
		expect := func(t *testing.T, conn net.Conn, book *logBook) {
			t.Helper()
			resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Fatal(err)
			}
			body, _ := io.ReadAll(resp.Body)
			if resp.StatusCode != 400 || !strings.Contains(string(body), `"body_incomplete"`) || strings.Contains(book.String(), "HTTP call failed") {
				t.Errorf("answer to 1 of %d bytes = %d %s, want 400 body_incomplete, and no failure in the log:\n%s", length, resp.StatusCode, body, book)
			}
		}
		t.Run(fmt.Sprint("ended ", length), func(t *testing.T) {
			book := &logBook{}
			app := newApp(t, Options{Log: book.logger()})
			app.HTTP("Reads", "req", http.HandlerFunc(read), "POST /api/reads")
			server, _ := serve(t, app)
			conn, err := net.Dial("tcp", server.Listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			fmt.Fprintf(conn, head, length)
			if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
				t.Fatal(err)
			}
			expect(t, conn, book)
		})
		t.Run(fmt.Sprint("stalled ", length), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				book := &logBook{}
				app := newApp(t, Options{Log: book.logger(), HTTPTimeout: 100 * time.Second})
				app.HTTP("Reads", "req", http.HandlerFunc(read), "POST /api/reads")
				far, near := net.Pipe()
				listener := make(oneConn, 1)
				listener <- far
				server := &http.Server{Handler: app}
				go func() { _ = server.Serve(listener) }()
				start := time.Now()
				fmt.Fprintf(near, head, length)
				expect(t, near, book)
				if took := time.Since(start); took != 95*time.Second {
					t.Errorf("the answer took %v, want 95s", took)
				}
				near.Close()
				close(listener)
			})
		})
	}
}

// TestBodyThatStops proves that a call whose function does not read its long body
// is answered although the body stops, but not while it still arrives, however
// slowly.
func TestBodyThatStops(t *testing.T) {
	for _, tt := range []struct {
		length, chunk int
		every         time.Duration
		want          time.Duration
	}{
		{100 << 10, 0, 0, 10 * time.Second},
		{1 << 20, 0, 0, 10 * time.Second},
		{1 << 20, 300 << 10, 9 * time.Second, 28 * time.Second}, // the last chunk is missing
		{1 << 20, 256 << 10, 9 * time.Second, 27 * time.Second},
		{1 << 20, 8 << 10, 9 * time.Second, 95 * time.Second}, // the end of the call
	} {
		synctest.Test(t, func(t *testing.T) {
			app := newApp(t, Options{HTTPTimeout: 100 * time.Second})
			app.HTTP("Refuses", "req", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(400); _, _ = io.WriteString(w, "refused") }), "POST /api/refuses")
			far, near := net.Pipe()
			listener := make(oneConn, 1)
			listener <- far
			server := &http.Server{Handler: app}
			go func() { _ = server.Serve(listener) }()
			start := time.Now()
			var sending sync.WaitGroup
			sending.Go(func() {
				fmt.Fprintf(near, "POST /api/refuses HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n", tt.length)
				for sent := 0; tt.chunk > 0 && sent+tt.chunk <= tt.length; sent += tt.chunk {
					if _, err := near.Write(make([]byte, tt.chunk)); err != nil {
						return
					}
					time.Sleep(tt.every)
				}
			})
			resp, err := http.ReadResponse(bufio.NewReader(near), nil)
			if err != nil {
				t.Fatal(err)
			}
			if took := time.Since(start); resp.StatusCode != 400 || took != tt.want {
				t.Errorf("%d of %d bytes every %v: %d after %v, want 400 after %v", tt.chunk, tt.length, tt.every, resp.StatusCode, took, tt.want)
			}
			near.Close()
			sending.Wait()
			close(listener)
		})
	}
}
