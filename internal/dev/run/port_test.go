package run

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
)

func TestClaimPortSaysByWhatItIsTaken(t *testing.T) {
	host := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"id":"1","state":"Running"}`)
	}))
	defer host.Close()
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"status":"up"}`)
	}))
	defer web.Close()
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
		host.Listener.Addr(): "by another Functions host",
		web.Listener.Addr():  "by a web server that is no Functions host",
		other.Addr():         "by another program",
	} {
		port := addr.(*net.TCPAddr).Port
		_, err := claimPort(t.Context(), port)
		for _, want := range []string{"port " + strconv.Itoa(port) + " is taken", want, "--port " + strconv.Itoa(port+1)} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want an error with %q", err, want)
			}
		}
	}
}

func TestClaimPortTakesAnyFreeOne(t *testing.T) {
	listener, err := claimPort(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	if addr := listener.Addr().(*net.TCPAddr); !addr.IP.IsLoopback() || addr.Port == 0 {
		t.Errorf("listens on %s, want a port of 127.0.0.1", addr)
	}
}

func TestAwaitHostWaitsForRunning(t *testing.T) {
	var asked atomic.Int32
	host := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		switch asked.Add(1) {
		case 1:
			w.WriteHeader(http.StatusServiceUnavailable)
		case 2:
			fmt.Fprint(w, `{"state":"Initializing"}`)
		default:
			fmt.Fprint(w, `{"state":"Running"}`)
		}
	}))
	defer host.Close()
	if err := awaitHost(t.Context(), host.URL); err != nil || asked.Load() != 3 {
		t.Errorf("asked %d times, error %v; want 3 and none", asked.Load(), err)
	}
}
