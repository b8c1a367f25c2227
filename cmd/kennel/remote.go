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
	maxBusyRetries = 5                // tries after the first one
	maxBusyWait    = 30 * time.Second // before one of them
	maxAnswer      = 1 << 20          // bytes of an answer that is held in memory

	// patienceOfClient is long enough for an app that Azure has to wake up
	// first.
	patienceOfClient = 100 * time.Second
)

// keyVariable holds the function key that commands send to the app.
const keyVariable = "KENNEL_KEY"

// A remote is an app that commands ask for something.
type remote struct {
	client *http.Client
	base   *url.URL
	key    string                           // the function key; "" sends none
	say    func(format string, args ...any) // tells the caller about a wait

	has    string // what the app is asked for, as in "it has no sequences"
	unsure string // what may have happened when an answer was lost; "" when nothing can
}

// openRemote checks the address of an app.
func openRemote(con *console, to reach) (remote, error) {
	// What is wrong with an address is said without repeating it: people paste
	// them with a key inside.
	address, err := url.Parse(to.base)
	if err != nil || address.Host == "" || (address.Scheme != "http" && address.Scheme != "https") {
		return remote{}, usagef("--url is no such thing: give the app's address, for instance http://127.0.0.1:7071")
	}
	if address.User != nil || address.RawQuery != "" || address.Fragment != "" {
		return remote{}, usagef("--url must be the app's address alone, such as http://127.0.0.1:7071: put a function key into KENNEL_KEY")
	}
	return remote{
		client: &http.Client{
			// A redirect would turn a POST into a GET, and carry the key elsewhere.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		base: address,
		key:  cmp.Or(to.key, con.env[keyVariable]),
		say:  con.say,
	}, nil
}

// An ask is one request.
type ask struct {
	method string
	path   string // escaped, with its query, behind the app's address
	accept string
	body   string        // JSON; "" is none
	takes  time.Duration // how long the app may take on purpose

	ifMatch string // "" sends none
}

// send makes the request, again while the app says it is busy and when to
// come back, and returns its answer if that is a success.
func (r remote) send(ctx context.Context, a ask) (*answered, error) {
	for try := 1; ; try++ {
		answer, err := r.once(ctx, a)
		refused, ok := errors.AsType[*refusal](err)
		if !ok {
			return answer, err
		}
		if refused.status != http.StatusServiceUnavailable || !refused.told {
			return nil, err
		}
		if try > maxBusyRetries {
			return nil, fmt.Errorf("%w; gave up after %d tries", err, try)
		}
		if refused.after > maxBusyWait {
			return nil, fmt.Errorf("%w; it asks to come back in %s, which is longer than kennel waits", err, refused.after)
		}
		r.say("the app is busy; trying again in %s (%d of %d)", refused.after, try, maxBusyRetries)
		if err := pause(ctx, refused.after); err != nil {
			return nil, err
		}
	}
}

// answered is a success; its body is to be closed.
type answered struct {
	*http.Response
	release context.CancelFunc
}

func (a *answered) close() {
	a.Body.Close()
	a.release()
}

// once makes the request one time. Its error is a *refusal when the app has
// answered.
func (r remote) once(ctx context.Context, a ask) (*answered, error) {
	limited, release := context.WithTimeout(ctx, patienceOfClient+a.takes)
	resp, err := r.do(limited, a)
	if err != nil {
		release()
		return nil, r.explainSilence(ctx, err)
	}
	if resp.StatusCode/100 == 2 {
		return &answered{resp, release}, nil
	}
	defer release()
	defer resp.Body.Close()
	body, _ := io.ReadAll(io.LimitReader(resp.Body, maxAnswer)) // a part of an explanation is better than none
	refused := &refusal{status: resp.StatusCode}
	refused.code, refused.message = r.explainRefusal(resp, body)
	refused.after, refused.told = retryAfter(resp.Header, time.Now())
	return nil, refused
}

func (r remote) do(ctx context.Context, a ask) (*http.Response, error) {
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

// readJSON reads an answer, decodes it, and returns it as one line, the way
// the app wrote it.
func (r remote) readJSON(a *answered, into any) ([]byte, error) {
	return r.readLongJSON(a, into, maxAnswer)
}

func (r remote) readLongJSON(a *answered, into any, most int64) ([]byte, error) {
	if err := r.expectType(a.Response, "application/json"); err != nil {
		return nil, err
	}
	body, err := io.ReadAll(io.LimitReader(a.Body, most))
	if err != nil {
		return nil, fmt.Errorf("read the answer: %w", err)
	}
	var line bytes.Buffer
	err = json.Compact(&line, body)
	if err == nil && into != nil {
		err = json.Unmarshal(body, into)
	}
	if err != nil {
		return nil, fmt.Errorf("the app at %s answered something that is not the JSON it should be: %w", r.base, err)
	}
	line.WriteByte('\n')
	return line.Bytes(), nil
}

// expectType makes sure that it is the app who answered, not the sign-in page
// of a proxy on the way.
func (r remote) expectType(resp *http.Response, want string) error {
	got, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if got == want {
		return nil
	}
	return fmt.Errorf("%s answered %q where the app answers %q: is it the app's address?", r.base, got, want)
}

// explainSilence says why there was no answer at all.
func (r remote) explainSilence(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if dns, ok := errors.AsType[*net.DNSError](err); ok && dns.IsNotFound {
		return fmt.Errorf("there is no host %q: check --url", r.base.Hostname())
	}
	op, ok := errors.AsType[*net.OpError](err)
	if ok && op.Op == "dial" && isLocal(r.base.Hostname()) {
		return fmt.Errorf("nothing answers at %s: is the app running? start it with `make run`", r.base)
	}
	if ok && op.Op == "dial" {
		return fmt.Errorf("nothing answers at %s: check --url, and that the app runs (%w)", r.base, op.Err)
	}
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		err = wrapped.Err // it would repeat the address
	}
	if r.unsure == "" {
		return fmt.Errorf("no answer from %s: %w", r.base, err)
	}
	return fmt.Errorf("no answer from %s: %w; %s", r.base, err, r.unsure)
}

// A refusal is an answer that is no success.
type refusal struct {
	status  int
	code    string // the app's word for it; "" if it was somebody else
	message string
	after   time.Duration // when to come back …
	told    bool          // … if the app has said so
}

func (r *refusal) Error() string { return r.message }

// explainRefusal says what it means. The app explains itself in JSON; the host
// in front of it often says nothing.
func (r remote) explainRefusal(resp *http.Response, body []byte) (code, message string) {
	var own struct {
		Error struct{ Code, Message string }
	}
	if json.Unmarshal(body, &own) == nil && own.Error.Message != "" {
		return own.Error.Code, fmt.Sprintf("the app answered %d %s: %s", resp.StatusCode, own.Error.Code, own.Error.Message)
	}
	switch {
	case resp.StatusCode == http.StatusUnauthorized && r.key == "":
		return "", fmt.Sprintf("the app at %s wants a function key (401): put it into KENNEL_KEY, or give --key", r.base)
	case resp.StatusCode == http.StatusUnauthorized:
		return "", fmt.Sprintf("the app at %s does not accept this function key (401)", r.base)
	case resp.StatusCode == http.StatusNotFound:
		return "", fmt.Sprintf("%s answers, but has no %s (404): is it the app's address, without /api?", r.base, r.has)
	case resp.Header.Get("Location") != "":
		return "", fmt.Sprintf("%s points elsewhere (%d), to %s: give the address it points to with --url",
			r.base, resp.StatusCode, resp.Header.Get("Location"))
	}
	return "", fmt.Sprintf("the app at %s answered %s", r.base, resp.Status)
}

// isLocal reports whether host is this machine.
func isLocal(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// retryAfter is how long the server asks to wait, in either of the two forms
// that HTTP has for it.
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

// pause waits, or until ctx ends.
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
