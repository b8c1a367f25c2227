package localhost

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
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
