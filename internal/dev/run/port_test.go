package run

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
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

	locked := answering(t, 401, "")
	for addr, want := range map[net.Addr]string{
		tcpOf(t, locked):                       "in use by a web server that requires a key, such as `kennel up --key`",
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

// answering returns the address of a server with this answer.
func answering(t *testing.T, status int, text string) string {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		io.WriteString(w, text)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// TestAddressFile checks that the file names the app that started last of those
// that run, until the last one has ended.
func TestAddressFile(t *testing.T) {
	folder := filepath.Join(t.TempDir(), addressFolder)
	file := func(url string) addressFile { return addressFile{folder, url} }
	gone := httptest.NewServer(nil)
	gone.Close()
	first, killed := file(answering(t, 200, `{"state":"Running"}`)), file(gone.URL)
	second, third := file(answering(t, 401, "")), file(answering(t, 200, `{"state":"Running"}`))
	expect := func(when string, want ...addressFile) {
		t.Helper()
		var lines string
		for _, f := range want {
			lines += f.url + "\n"
		}
		text, err := os.ReadFile(first.path())
		if string(text) != lines || (err == nil) != (len(want) > 0) {
			t.Errorf("%s: %q, %v, want %q", when, text, err, lines)
		}
	}
	for _, f := range []addressFile{first, killed, second, third} {
		if err := f.write(); err != nil {
			t.Fatal(err)
		}
	}
	expect("four have started", third, second, killed, first)
	second.remove()
	expect("one in the middle has ended", third, first)
	if err := second.write(); err != nil {
		t.Fatal(err)
	}
	second.remove()
	expect("the newest has ended", third, first)
	third.remove()
	expect("and the one before", first)
	first.remove()
	expect("all have ended")
	if _, err := os.Stat(folder); err == nil {
		t.Error("the folder is left")
	}
}

// TestAddressOfBusyApp checks that the file keeps the address of an app that
// does not answer in time.
func TestAddressOfBusyApp(t *testing.T) {
	folder := filepath.Join(t.TempDir(), addressFolder)
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close() // it accepts no connection before
	busy, own := addressFile{folder, "http://" + listener.Addr().String()}, addressFile{folder, "http://127.0.0.1:1"}
	for _, f := range []addressFile{busy, own} {
		if err := f.write(); err != nil {
			t.Fatal(err)
		}
	}
	own.removeWithin(50 * time.Millisecond)
	if text, err := os.ReadFile(own.path()); string(text) != busy.url+"\n" {
		t.Errorf("got %q, %v, want %q", text, err, busy.url+"\n")
	}
}

// TestRunning checks that the app of .kennel/url is found if it answers in any
// way, unless it is the caller itself.
func TestRunning(t *testing.T) {
	gone := httptest.NewServer(nil)
	gone.Close()
	host, locked := answering(t, 200, `{"state":"Running"}`), answering(t, 401, "")
	for _, tt := range []struct{ url, except, want string }{
		{host, "", host},
		{locked, "http://127.0.0.1:1", locked},
		{host, host, ""},
		{gone.URL, "", ""},
		{"", "", ""},
	} {
		root := t.TempDir()
		if tt.url != "" {
			if err := (addressFile{filepath.Join(root, addressFolder), tt.url}).write(); err != nil {
				t.Fatal(err)
			}
		}
		if got := Running(t.Context(), root, tt.except); got != tt.want {
			t.Errorf("%q, asked by %q: got %q, want %q", tt.url, tt.except, got, tt.want)
		}
	}
}

// TestCheckShared checks that storage of another program is used only if it
// accepts the requests of the app.
func TestCheckShared(t *testing.T) {
	for code, want := range map[string]string{
		"BlobNotFound":       "",
		"InvalidHeaderValue": "refuses the API version of the app's requests; start it with --skipApiVersionCheck, or stop it",
		"InternalError":      "does not work",
	} {
		status := map[string]int{"BlobNotFound": 404, "InvalidHeaderValue": 400}[code]
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("x-ms-error-code", code)
			w.WriteHeader(cmp.Or(status, 403))
		}))
		err := checkShared(t.Context(), "DefaultEndpointsProtocol=http;AccountName=devstoreaccount1;AccountKey=bm90cmVhbGx5;BlobEndpoint="+s.URL+"/devstoreaccount1;", "Azurite at "+s.URL)
		s.Close()
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", code, err, want)
		}
	}
}

// tcpOf returns the address in a URL.
func tcpOf(t *testing.T, address string) net.Addr {
	t.Helper()
	found, err := net.ResolveTCPAddr("tcp", strings.TrimPrefix(address, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	return found
}
