package sdktests

import (
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"kennel/devstore"
	"kennel/internal/dev/azurite"
)

// startAzurite starts an Azurite with the accounts and returns a handler that
// passes requests on to it. It speaks TLS, without which it refuses every token.
func startAzurite(t *testing.T, certificate, key string, accounts []string) http.Handler {
	t.Helper()
	cache, err := os.UserCacheDir()
	must(t, err)
	in, err := azurite.Install(t.Context(), filepath.Join(cache, "kennel"), os.Stderr)
	must(t, err)
	args := []string{
		"serve.cjs", "--silent", "--disableTelemetry", "--skipApiVersionCheck", "--inMemoryPersistence",
		"--cert", certificate, "--key", key, "--oauth", "basic",
	}
	ports := make(map[string]int)
	for _, service := range []string{"blob", "queue", "table"} {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		must(t, err)
		ports[service] = listener.Addr().(*net.TCPAddr).Port
		listener.Close()
		args = append(args, "--"+service+"Host", "127.0.0.1", "--"+service+"Port", strconv.Itoa(ports[service]))
	}
	var list strings.Builder
	for _, account := range accounts {
		fmt.Fprintf(&list, "%s:%s;", account, accountKey)
	}
	cmd := exec.Command(in.Node, args...)
	cmd.Dir = in.Dir
	cmd.Env = append(os.Environ(), "AZURITE_ACCOUNTS="+list.String(), "NODE_OPTIONS=")
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	must(t, err)
	must(t, cmd.Start())
	t.Cleanup(func() {
		stdin.Close() // ends it
		cmd.Wait()
	})
	until := time.Now().Add(time.Minute)
	for _, port := range ports {
		for {
			conn, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
			if err == nil {
				conn.Close()
				break
			}
			if time.Now().After(until) {
				t.Fatalf("Azurite does not start: %v", err)
			}
			time.Sleep(100 * time.Millisecond)
		}
	}
	return passOn(func(service string) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(ports[service])) }, &http.Transport{
		TLSClientConfig:       &tls.Config{InsecureSkipVerify: true}, // by address
		DisableCompression:    true,
		MaxIdleConnsPerHost:   32,
		IdleConnTimeout:       3 * time.Second, // shorter than that of Node.js
		ExpectContinueTimeout: time.Second,
	})
}

// passOn returns a handler that sends requests unchanged to the address of their
// service; "" for a transport that
// needs none.
func passOn(address func(service string) string, transport http.RoundTripper) http.Handler {
	return &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme = "https"
			r.Out.URL.Host = address(strings.SplitN(r.In.Host, ".", 3)[1])
			r.Out.Host = r.In.Host
			r.Out.URL.RawQuery = r.In.URL.RawQuery // signed, even where Go would clean it
			r.Out.Header = r.In.Header.Clone()
			if _, ok := r.Out.Header["User-Agent"]; !ok {
				r.Out.Header["User-Agent"] = nil
			}
		},
		Transport: transport,
		ErrorLog:  log.New(io.Discard, "", 0),
	}
}

// startDevstore returns a handler that passes requests on to a devstore.
func startDevstore(t *testing.T, accounts []string) http.Handler {
	t.Helper()
	keys := make(map[string][]string)
	for _, account := range accounts {
		keys[account] = []string{accountKey}
	}
	store, err := devstore.Open("", &devstore.Options{Accounts: keys})
	must(t, err)
	t.Cleanup(func() { store.Close() })
	return passOn(func(string) string { return "" }, store)
}
