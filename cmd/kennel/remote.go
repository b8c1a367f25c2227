package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

const (
	maxBusyRetries = 5                // after the first attempt
	maxBusyWait    = 30 * time.Second // before each retry
	maxResponse    = 1 << 20          // bytes of a response that is held in memory

	// requestTimeout is long enough for a cold start of the app in Azure.
	requestTimeout = 100 * time.Second
)

// keyVariable holds the function key that commands send to the app.
const keyVariable = "KENNEL_KEY"

// A remote is an app that commands send requests to.
type remote struct {
	client *http.Client
	base   *url.URL
	key    string                           // the function key; "" sends none
	say    func(format string, args ...any) // reports retries to the user

	has    string // the requested resources, as in "the app has no sequences"
	unsure string // the possible effect of a request whose response was lost; "" for none
}

// openRemote checks the address of an app.
func openRemote(con *console, to target) (remote, error) {
	// The errors do not repeat the address, because it may contain a key.
	address, err := url.Parse(to.base)
	if err != nil || address.Host == "" || (address.Scheme != "http" && address.Scheme != "https") {
		return remote{}, usagef("--url is not a valid URL; use the app's address, for example http://127.0.0.1:7071")
	}
	if address.User != nil || address.RawQuery != "" || address.Fragment != "" {
		return remote{}, usagef("--url must contain only the app's address, for example http://127.0.0.1:7071; put a function key into KENNEL_KEY")
	}
	return remote{
		client: &http.Client{
			// A redirect would turn a POST into a GET and send the key to
			// another server.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		base: address,
		key:  cmp.Or(to.key, con.env[keyVariable]),
		say:  con.say,
	}, nil
}

// A request is one HTTP request to the app.
type request struct {
	method string
	path   string // escaped, with query; relative to the app's address
	accept string
	body   string        // JSON; "" for none
	takes  time.Duration // how long the app may wait before it responds

	ifMatch string // "" for none
}

// send sends the request and returns the response if it is a success. It
// retries while the app responds with 503 and Retry-After.
func (r remote) send(ctx context.Context, a request) (*response, error) {
	for attempt := 1; ; attempt++ {
		answer, err := r.once(ctx, a)
		refused, ok := errors.AsType[*refusal](err)
		if !ok {
			return answer, err
		}
		if refused.status != http.StatusServiceUnavailable || !refused.hasAfter {
			return nil, err
		}
		if attempt > maxBusyRetries {
			return nil, fmt.Errorf("%w; gave up after %d attempts", err, attempt)
		}
		if refused.after > maxBusyWait {
			return nil, fmt.Errorf("%w; its Retry-After is %s, and kennel waits at most %s", err, refused.after, maxBusyWait)
		}
		r.say("the app is busy; retrying in %s (%d of %d)", refused.after, attempt, maxBusyRetries)
		if err := pause(ctx, refused.after); err != nil {
			return nil, err
		}
	}
}

// response is a successful response. The caller must close it.
type response struct {
	*http.Response
	release context.CancelFunc
}

func (a *response) close() {
	a.Body.Close()
	a.release()
}

// once sends the request without retries. Its error is a *refusal if the server
// responded.
func (r remote) once(ctx context.Context, a request) (*response, error) {
	limited, release := context.WithTimeout(ctx, requestTimeout+a.takes)
	resp, err := r.do(limited, a)
	if err != nil {
		release()
		return nil, r.explainNoResponse(ctx, err)
	}
	if resp.StatusCode/100 == 2 {
		return &response{resp, release}, nil
	}
	defer release()
	defer resp.Body.Close()
	body, _ := io.ReadAll(io.LimitReader(resp.Body, maxResponse)) // use what arrived before an error
	refused := &refusal{status: resp.StatusCode}
	refused.code, refused.message = r.explainRefusal(resp, body)
	refused.after, refused.hasAfter = retryAfter(resp.Header, time.Now())
	return nil, refused
}

func (r remote) do(ctx context.Context, a request) (*http.Response, error) {
	var body io.Reader = http.NoBody
	if a.body != "" {
		body = strings.NewReader(a.body)
	}
	req, err := http.NewRequestWithContext(ctx, a.method, strings.TrimSuffix(r.base.String(), "/")+a.path, body)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", a.accept)
	if a.body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	if a.ifMatch != "" {
		req.Header.Set("If-Match", a.ifMatch)
	}
	if r.key != "" {
		req.Header.Set("x-functions-key", r.key)
	}
	return r.client.Do(req)
}

// readJSON reads and decodes a response, and returns it as one line, otherwise
// unchanged.
func (r remote) readJSON(a *response, into any) ([]byte, error) {
	return r.readLongJSON(a, into, maxResponse)
}

func (r remote) readLongJSON(a *response, into any, maxSize int64) ([]byte, error) {
	if err := r.expectType(a.Response, "application/json"); err != nil {
		return nil, err
	}
	body, err := io.ReadAll(io.LimitReader(a.Body, maxSize))
	if err != nil {
		return nil, fmt.Errorf("read the response: %w", err)
	}
	var line bytes.Buffer
	err = json.Compact(&line, body)
	if err == nil && into != nil {
		err = json.Unmarshal(body, into)
	}
	if err != nil {
		return nil, fmt.Errorf("the app at %s returned unexpected JSON: %w", r.base, err)
	}
	line.WriteByte('\n')
	return line.Bytes(), nil
}

// expectType checks the content type, to detect a response that is not from the
// app but, for example, the sign-in page of a proxy.
func (r remote) expectType(resp *http.Response, want string) error {
	got, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if got == want {
		return nil
	}
	return fmt.Errorf("%s returned content type %q instead of %q; check that --url is the app's address", r.base, got, want)
}

// explainNoResponse explains an error of a request without a response.
func (r remote) explainNoResponse(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if dns, ok := errors.AsType[*net.DNSError](err); ok && dns.IsNotFound {
		return fmt.Errorf("host %q does not exist; check --url", r.base.Hostname())
	}
	op, ok := errors.AsType[*net.OpError](err)
	if ok && op.Op == "dial" && isLocal(r.base.Hostname()) {
		return fmt.Errorf("cannot connect to %s; start the app with `make run`", r.base)
	}
	if ok && op.Op == "dial" {
		return fmt.Errorf("cannot connect to %s: %w; check --url and that the app is running", r.base, op.Err)
	}
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		err = wrapped.Err // it would repeat the address
	}
	if r.unsure == "" {
		return fmt.Errorf("no response from %s: %w", r.base, err)
	}
	return fmt.Errorf("no response from %s: %w; %s", r.base, err, r.unsure)
}

// A refusal is a response that is not a success.
type refusal struct {
	status  int
	code    string // the app's error code; "" if the response is not from the app
	message string

	after    time.Duration // the Retry-After of the response
	hasAfter bool
}

func (r *refusal) Error() string { return r.message }

// explainRefusal returns the code and message of a refusal. The app sends both
// in JSON; the host in front of it often sends no body.
func (r remote) explainRefusal(resp *http.Response, body []byte) (code, message string) {
	var own struct {
		Error struct{ Code, Message string }
	}
	if json.Unmarshal(body, &own) == nil && own.Error.Message != "" {
		return own.Error.Code, fmt.Sprintf("the app returned %d %s: %s", resp.StatusCode, own.Error.Code, own.Error.Message)
	}
	switch {
	case resp.StatusCode == http.StatusUnauthorized && r.key == "":
		return "", fmt.Sprintf("the app at %s requires a function key (401); set KENNEL_KEY or use --key", r.base)
	case resp.StatusCode == http.StatusUnauthorized:
		return "", fmt.Sprintf("the app at %s rejected this function key (401)", r.base)
	case resp.StatusCode == http.StatusNotFound:
		return "", fmt.Sprintf("%s has no %s (404); check that --url is the app's address, without /api", r.base, r.has)
	case resp.Header.Get("Location") != "":
		return "", fmt.Sprintf("%s redirects (%d) to %s; use that address with --url",
			r.base, resp.StatusCode, resp.Header.Get("Location"))
	}
	return "", fmt.Sprintf("the app at %s returned %s", r.base, resp.Status)
}

// isLocal reports whether host is this machine.
func isLocal(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// retryAfter returns the value of the Retry-After header, which is a number of
// seconds or a date.
func retryAfter(header http.Header, now time.Time) (time.Duration, bool) {
	value := header.Get("Retry-After")
	if seconds, err := strconv.ParseUint(value, 10, 31); err == nil {
		return time.Duration(seconds) * time.Second, true
	}
	if at, err := http.ParseTime(value); err == nil {
		return max(0, at.Sub(now)).Round(time.Second), true
	}
	return 0, false
}

// pause waits for the given time or until ctx ends.
func pause(ctx context.Context, wait time.Duration) error {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
