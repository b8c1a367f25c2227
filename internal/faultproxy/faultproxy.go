// Package faultproxy is an HTTP proxy between a program and storage, for tests: it
// makes requests fail the way they fail in Azure, or kills the program at a
// certain request. It is never deployed.
//
//	proxy, err := faultproxy.Start(storage.ConnectionString())
//	…                     // start the program with proxy.ConnectionString()
//	heal := proxy.Add(faultproxy.Fault{Service: "table", Share: 0.2, Status: 503})
//	…
//	heal()
//
// Requests are named as in package requests: a service and an operation. The
// proxy signs nothing and changes nothing: a shared key signs the path, the
// query and the headers of a request, but not the address it is sent to.
package faultproxy

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"kennel/internal/azure/requests"
)

// Request is one request that a fault is applied to.
type Request struct {
	N                  int // it is the N-th that matches the fault, counted from 1
	Service, Operation string
}

func (r Request) String() string {
	return fmt.Sprintf("request %d (%s %s)", r.N, r.Service, r.Operation)
}

// Fault describes which requests fail, and how. All fields are optional.
type Fault struct {
	Service, Operation string  // "" matches all
	Nth                int     // only the Nth request that matches; 0 means each
	Share              float64 // only this share of them, at random; 0 means all
	Seed               uint64  // of the random choice

	// The faults of the request, in this order.
	Delay  time.Duration // wait first
	Before func(Request) // called before the request reaches storage
	Status int           // answer with this status instead of storage
	Code   string        // of that answer; default: Azure's for the status
	Cut    bool          // close the connection; storage never sees the request
	After  func(Request) // called after storage has applied the request
	Lose   bool          // close the connection instead of returning storage's answer
}

// Proxy is a running proxy. Its methods may be called concurrently.
type Proxy struct {
	Requests requests.Counter // all that the proxy received, whatever became of them

	connectionString string
	servers          []*http.Server
	network          http.Transport

	mu     sync.Mutex
	faults []*active // guarded by mu
	passed []string  // guarded by mu
}

// active is a fault that was added.
type active struct {
	Fault
	n      int // how many requests have matched
	random *rand.Rand
}

// Start serves the services that a connection string names, each on a free
// port of 127.0.0.1.
func Start(connectionString string) (*Proxy, error) {
	p := &Proxy{network: http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 64}}
	settings := strings.Split(connectionString, ";")
	for i, setting := range settings {
		name, address, _ := strings.Cut(setting, "=")
		service, ok := services[name]
		if !ok {
			continue
		}
		u, err := url.Parse(address)
		var listener net.Listener
		if err == nil {
			listener, err = net.Listen("tcp4", "127.0.0.1:0")
		}
		if err != nil {
			p.Close()
			return nil, fmt.Errorf("start the fault proxy: %w", err)
		}
		settings[i] = name + "=http://" + listener.Addr().String() + u.Path
		server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			p.serve(w, r, service, u.Host)
		})}
		p.servers = append(p.servers, server)
		go server.Serve(listener) // until Close
	}
	p.connectionString = strings.Join(settings, ";")
	return p, nil
}

var services = map[string]string{
	"BlobEndpoint":  requests.Blob,
	"TableEndpoint": requests.Table,
	"QueueEndpoint": requests.Queue,
}

// ConnectionString leads to storage through the proxy.
func (p *Proxy) ConnectionString() string { return p.connectionString }

// Close cuts all connections.
func (p *Proxy) Close() {
	for _, server := range p.servers {
		server.Close()
	}
	p.network.CloseIdleConnections()
}

// Add applies a fault from now on. The function that it returns heals this
// fault and leaves the others. Of several faults that match a request, the one
// that was added first applies.
func (p *Proxy) Add(f Fault) (heal func()) {
	a := &active{Fault: f, random: rand.New(rand.NewPCG(f.Seed, 0))}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults = append(p.faults, a)
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.faults = slices.DeleteFunc(p.faults, func(other *active) bool { return other == a })
	}
}

// Passed returns the answers of the proxy since the last call, in their order:
// service, operation and status, such as "table insert 201". The status is 0 if
// the connection was closed instead.
func (p *Proxy) Passed() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	passed := p.passed
	p.passed = nil
	return passed
}

func (p *Proxy) serve(w http.ResponseWriter, r *http.Request, service, storage string) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the program closed the connection
	}
	request := Request{Service: service, Operation: requests.Operation(service, r.Method, r.URL)}
	p.Requests.Add(requests.Label{Service: service, Operation: request.Operation})
	f := p.match(&request)
	time.Sleep(f.Delay)
	if f.Before != nil {
		f.Before(request)
	}
	if f.Status != 0 {
		p.note(request, f.Status)
		refuse(w, service, f.Status, f.Code)
		return
	} else if f.Cut {
		p.cut(w, request)
		return
	}
	answer, text, err := p.forward(r, storage, body)
	if err == nil && f.After != nil {
		f.After(request)
	}
	if err != nil || f.Lose {
		p.cut(w, request)
		return
	}
	p.note(request, answer.StatusCode)
	maps.Copy(w.Header(), answer.Header)
	w.WriteHeader(answer.StatusCode)
	w.Write(text)
}

// match returns the fault that applies to a request, or one that does nothing.
func (p *Proxy) match(r *Request) Fault {
	p.mu.Lock()
	defer p.mu.Unlock()
	var first Fault
	for _, f := range slices.Backward(p.faults) {
		if f.Service != "" && f.Service != r.Service || f.Operation != "" && f.Operation != r.Operation {
			continue
		}
		f.n++
		if f.Nth != 0 && f.Nth != f.n || f.Share != 0 && f.random.Float64() >= f.Share {
			continue
		}
		first, r.N = f.Fault, f.n
	}
	return first
}

// forward sends a request to storage and returns the answer and its body. It
// does so even if the program was killed in the meantime, as a network would.
func (p *Proxy) forward(r *http.Request, storage string, body []byte) (answer *http.Response, text []byte, err error) {
	out := r.Clone(context.WithoutCancel(r.Context()))
	out.URL.Scheme, out.URL.Host, out.RequestURI = "http", storage, ""
	out.Body, out.ContentLength, out.TransferEncoding = http.NoBody, int64(len(body)), nil
	if len(body) > 0 {
		out.Body = io.NopCloser(bytes.NewReader(body))
	}
	if answer, err = p.network.RoundTrip(out); err == nil {
		defer answer.Body.Close()
		text, err = io.ReadAll(answer.Body)
	}
	return answer, text, err
}

// cut closes the connection in the middle of an answer. If it ended without
// one byte, net/http would send a GET again on its own.
func (p *Proxy) cut(w http.ResponseWriter, r Request) {
	p.note(r, 0)
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return // the program closed the connection first
	}
	io.WriteString(conn, "HTTP/1.1 2")
	conn.Close()
}

func (p *Proxy) note(r Request, status int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.passed = append(p.passed, fmt.Sprint(r.Service, " ", r.Operation, " ", status))
}

// codes are the reasons that Azure usually gives for a status.
var codes = map[int]string{403: "AuthorizationFailure", 429: "TooManyRequests", 500: "InternalError", 503: "ServerBusy"}

// refuse answers as the service in Azure does: tables in JSON, the others in
// XML and with the code in a header.
func refuse(w http.ResponseWriter, service string, status int, code string) {
	code = cmp.Or(code, codes[status], "InvalidInput")
	w.Header().Set("x-ms-request-id", "fa017000-0000-0000-0000-000000000000")
	if service == requests.Table {
		w.Header().Set("Content-Type", "application/json;odata=minimalmetadata;streaming=true;charset=utf-8")
		w.WriteHeader(status)
		fmt.Fprintf(w, `{"odata.error":{"code":%q,"message":{"lang":"en-US","value":"Refused by the fault proxy."}}}`, code)
		return
	}
	w.Header().Set("Content-Type", "application/xml")
	w.Header().Set("x-ms-error-code", code)
	w.WriteHeader(status)
	fmt.Fprintf(w, `<?xml version="1.0" encoding="utf-8"?><Error><Code>%s</Code><Message>Refused by the fault proxy.</Message></Error>`, code)
}
