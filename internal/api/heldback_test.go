package api

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"kennel/internal/customhandler"
	"kennel/internal/edge"
)

// TestBodyThatNeverComes: a request with a body that its route does not take is
// rejected at once, also if the body is only announced.
func TestBodyThatNeverComes(t *testing.T) {
	host, err := customhandler.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	edge.ServeRoutes(host, []edge.Route{{Function: "F", Pattern: "POST /api/f/{name}", Handler: http.NotFoundHandler()}})
	server := httptest.NewServer(host)
	defer server.Close()
	for _, body := range []string{"Content-Length: 1000\r\n\r\n", "Transfer-Encoding: chunked\r\n\r\nzz\r\n"} {
		conn, err := net.Dial("tcp", server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		fmt.Fprint(conn, "POST /api/f/a HTTP/1.1\r\nHost: h\r\n"+body)
		answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		if text, err := io.ReadAll(answer.Body); err != nil || answer.StatusCode != 400 || !answer.Close {
			t.Errorf("%q: %d %s, %v, closed: %t; want 400 and the end of the connection", body, answer.StatusCode, text, err, answer.Close)
		}
	}
}

func TestPrefersText(t *testing.T) {
	for accept, want := range map[string]bool{"": false, "*/*": false, "text/plain": true, "text/plain;charset=utf-8": true, "text/plain;q=0.5, */*": true,
		"text/plain;q=0": false, "text/plain; q=0.0": false, "text/plain;q=0, application/json": false, "application/json, text/plain": false, "text/plain;q": true} {
		if got := prefersText(accept); got != want {
			t.Errorf("Accept: %s: %t, want %t", accept, got, want)
		}
	}
}
