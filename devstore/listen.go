package devstore

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"kennel/internal/loopback"
)

// UsualPorts are where storage on a developer's machine serves blobs, queues
// and tables, and where UseDevelopmentStorage=true looks for it.
const UsualPorts = 10000

const readTime = 10 * time.Minute // for the body of a request

// Listen serves all three services on one port of 127.0.0.1, any free one for
// 0, until the store is closed.
func (s *Store) Listen(port int) (*Listener, error) {
	return s.listen(map[string]int{"": port})
}

// ListenEach serves blobs, queues and tables each on a port of its own: first,
// for example [UsualPorts], and the two that follow, any free ones for 0, until
// the store is closed.
func (s *Store) ListenEach(first int) (*Listener, error) {
	if first == 0 {
		return s.listen(map[string]int{"blob": 0, "queue": 0, "table": 0})
	}
	return s.listen(map[string]int{"blob": first, "queue": first + 1, "table": first + 2})
}

func (s *Store) listen(ports map[string]int) (*Listener, error) {
	l := &Listener{store: s, ports: make(map[string]int)}
	for _, service := range []string{"", "blob", "queue", "table"} {
		port, wanted := ports[service]
		if !wanted {
			continue
		}
		socket, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			return nil, errors.Join(fmt.Errorf("serve storage on port %d: %w", port, err), l.stop())
		}
		l.ports[service] = socket.Addr().(*net.TCPAddr).Port
		server := &http.Server{Handler: s.handler(service), ReadHeaderTimeout: time.Minute, ReadTimeout: readTime, MaxHeaderBytes: 64 << 10}
		l.servers = append(l.servers, server)
		go func() { _ = server.Serve(socket) }() // it ends with ErrServerClosed
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, errors.Join(errors.New("serve storage: the store is closed"), l.stop())
	}
	s.listeners = append(s.listeners, l)
	return l, nil
}

// Endpoint returns the address of a service (blob, queue or table) for an
// account.
func (l *Listener) Endpoint(service, account string) string {
	if port, own := l.ports[service]; own {
		return fmt.Sprintf("http://127.0.0.1:%d/%s", port, account)
	}
	return fmt.Sprintf("http://127.0.0.1:%d/%s.%s", l.ports[""], account, service)
}

// FaultsURL returns the address at which the store fails on request.
func (l *Listener) FaultsURL() string {
	port, one := l.ports[""]
	if !one {
		port = l.ports["blob"]
	}
	return fmt.Sprintf("http://127.0.0.1:%d/%s", port, controlFaults)
}

// ConnectionString returns the connection string of the first account.
func (l *Listener) ConnectionString() string {
	return l.store.connectionString(l.Endpoint)
}

// ConnectionString returns the connection string of the first account at a port
// that the first call opens. Without one, the test of the store fails.
func (s *Store) ConnectionString() string {
	l, err := s.own()
	if err != nil {
		s.fatal(err)
		return ""
	}
	return l.ConnectionString()
}

// InProcess returns the connection string of the first account for clients
// whose transport is the store, see [Store.Do].
func (s *Store) InProcess() string {
	return s.connectionString(func(service, account string) string { return "http://" + account + "." + service + ".localhost" })
}

func (s *Store) connectionString(endpoint func(service, account string) string) string {
	account := s.accounts()[0]
	return fmt.Sprintf("DefaultEndpointsProtocol=http;AccountName=%s;AccountKey=%s;BlobEndpoint=%s;QueueEndpoint=%s;TableEndpoint=%s;",
		account, s.options.Accounts[account][0], endpoint("blob", account), endpoint("queue", account), endpoint("table", account))
}

// handler serves one service, or all three for "", to callers on this machine.
func (s *Store) handler(only string) http.Handler {
	control := s.control()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if refusal := refusal(r); refusal != "" {
			http.Error(w, refusal, http.StatusForbidden)
			return
		}
		if isControl(r) {
			control.ServeHTTP(w, r)
			return
		}
		a := s.answer(r, only)
		if a.cut {
			panic(http.ErrAbortHandler)
		}
		write(w, r, a)
	})
}

// refusal returns why a request from the network is not served, or "". A host
// that names an account in front of localhost is this machine.
func refusal(r *http.Request) string {
	name, port, _ := strings.Cut(r.Host, ":")
	if strings.HasSuffix(name, ".localhost") {
		local := *r
		local.Host = "localhost:" + port
		r = &local
	}
	return loopback.Refusal(r)
}

func write(w http.ResponseWriter, r *http.Request, a reply) {
	h := w.Header()
	for name, values := range a.Header {
		h[name] = values
	}
	length, body := a.content(r)
	if length >= 0 {
		h.Set("Content-Length", strconv.FormatInt(length, 10))
	}
	w.WriteHeader(a.Status)
	if len(body) == 0 {
		return
	}
	if a.slow > 0 {
		half := len(body) / 2
		_, _ = w.Write(body[:half])
		_ = http.NewResponseController(w).Flush()
		if wait(r.Context(), a.slow) != nil {
			return
		}
		body = body[half:]
	}
	_, _ = w.Write(body) // the caller has gone
}

// content returns the Content-Length of an answer, −1 for none, and the body
// that is sent.
func (a reply) content(r *http.Request) (length int64, body []byte) {
	switch {
	case a.Status == http.StatusNoContent || a.Status == http.StatusNotModified:
		return -1, nil
	case r.Method == http.MethodHead:
		return a.Length, nil
	default:
		return int64(len(a.Body)), a.Body
	}
}

// Do answers a request in this process, without a port. With it, a store is the
// transport of an SDK's client: every host that names an account and a service,
// such as devstoreaccount1.blob.core.windows.net, reaches it.
func (s *Store) Do(r *http.Request) (*http.Response, error) {
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	if r.Body != nil {
		defer r.Body.Close()
	}
	a := s.answer(received(r), "")
	if a.cut {
		return nil, fmt.Errorf("a fault of the storage cut the connection: %w", io.ErrUnexpectedEOF)
	}
	if a.slow > 0 {
		if err := wait(r.Context(), a.slow); err != nil {
			return nil, err
		}
	}
	length, body := a.content(r)
	if length >= 0 {
		a.Header.Set("Content-Length", strconv.FormatInt(length, 10)) // the SDK reads the header
	}
	return &http.Response{
		Status: fmt.Sprintf("%d %s", a.Status, http.StatusText(a.Status)), StatusCode: a.Status,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: a.Header, Body: io.NopCloser(bytes.NewReader(body)), ContentLength: max(length, 0), Request: r,
	}, nil
}

// received returns a request as a server would see it: SDKs write the names of
// some headers in small letters, and leave the host to the address.
func received(r *http.Request) *http.Request {
	seen := r.WithContext(r.Context())
	seen.Header = make(http.Header, len(r.Header))
	for name, values := range r.Header {
		name = http.CanonicalHeaderKey(name)
		seen.Header[name] = append(seen.Header[name], values...)
	}
	if seen.Host == "" {
		seen.Host = r.URL.Host
	}
	return seen
}

// RoundTrip makes a store an [http.RoundTripper]; see [Store.Do].
func (s *Store) RoundTrip(r *http.Request) (*http.Response, error) { return s.Do(r) }

var _ http.RoundTripper = (*Store)(nil)
