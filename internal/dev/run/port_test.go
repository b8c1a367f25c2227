package run

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
)

func TestClaimPortReportsTheOccupant(t *testing.T) {
	server := func(text string) net.Addr {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, text) }))
		t.Cleanup(s.Close)
		return s.Listener.Addr()
	}
	other, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	go func() { // ends with the listener
		for {
			conn, err := other.Accept()
			if err != nil {
				return
			}
			conn.Read(make([]byte, 1))
			io.WriteString(conn, "500 mail.example what was that?\r\n")
			conn.Close()
		}
	}()

	for addr, want := range map[net.Addr]string{
		server(`{"id":"1","state":"Running"}`): "in use by another Functions host",
		server(`{"status":"up"}`):              "in use by a web server that is not a Functions host",
		other.Addr():                           "in use by another program",
	} {
		port := addr.(*net.TCPAddr).Port
		_, err := claimPort(t.Context(), port)
		for _, want := range []string{"port " + strconv.Itoa(port) + " is in use", want, "--port " + strconv.Itoa(port+1)} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want an error with %q", err, want)
			}
		}
	}
}

func TestClaimPortPicksAFreeOne(t *testing.T) {
	listener, err := claimPort(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	if addr := listener.Addr().(*net.TCPAddr); !addr.IP.IsLoopback() || addr.Port == 0 {
		t.Errorf("listens on %s, want a port of 127.0.0.1", addr)
	}
}
