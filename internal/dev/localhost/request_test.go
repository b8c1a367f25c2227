package localhost

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

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

// deadlines keeps the read deadline of a connection.
type deadlines struct {
	http.ResponseWriter
	last time.Time
}

func (d *deadlines) SetReadDeadline(at time.Time) error { d.last = at; return nil }

// TestAnswerBeforeTheBody: the handler answers while the host still reads the
// body for it. That read does not remove the limit for what net/http reads then.
func TestAnswerBeforeTheBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rest, begin := io.Pipe()
		r := httptest.NewRequest("POST", "/", rest)
		r.ContentLength = 10
		conn := &deadlines{ResponseWriter: httptest.NewRecorder()}
		body := newSteadyBody(conn, r)
		w := &statusWriter{ResponseWriter: conn, body: body}
		var reading sync.WaitGroup
		reading.Go(func() { _, _ = body.Read(make([]byte, 5)) })
		synctest.Wait()
		w.WriteHeader(http.StatusBadRequest)
		_, _ = begin.Write([]byte("begin"))
		reading.Wait()
		if want := time.Now().Add(maxSilence); !conn.last.Equal(want) {
			t.Errorf("the read deadline is %v, want %v", conn.last, want)
		}
	})
}

// TestBodyThatStops: a request whose body stops is answered, whether the host
// reads the body or refuses the call before. The handler is not asked.
func TestBodyThatStops(t *testing.T) {
	app := files{"host.json": handlerHostJSON, "Still/function.json": `{"bindings":[` + httpBinding + `,` + httpOutput + `]}`}
	root := write(t, enveloped(app))
	for _, tt := range []struct {
		key, sent    string
		length, want int
	}{
		{"host", "", 5, 500},
		{"host", "", 1 << 20, 500},
		{"host", "begin", 1 << 20, 500},
		{"wrong", "", 5, 401},
		{"wrong", "begin", 100 << 10, 401},
		{"wrong", "", 1 << 20, 401},
	} {
		synctest.Test(t, func(t *testing.T) {
			far, near := net.Pipe()
			listener := make(oneConn, 1)
			listener <- far
			h := must(New(root, listener, &Options{Env: map[string]string{childMode: "handler"}, Keys: &Keys{Host: "host"}}))
			close(h.ready)
			server := &http.Server{Handler: h.handleHTTP(t.Context())}
			go func() { _ = server.Serve(listener) }()
			begun := time.Now()
			go fmt.Fprintf(near, "POST /api/still HTTP/1.1\r\nHost: h\r\nx-functions-key: %s\r\nContent-Length: %d\r\n\r\n%s", tt.key, tt.length, tt.sent)
			resp, err := http.ReadResponse(bufio.NewReader(near), nil)
			if err != nil {
				t.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, resp.Body)
			if took := time.Since(begun); resp.StatusCode != tt.want || took > maxSilence {
				t.Errorf("%q of %d bytes, key %s: %d after %v, want %d within %v", tt.sent, tt.length, tt.key, resp.StatusCode, took, tt.want, maxSilence)
			}
			near.Close()
			close(listener)
		})
	}
}
