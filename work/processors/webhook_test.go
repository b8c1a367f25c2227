package processors

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"kennel/work"
)

// receive starts a receiver of webhooks, and a webhook that may call it below
// /hooks.
func receive(t *testing.T, answer http.HandlerFunc) (w *Webhook, base string) {
	t.Helper()
	server := httptest.NewServer(answer)
	t.Cleanup(server.Close)
	w, err := NewWebhook([]string{server.URL + "/hooks/"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.transport.CloseIdleConnections)
	return w, server.URL
}

func hook(url string) work.Item {
	data, err := json.Marshal(map[string]any{"id": "1", "url": url, "body": 7})
	if err != nil {
		panic(err)
	}
	return work.Item{ID: "1", Data: data}
}

func TestWebhookRequest(t *testing.T) {
	var mu sync.Mutex
	var keys []string
	w, base := receive(t, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		body, _ := io.ReadAll(r.Body)
		keys = append(keys, r.Header.Get("Idempotency-Key"))
		if r.Method != "POST" || r.RequestURI != "/hooks/a%20b?x=1" || r.Header.Get("Content-Type") != "application/json" || string(body) != `{"a":[1.0,"<é>"]}` {
			t.Errorf("%s %s %v %s", r.Method, r.RequestURI, r.Header, body)
		}
		w.WriteHeader(201)
		io.WriteString(w, `{"ok":"<é>"}`)
	})
	item := work.Item{ID: "1", Data: fmt.Appendf(nil, `{"id":"1","url":"%s/hooks/a%%20b?x=1","body":{"a":[1.0,"<é>"]}}`, base)}
	other := work.Item{ID: "2", Data: bytes.Replace(item.Data, []byte(`"id":"1"`), []byte(`"id":"2"`), 1)}
	for _, i := range []work.Item{item, item, other} {
		got, err := w.Process(t.Context(), i)
		if want := `{"status":201,"body":"{\"ok\":\"<é>\"}"}`; string(got) != want || err != nil {
			t.Errorf("%s, %v, want %s", got, err, want)
		}
	}
	if len(keys) != 3 || len(keys[0]) != 64 || keys[0] != keys[1] || keys[0] == keys[2] {
		t.Errorf("keys %q, want the same for the same item only", keys)
	}
}

func TestWebhookAnswers(t *testing.T) {
	status, text := 0, ""
	w, base := receive(t, func(w http.ResponseWriter, r *http.Request) {
		if status >= 300 && status < 400 {
			w.Header().Set("Location", "/hooks/next")
		}
		w.WriteHeader(status)
		io.WriteString(w, text)
	})
	const done, rejected, again = 0, 1, 2
	for s, want := range map[int]int{
		200: done, 202: done, 204: done, 299: done,
		300: rejected, 301: rejected, 302: rejected, 303: rejected, 304: rejected, 307: rejected, 308: rejected, // a loop
		400: rejected, 401: rejected, 404: rejected, 409: rejected, 410: rejected, 422: rejected,
		408: again, 429: again, 500: again, 502: again, 503: again, 504: again, 599: again,
	} {
		status = s
		result, err := w.Process(t.Context(), hook(base+"/hooks"))
		got := done
		if errors.Is(err, work.ErrRejected) {
			got = rejected
		} else if err != nil {
			got = again
		}
		if got != want || want == done && !strings.HasPrefix(string(result), fmt.Sprintf(`{"status":%d,`, s)) {
			t.Errorf("%d: %s, %v, want %d", s, result, err, want)
		}
	}
	status, text = 422, " no\r\n\x00such account "+strings.Repeat("é", 200)
	_, err := w.Process(t.Context(), hook(base+"/hooks"))
	if want := "rejected: the receiver answered 422 Unprocessable Entity: no   such account " + strings.Repeat("é", (maxReason-len(" no..such account ")-1)/2); err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

// TestWebhookRetryAfter: the receiver decides when an item is tried again at the
// earliest, if it is only busy.
func TestWebhookRetryAfter(t *testing.T) {
	status, header := 0, ""
	w, base := receive(t, func(w http.ResponseWriter, r *http.Request) {
		if header != "" {
			w.Header().Set("Retry-After", header)
		}
		w.WriteHeader(status)
	})
	for _, c := range []struct {
		status int
		header string
		want   time.Duration // up to 5 s less of a date; 0: the usual wait
	}{
		{429, "120", 2 * time.Minute},
		{503, "7", 7 * time.Second},
		{503, time.Now().Add(time.Hour).UTC().Format(http.TimeFormat), time.Hour},
		{503, "200000", 200_000 * time.Second}, // the model bounds it
		{503, "", 0}, {429, "soon", 0}, {429, "-1", 0}, {429, "0", 0},
		{429, time.Now().Add(-time.Hour).UTC().Format(http.TimeFormat), 0},
		{500, "120", 0}, {408, "120", 0},
	} {
		status, header = c.status, c.header
		_, err := w.Process(t.Context(), hook(base+"/hooks"))
		if err == nil || errors.Is(err, work.ErrRejected) || !strings.Contains(err.Error(), fmt.Sprint("the receiver answered ", c.status)) {
			t.Errorf("%d, Retry-After %q: %v", c.status, c.header, err)
		}
		later, ok := errors.AsType[*work.Later](err)
		if ok != (c.want > 0) || ok && (later.Snoozed || !later.AtLeast || later.Wait > c.want || later.Wait < c.want-5*time.Second) {
			t.Errorf("%d, Retry-After %q: %+v, want a wait of %v", c.status, c.header, later, c.want)
		}
	}
	status, header = 400, "120"
	if _, err := w.Process(t.Context(), hook(base+"/hooks")); !errors.Is(err, work.ErrRejected) {
		t.Errorf("400: %v, want it rejected", err)
	}
}

func TestWebhookResultFits(t *testing.T) {
	text := ""
	w, base := receive(t, func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, text) })
	for _, one := range []string{"a", "é", "😀", "\x00", "\xff", "\"", "<", "\u2028"} {
		for _, n := range []int{0, 1, 300, 1_940, 1_950, 2_100, 200_000} {
			text = strings.Repeat(one, n)
			result, err := w.Process(t.Context(), hook(base+"/hooks"))
			var got struct {
				Status int
				Body   string
			}
			if err != nil || len(result) > work.MaxResult || json.Unmarshal(result, &got) != nil || got.Status != 200 {
				t.Fatalf("%d × %q: %d bytes %s, %v", n, one, len(result), result, err)
			}
			if whole := strings.ToValidUTF8(text, "\ufffd"); one == "\xff" {
				continue // each byte is replaced
			} else if !strings.HasPrefix(whole, got.Body) || n <= 300 && got.Body != whole || n > 1_900 && len(got.Body) < 200 {
				t.Errorf("%d × %q: %d bytes are recorded", n, one, len(got.Body))
			}
		}
	}
}

// TestWebhookHangs has receivers that stop before and after the status.
func TestWebhookHangs(t *testing.T) {
	arrived := make(chan context.CancelFunc, 1)
	w, base := receive(t, func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body) // a server notices the end of a request after its body
		cancel := <-arrived
		if r.URL.Path == "/hooks/slow" {
			io.WriteString(w, "first")
			http.NewResponseController(w).Flush()
			time.AfterFunc(20*time.Millisecond, cancel) // whether the text arrives before or not
		} else {
			cancel()
		}
		<-r.Context().Done()
	})
	for path, wantDone := range map[string]bool{"/hooks/hangs": false, "/hooks/slow": true} {
		ctx, cancel := context.WithCancel(t.Context())
		arrived <- cancel
		result, err := w.Process(ctx, hook(base+path))
		if wantDone && err == nil && strings.HasPrefix(string(result), `{"status":200,"body":"`) {
			continue
		}
		if err == nil || errors.Is(err, work.ErrRejected) || strings.Contains(err.Error(), path) {
			t.Errorf("%s: %s, %v, want an error that is no rejection and has no path", path, result, err)
		}
	}
}

func TestWebhookWithoutReceiver(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	server.Close()
	w, err := NewWebhook([]string{server.URL}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Process(t.Context(), hook(server.URL)); err == nil || errors.Is(err, work.ErrRejected) {
		t.Errorf("%v, want an error that is no rejection", err)
	}
}

func TestWebhookRedirects(t *testing.T) {
	var requests atomic.Int64
	var to atomic.Value // []string, popped by each request
	w, base := receive(t, func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		if body, _ := io.ReadAll(r.Body); r.Method != "POST" || string(body) != "7" {
			t.Errorf("%s %s", r.Method, body)
		}
		if left := to.Load().([]string); len(left) > 0 {
			to.Store(left[1:])
			if left[0] != "" {
				w.Header().Set("Location", left[0])
			}
			w.WriteHeader(307 + len(left)%2)
		}
	})
	for _, c := range []struct {
		to       []string
		requests int64
		want     string // an error
	}{
		{nil, 1, ""},
		{[]string{base + "/hooks/b"}, 2, ""},
		{[]string{"b", "/hooks/c?d#e", base + "/hooks"}, 4, ""},
		{[]string{"b", "c", "d", "e"}, 4, "more than 3 redirects"},
		{[]string{""}, 1, "without a valid location"},
		{[]string{"http://[::1"}, 1, "without a valid location"},
		{[]string{"http://169.254.169.254/metadata/instance"}, 1, "not under a base URL"},
		{[]string{"/other"}, 1, "not under a base URL"},
		{[]string{"/hooks/../other"}, 1, "not under a base URL"},
		{[]string{"/hooks/%2e%2e/other"}, 1, "with . or .."},
		{[]string{`/hooks/..\other`}, 1, "backslash"},
		{[]string{"//user:secret@" + base[len("http://"):] + "/hooks"}, 1, "has a user name"},
		{[]string{"https" + base[len("http"):] + "/hooks"}, 1, "not under a base URL"},
		{[]string{"gopher://example.com/hooks"}, 1, "is not an absolute URL"},
	} {
		requests.Store(0)
		to.Store(c.to)
		_, err := w.Process(t.Context(), hook(base+"/hooks/"))
		isListed := !strings.Contains(c.want, "base URL") // a newer list may have it
		if requests.Load() != c.requests || c.want == "" && err != nil || c.want != "" && (errors.Is(err, work.ErrRejected) != isListed || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%q: %d requests, %v, want %d, %q", c.to, requests.Load(), err, c.requests, c.want)
		}
	}
}

// TestWebhookAddresses resolves names to addresses as an attacker who controls
// their DNS zone can, also to another address with each request.
func TestWebhookAddresses(t *testing.T) {
	var connections atomic.Int64
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	server.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			connections.Add(1)
		}
	}
	server.Start()
	t.Cleanup(server.Close)
	port := netip.MustParseAddrPort(server.Listener.Addr().String()).Port()

	var address atomic.Value // netip.Addr
	resolver := &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		ours, theirs := net.Pipe()
		go answerDNS(theirs, address.Load().(netip.Addr))
		return ours, nil
	}}
	for _, entry := range []string{"", privatePrefix} {
		url := fmt.Sprintf("http://Hooks.Example.com:%d/", port)
		w, err := NewWebhook([]string{entry + url}, &WebhookOptions{Resolver: resolver})
		if err != nil {
			t.Fatal(err)
		}
		for _, ip := range []string{"127.0.0.1", "169.254.169.254", "168.63.129.16", "0.0.0.0", "::1", "fe80::1", "::ffff:127.0.0.1"} {
			address.Store(netip.MustParseAddr(ip))
			_, err := w.Process(t.Context(), hook(url))
			if refused, ok := errors.AsType[*addressError](err); !ok || !errors.Is(err, work.ErrRejected) || refused.ip != netip.MustParseAddr(ip).Unmap() {
				t.Errorf("%s%s at %s: %v, want it rejected for its address", entry, url, ip, err)
			}
		}
		if entry == "" { // a newer list may allow private addresses of this server
			address.Store(netip.MustParseAddr("10.0.0.5"))
			_, err := w.Process(t.Context(), hook(url))
			if _, ok := errors.AsType[*addressError](err); !ok || errors.Is(err, work.ErrRejected) {
				t.Errorf("%s at a private address: %v, want a failed attempt", url, err)
			}
		}
	}
	if n := connections.Load(); n != 0 {
		t.Errorf("%d connections were made", n)
	}

	// localhost is what its address is, and the name of the list may differ in case.
	local := fmt.Sprintf("http://LocalHost:%d", port)
	w, err := NewWebhook([]string{strings.ToLower(local)}, &WebhookOptions{Resolver: resolver})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.transport.CloseIdleConnections)
	if _, err := w.Process(t.Context(), hook(local)); err != nil || connections.Load() == 0 {
		t.Errorf("%s: %v after %d connections", local, err, connections.Load())
	}
}

// answerDNS answers each question for an address with ip, or without an answer
// if it asks for the other kind.
func answerDNS(c net.Conn, ip netip.Addr) {
	defer c.Close()
	for {
		var length [2]byte // a pipe is a stream for the resolver
		if _, err := io.ReadFull(c, length[:]); err != nil {
			return
		}
		query := make([]byte, int(length[0])<<8|int(length[1]))
		if _, err := io.ReadFull(c, query); err != nil {
			return
		}
		end := 12 + bytes.IndexByte(query[12:], 0) + 5 // name, type, class
		kind, data := byte(1), ip.AsSlice()
		if ip.Is6() {
			kind = 28
		}
		answer := append([]byte{query[0], query[1], 0x81, 0x80, 0, 1, 0, 0, 0, 0, 0, 0}, query[12:end]...)
		if query[end-3] == kind {
			answer[7] = 1
			answer = append(answer, 0xc0, 12, 0, kind, 0, 1, 0, 0, 0, 0, 0, byte(len(data)))
			answer = append(answer, data...)
		}
		if _, err := c.Write(append([]byte{byte(len(answer) >> 8), byte(len(answer))}, answer...)); err != nil {
			return
		}
	}
}

// TestWebhookOfAnotherList puts the item of another process's list back.
func TestWebhookOfAnotherList(t *testing.T) {
	w, err := NewWebhook([]string{"https://hooks.example.com/new"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]bool{"new": true, "old": false} {
		item := work.Item{ID: "1", Data: json.RawMessage(fmt.Sprintf(`{"id":"1","url":"https://hooks.example.com/%s/a","body":1}`, path))}
		if err := w.Accepts(item); (err == nil) != want {
			t.Errorf("%s: %v, accepted %t", path, err, want)
		}
		if _, err := w.Process(t.Context(), item); !want && errors.Is(err, work.ErrRejected) {
			t.Errorf("%s: %v: a process rejected what another one accepted", path, err)
		}
	}
}
