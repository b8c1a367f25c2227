package run

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"
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

func TestAwaitHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin, reports := time.Now(), 0
		isRunning := func(context.Context) bool { return time.Since(begin) >= 3*slowHost }
		if err := awaitHost(t.Context(), isRunning, func() { reports++ }); err != nil || reports != 1 {
			t.Errorf("a slow host: got %v and %d reports, want one", err, reports)
		}
		ctx, cancel := context.WithTimeout(t.Context(), slowHost/2)
		defer cancel()
		err := awaitHost(ctx, func(context.Context) bool { return false }, func() { reports++ })
		if !errors.Is(err, context.DeadlineExceeded) || reports != 1 {
			t.Errorf("stopped early: got %v and %d reports", err, reports-1)
		}
	})
}
