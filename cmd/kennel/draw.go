package main

import (
	"bufio"
	"bytes"
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
)

// A draw asks one app for numbers of one sequence, once.
type draw struct {
	client   *http.Client
	base     *url.URL
	sequence string
	count    int
	key      string                           // the function key; "" sends none
	say      func(format string, args ...any) // tells the caller about a wait
}

// printLines prints the numbers, one a line, as they arrive.
func (d draw) printLines(ctx context.Context, w io.Writer) error {
	resp, err := d.send(ctx, "text/plain")
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if err := d.expectType(resp, "text/plain"); err != nil {
		return err
	}

	out := bufio.NewWriter(w)
	printed := 0
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		n, err := strconv.ParseInt(lines.Text(), 10, 64)
		if err != nil || n < 0 {
			err = fmt.Errorf("the app at %s answered %q where a number belongs", d.base, lines.Text())
			return errors.Join(err, out.Flush())
		}
		fmt.Fprintln(out, n)
		printed++
	}
	// What arrived was drawn for this caller, so it is printed in any case.
	if err := errors.Join(out.Flush(), lines.Err()); err != nil {
		return fmt.Errorf("read the numbers, after %d of %d: %w", printed, d.count, err)
	}
	if printed != d.count {
		return fmt.Errorf("the app at %s gave %d numbers where %d were asked for", d.base, printed, d.count)
	}
	return nil
}

// printJSON prints the answer as one line of JSON, the way the app wrote it.
func (d draw) printJSON(ctx context.Context, w io.Writer) error {
	resp, err := d.send(ctx, "application/json")
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if err := d.expectType(resp, "application/json"); err != nil {
		return err
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return fmt.Errorf("read the answer: %w", err)
	}
	var line bytes.Buffer
	if err := json.Compact(&line, body); err != nil {
		return fmt.Errorf("the app at %s answered something that is not JSON: %w", d.base, err)
	}
	line.WriteByte('\n')
	_, err = w.Write(line.Bytes())
	return err
}

// send posts the request, again while the app says it is busy and when to
// come back, and returns its answer if that is a 200.
func (d draw) send(ctx context.Context, accept string) (*http.Response, error) {
	for try := 1; ; try++ {
		resp, err := d.post(ctx, accept)
		if err != nil {
			return nil, d.explainSilence(ctx, err)
		}
		if resp.StatusCode == http.StatusOK {
			return resp, nil
		}
		body, _ := io.ReadAll(io.LimitReader(resp.Body, maxAnswer)) // a part of an explanation is better than none
		resp.Body.Close()
		refusal := d.explainRefusal(resp, body)

		wait, told := retryAfter(resp.Header, time.Now())
		if resp.StatusCode != http.StatusServiceUnavailable || !told {
			return nil, refusal
		}
		if try > maxBusyRetries {
			return nil, fmt.Errorf("%w; gave up after %d tries", refusal, try)
		}
		if wait > maxBusyWait {
			return nil, fmt.Errorf("%w; it asks to come back in %s, which is longer than kennel waits", refusal, wait)
		}
		d.say("the app is busy; trying again in %s (%d of %d)", wait, try, maxBusyRetries)
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (d draw) post(ctx context.Context, accept string) (*http.Response, error) {
	address := strings.TrimSuffix(d.base.String(), "/") +
		"/api/sequences/" + url.PathEscape(d.sequence) + "/next?count=" + strconv.Itoa(d.count)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, http.NoBody)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", accept)
	if d.key != "" {
		req.Header.Set("x-functions-key", d.key)
	}
	return d.client.Do(req)
}

// expectType makes sure that it is the app who answered, not the sign-in page
// of a proxy on the way.
func (d draw) expectType(resp *http.Response, want string) error {
	got, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if got == want {
		return nil
	}
	resp.Body.Close()
	return fmt.Errorf("%s answered %q where the app answers %q: is it the app's address?", d.base, got, want)
}

// explainSilence says why there was no answer at all.
func (d draw) explainSilence(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if dns, ok := errors.AsType[*net.DNSError](err); ok && dns.IsNotFound {
		return fmt.Errorf("there is no host %q: check --url", d.base.Hostname())
	}
	op, ok := errors.AsType[*net.OpError](err)
	if ok && op.Op == "dial" && isLocal(d.base.Hostname()) {
		return fmt.Errorf("nothing answers at %s: is the app running? start it with `make run`", d.base)
	}
	if ok && op.Op == "dial" {
		return fmt.Errorf("nothing answers at %s: check --url, and that the app runs (%w)", d.base, op.Err)
	}
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		err = wrapped.Err // it would repeat the address
	}
	return fmt.Errorf("no answer from %s: %w; numbers may have been drawn, and then they are a gap", d.base, err)
}

// explainRefusal says what an answer other than 200 means. The app explains
// itself in JSON; the host in front of it often says nothing.
func (d draw) explainRefusal(resp *http.Response, body []byte) error {
	var own struct {
		Error struct{ Code, Message string }
	}
	if json.Unmarshal(body, &own) == nil && own.Error.Message != "" {
		return fmt.Errorf("the app answered %d %s: %s", resp.StatusCode, own.Error.Code, own.Error.Message)
	}
	switch {
	case resp.StatusCode == http.StatusUnauthorized && d.key == "":
		return fmt.Errorf("the app at %s wants a function key (401): put it into KENNEL_KEY, or give --key", d.base)
	case resp.StatusCode == http.StatusUnauthorized:
		return fmt.Errorf("the app at %s does not accept this function key (401)", d.base)
	case resp.StatusCode == http.StatusNotFound:
		return fmt.Errorf("%s answers, but has no sequences (404): is it the app's address, without /api?", d.base)
	case resp.Header.Get("Location") != "":
		return fmt.Errorf("%s points elsewhere (%d), to %s: give the address it points to with --url",
			d.base, resp.StatusCode, resp.Header.Get("Location"))
	}
	return fmt.Errorf("the app at %s answered %s", d.base, resp.Status)
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
