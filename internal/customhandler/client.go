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

// DefaultHostVersion is the host version that this package's idea of the host was read from.
const DefaultHostVersion = "4.1052.200"

// Client does to a handler what the Functions host does. It is safe for concurrent use.
type Client struct {
	base    string
	version string
	http    *http.Client
}

// ClientOptions are the choices of a Client; nil and zero fields mean the defaults.
type ClientOptions struct {
	HostVersion string            // sent in the headers; default DefaultHostVersion
	Transport   http.RoundTripper // default: one of its own, without proxy and with unlimited connections
}

// NewClient returns a client of the handler at base, http://127.0.0.1:<port>.
func NewClient(base string, opt *ClientOptions) *Client {
	o := ClientOptions{}
	if opt != nil {
		o = *opt
	}
	if o.HostVersion == "" {
		o.HostVersion = DefaultHostVersion
	}
	if o.Transport == nil {
		o.Transport = &http.Transport{
			MaxIdleConnsPerHost: 1024,
			IdleConnTimeout:     time.Minute,
			DisableCompression:  true, // the host does not ask for it
		}
	}
	return &Client{
		base:    strings.TrimRight(base, "/"),
		version: o.HostVersion,
		http: &http.Client{
			Transport: o.Transport,
			// The host follows redirects of an envelope's answer, to nowhere good; here they are answers that are not 2xx.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
}

// Ready returns as soon as the handler gives any HTTP answer to GET /, which it asks for every 25 ms; what breaks the
// rules of HTTP is an answer, too. The context carries the initialisation timeout, 30 s in the host.
func (c *Client) Ready(ctx context.Context) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base+"/", nil)
	if err != nil {
		return fmt.Errorf("ask the handler whether it is up: %w", err)
	}
	if req.URL.Host == "" {
		return fmt.Errorf("ask the handler whether it is up: %q is not its address", c.base)
	}
	tick := time.NewTicker(25 * time.Millisecond)
	defer tick.Stop()
	for {
		resp, err := c.http.Do(req)
		if err == nil {
			return resp.Body.Close() // the status line was the answer
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

// Invoke sends the envelope to a function and judges the answer. An answer the host would not accept is an
// *AnswerError; everything else is a failed call, or the context's end. The context carries functionTimeout, at whose
// end the host kills the process.
func (c *Client) Invoke(ctx context.Context, function string, e Envelope) (Answer, error) {
	id := e.ID
	if id == "" {
		id = NewInvocationID()
	}
	sent, err := marshal(e)
	if err != nil {
		return Answer{}, fmt.Errorf("encode the envelope for function %q: %w", function, err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base+"/"+function, bytes.NewReader(sent))
	if err != nil {
		return Answer{}, fmt.Errorf("invoke function %q: %w", function, err)
	}
	req.Header.Set("Content-Type", "application/json; charset=utf-8")
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

func (c *Client) agent() string { return "Azure-Functions-Host/" + c.version }

// Forward passes a client's HTTP call on as the host does with enableForwardingHttpRequest, buffers the answer,
// passes it back through w, and returns its status. On an error nothing has been written: the host then answers 500
// with an empty body. The context carries functionTimeout and must not be r's own: the host does not tell the handler
// when a caller hangs up.
func (c *Client) Forward(ctx context.Context, w http.ResponseWriter, r *http.Request, id string) (status int, err error) {
	target := c.base + r.URL.EscapedPath()
	separator := "?"
	names, query := hostQuery(r.URL.RawQuery)
	for _, name := range names {
		target += separator + url.QueryEscape(name) + "=" + url.QueryEscape(query[name])
		separator = "&"
	}
	var body io.Reader
	if r.ContentLength > 0 { // a chunked body is lost
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
	req.Header.Add(headerInvocationID, id) // beside a client's own: the handler must take the last
	req.Header.Set("User-Agent", strings.TrimLeft(r.UserAgent()+" "+c.agent(), " "))
	resp, err := c.http.Do(req)
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

// lostHeaders of a request do not survive the host's forwarding: those of the connection, and all of .NET's content
// headers but Content-Type; Content-Length is made anew.
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

// withoutURL drops what net/http puts before an error: the URL may hold a function key.
func withoutURL(err error) error {
	if cause := errors.Unwrap(err); cause != nil {
		return cause
	}
	return err
}
