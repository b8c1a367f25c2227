package customhandler

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// DefaultHostVersion is the version of the host that this package imitates.
const DefaultHostVersion = "4.1052.200"

// Client calls a handler as the Functions host does. It is safe for concurrent
// use.
type Client struct {
	base    string
	version string
	http    *http.Client // follows redirects
	direct  *http.Client // does not
}

// NewClient returns a client of the handler at base, http://127.0.0.1:<port>.
// It uses no proxy and any number of connections.
func NewClient(base string) *Client {
	transport := &http.Transport{
		MaxIdleConnsPerHost: 1024,
		IdleConnTimeout:     time.Minute,
		DisableCompression:  true, // the host does not accept compressed answers
	}
	const maxRedirects = 50 // of .NET
	return &Client{
		base:    strings.TrimRight(base, "/"),
		version: DefaultHostVersion,
		http: &http.Client{Transport: transport, CheckRedirect: func(r *http.Request, via []*http.Request) error {
			r.Header.Del("Referer") // .NET sends none
			if len(via) > maxRedirects {
				return http.ErrUseLastResponse
			}
			return nil
		}},
		direct: &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
	}
}

// NewClientThrough returns a client of an App in the same process, whose network
// is a transport.
func NewClientThrough(transport http.RoundTripper) *Client {
	c := NewClient("http://127.0.0.1")
	c.http.Transport, c.direct.Transport = transport, transport
	return c
}

// Ready requests GET / every 25 ms and returns after any HTTP answer, even a
// malformed one. The context carries the initialization timeout, 30 s in the
// host.
func (c *Client) Ready(ctx context.Context) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base+"/", nil)
	if err != nil {
		return fmt.Errorf("check whether the handler is ready: %w", err)
	}
	if req.URL.Host == "" {
		return fmt.Errorf("check whether the handler is ready: %q is not an address", c.base)
	}
	tick := time.NewTicker(25 * time.Millisecond)
	defer tick.Stop()
	for {
		resp, err := c.http.Do(req)
		if err == nil {
			return resp.Body.Close()
		}
		if _, socket := errors.AsType[*net.OpError](err); !socket && ctx.Err() == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("no answer from %s/: %w (last: %w); does the handler listen on 127.0.0.1 and on the port in FUNCTIONS_CUSTOMHANDLER_PORT?",
				c.base, context.Cause(ctx), withoutURL(err))
		case <-tick.C:
		}
	}
}

// Invoke sends the envelope to a function and judges the answer. It returns an
// *AnswerError for an answer that the host does not accept, and another error
// if the call fails or the context ends. The context carries functionTimeout,
// at whose end the host kills the process.
func (c *Client) Invoke(ctx context.Context, function string, e Envelope) (Answer, error) {
	id := e.ID
	if id == "" {
		id = NewInvocationID()
	}
	sent, err := e.encode()
	if err != nil {
		return Answer{}, fmt.Errorf("encode the envelope for function %q: %w", function, err)
	}
	req, err := NewEnvelopeRequest(ctx, c.base, function, sent...)
	if err != nil {
		return Answer{}, fmt.Errorf("invoke function %q: %w", function, err)
	}
	req.Header.Set(headerHostVersion, c.version)
	req.Header.Set(headerInvocationID, id)
	req.Header.Set("User-Agent", c.agent())
	resp, err := c.http.Do(req)
	if err != nil {
		return Answer{}, fmt.Errorf("invoke function %q: %w", function, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return Answer{}, fmt.Errorf("read the answer of function %q: %w", function, err)
	}
	return judge(function, resp.StatusCode, resp.Header.Get("Content-Type"), body)
}

// NewEnvelopeRequest returns the request with which the host at base sends an
// envelope, which is given in parts. App takes no other request for an envelope.
func NewEnvelopeRequest(ctx context.Context, base, function string, envelope ...[]byte) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, base+"/"+function, nil)
	if err != nil {
		return nil, err
	}
	req.GetBody = func() (io.ReadCloser, error) { // for a redirect
		var readers []io.Reader
		for _, part := range envelope {
			readers = append(readers, bytes.NewReader(part))
		}
		return io.NopCloser(io.MultiReader(readers...)), nil
	}
	req.Body, _ = req.GetBody()
	req.ContentLength = -1 // chunked
	req.Header.Set("Content-Type", envelopeType)
	return req, nil
}

func (c *Client) agent() string { return "Azure-Functions-Host/" + c.version }

// Forward passes a client's HTTP call on as the host does with
// enableForwardingHttpRequest, buffers the answer, writes it to w, and returns
// its status. After an error nothing is written: the host then answers 500 with
// an empty body. The context carries functionTimeout. It must not be r's own,
// because the host does not cancel a call when its caller hangs up.
func (c *Client) Forward(ctx context.Context, w http.ResponseWriter, r *http.Request, id string) (status int, err error) {
	if r.ContentLength < 0 {
		return 0, fmt.Errorf("forward %s %s: the body has no Content-Length, on which the host fails", r.Method, r.URL.Path)
	}
	path, err := RoutedPath(r)
	if err != nil {
		return 0, fmt.Errorf("forward %s: %w", r.Method, err)
	}
	target := c.base + forwardedPath(path, r.URL.RawQuery != "")
	separator := "?"
	names, query := hostQuery(r.URL.RawQuery)
	for _, name := range names {
		target += separator + url.QueryEscape(name) + "=" + url.QueryEscape(query[name])
		separator = "&"
	}
	var body io.Reader
	if r.ContentLength > 0 {
		body = r.Body
	}
	req, err := http.NewRequestWithContext(ctx, r.Method, target, body)
	if err != nil {
		return 0, fmt.Errorf("forward %s %s: %w", r.Method, r.URL.Path, err)
	}
	if body != nil {
		req.ContentLength = r.ContentLength
	}
	req.Host = r.Host
	copyHeaders(req.Header, r.Header, lostHeaders)
	req.Header.Add(headerHostVersion, c.version)
	req.Header.Add(headerInvocationID, id) // after a client's own: the handler must use the last
	for name, values := range req.Header {
		req.Header.Set(name, strings.Join(values, ", "))
	}
	req.Header.Set("User-Agent", strings.TrimLeft(r.UserAgent()+" "+c.agent(), " "))
	resp, err := c.direct.Do(req)
	if err != nil {
		return 0, fmt.Errorf("forward %s %s: %w", r.Method, r.URL.Path, withoutURL(err))
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, fmt.Errorf("read the answer to %s %s: %w", r.Method, r.URL.Path, err)
	}
	copyHeaders(w.Header(), resp.Header, connectionHeaders)
	w.WriteHeader(resp.StatusCode)
	_, _ = w.Write(answer) // a caller that hung up does not fail the invocation
	return resp.StatusCode, nil
}

// lostHeaders of a request do not survive the host's forwarding: those of the
// connection, and all content headers of .NET except Content-Type and
// Content-Length.
var lostHeaders = append([]string{
	"Allow", "Content-Disposition", "Content-Encoding", "Content-Language", "Content-Location",
	"Content-Md5", "Content-Range", "Expect", "Expires", "Last-Modified",
}, connectionHeaders...)

func copyHeaders(to, from http.Header, except []string) {
	for name, values := range from {
		if !slices.Contains(except, name) {
			to[name] = slices.Clone(values)
		}
	}
}

// withoutURL removes the URL that net/http puts before an error, because it may
// hold a function key.
func withoutURL(err error) error {
	if cause := errors.Unwrap(err); cause != nil {
		return cause
	}
	return err
}
