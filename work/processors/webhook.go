// Package processors has the processors that Kennel comes with: [Billing] rates
// transactions, [Webhook] sends items to other programs.
package processors

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"kennel/internal/retryafter"
	"kennel/work"
	"kennel/work/internal/report"
)

// Webhook is the processor "webhook". It sends the body of each item to a URL of
// a list of allowed base URLs. An item is an object with
//
//   - id,
//   - url: under one of the base URLs,
//   - body: any JSON value, which is sent as it is, as application/json.
//
// The receiver gets a POST request. The header Idempotency-Key is the SHA-256 of
// the item, id included, in hexadecimal: each try of an item has the same key, so
// the receiver can drop repeats. Equal items of two batches have the same key
// too.
//
// An answer 2xx is done; the result is {"status","body"} with the first bytes of
// the answer, even if its rest did not arrive. After 408, 429, 5xx, an error of
// the network and the time limit of an item, the item is tried again, after a 429
// or 503 not before the time in its header Retry-After. Any other answer rejects
// it. Redirects are followed at most three times, only if they keep the method
// (307, 308), and only to an allowed URL.
//
// Requests go only to public addresses, so that no item reaches a network that
// only this app reaches. Whether an address is allowed is checked when the
// connection is made. The exceptions are made by base URLs: one whose host is an
// address allows that address, localhost allows loopback addresses, and one
// written private+https://host/… allows private addresses for its host.
// Link-local addresses, such as that of the metadata service, are never allowed.
// Proxies of the environment are not used.
type Webhook struct {
	list      allowList
	transport *http.Transport // not a client, which follows redirects and fails for a bad Location
}

// WebhookOptions are the optional parts of a [Webhook]; nil and zero fields mean
// the defaults.
type WebhookOptions struct {
	Resolver *net.Resolver // of host names; default net.DefaultResolver
}

// NewWebhook returns a webhook for these base URLs, http or https. A base URL
// allows the URLs of its scheme, host and port whose path is its own, or begins
// with it and a slash. Without base URLs no item is valid.
func NewWebhook(allow []string, options *WebhookOptions) (*Webhook, error) {
	list, err := newAllowList(allow)
	if err != nil {
		return nil, err
	}
	if options == nil {
		options = &WebhookOptions{}
	}
	return &Webhook{list, &http.Transport{
		DialContext:            guard{list, options.Resolver}.dial,
		ForceAttemptHTTP2:      true,
		DisableCompression:     true, // nothing to unpack, so no bomb
		MaxIdleConns:           64,
		MaxIdleConnsPerHost:    16,
		IdleConnTimeout:        time.Minute,
		TLSHandshakeTimeout:    10 * time.Second,
		MaxResponseHeaderBytes: 64 << 10,
	}}, nil
}

// Validate implements [Processor].
func (w *Webhook) Validate(item json.RawMessage) error {
	_, _, err := w.read(item)
	return err
}

// Accepts implements [Selective]: the list of this process may differ from that
// of the one that took the item.
func (w *Webhook) Accepts(item work.Item) error {
	_, _, err := w.read(item.Data)
	return err
}

func (w *Webhook) read(item []byte) (u *url.URL, body []byte, err error) {
	if !json.Valid(item) {
		return nil, nil, errSyntax
	}
	m := [...]field{{name: "id"}, {name: "url"}, {name: "body"}}
	if err := readFields(item, m[:]); err != nil {
		return nil, nil, err
	}
	text, err := m[1].text()
	if err != nil {
		return nil, nil, err
	}
	if m[2].value == nil {
		return nil, nil, errors.New("body is missing")
	}
	u, err = w.list.find(string(text))
	return u, m[2].value, err
}

// maxRedirects is how many redirects of one item are followed.
const maxRedirects = 3

// Process implements [Processor].
func (w *Webhook) Process(ctx context.Context, item work.Item) (json.RawMessage, error) {
	to, body, err := w.read(item.Data)
	if err != nil {
		return nil, err // cannot occur: Accepts was called before
	}
	digest := sha256.Sum256(item.Data)
	key := hex.EncodeToString(digest[:])
	for range maxRedirects + 1 {
		a, err := w.post(ctx, to, key, body)
		if err != nil {
			return nil, err
		}
		switch {
		case a.status >= 200 && a.status <= 299:
			return a.result()
		case a.status == http.StatusTemporaryRedirect || a.status == http.StatusPermanentRedirect:
			if to, err = w.redirect(to, a); errors.Is(err, errNotListed) {
				return nil, err // of this process; so the item is tried again
			} else if err != nil {
				return nil, fmt.Errorf("%w: %w", work.ErrRejected, err)
			}
		case a.status == http.StatusRequestTimeout || a.status == http.StatusTooManyRequests || a.status >= 500:
			err := errors.New(a.String())
			if a.retryAfter > 0 && (a.status == http.StatusTooManyRequests || a.status == http.StatusServiceUnavailable) {
				// Many receivers send 1 as long as they are busy: the attempts of the
				// item would be used up in seconds, so the usual wait is the shortest.
				return nil, &work.Later{Wait: a.retryAfter, AtLeast: true, Err: err}
			}
			return nil, err
		default:
			return nil, fmt.Errorf("%w: %s", work.ErrRejected, a)
		}
	}
	return nil, fmt.Errorf("%w: more than %d redirects", work.ErrRejected, maxRedirects)
}

// New implements [Processor].
func (w *Webhook) NewReport(batch string) work.Report { return report.New(batch) }

func (w *Webhook) post(ctx context.Context, to *url.URL, key string, body []byte) (a answer, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to.String(), bytes.NewReader(body))
	if err != nil {
		return a, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Idempotency-Key", key)
	req.Header.Set("User-Agent", "kennel")
	resp, err := w.transport.RoundTrip(req)
	if refused, ok := errors.AsType[*addressError](err); ok && isPrivate(refused.ip) {
		return a, refused // another list may allow it
	} else if ok {
		return a, fmt.Errorf("%w: %w", work.ErrRejected, refused)
	}
	if err != nil { // without the URL, which may contain a secret
		return a, fmt.Errorf("the request to %s failed: %w", to.Host, err)
	}
	defer resp.Body.Close()
	a = answer{status: resp.StatusCode, location: resp.Header.Get("Location"), retryAfter: retryafter.Parse(resp.Header.Get("Retry-After"), time.Now())}
	// The status decides. What is missing of the rest is not worth another
	// request to a receiver that has done its part.
	a.body, _ = io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	io.CopyN(io.Discard, resp.Body, maxRest) // a connection is used again after its whole answer
	return a, nil
}

func (w *Webhook) redirect(from *url.URL, a answer) (*url.URL, error) {
	to, err := from.Parse(a.location)
	if err != nil || a.location == "" {
		return nil, fmt.Errorf("a redirect (%d) without a valid location", a.status)
	}
	to.Fragment = ""
	u, err := w.list.find(to.String())
	if err != nil {
		return nil, fmt.Errorf("a redirect (%d): %w", a.status, err)
	}
	return u, nil
}

// Limits of an answer in bytes. Longer texts are cut off.
const (
	maxAnswer = work.MaxResult - 100 // read and recorded; the rest of a result needs less than 100
	maxRest   = 64 << 10             // read and dropped
	maxReason = 200                  // in an error
)

// answer is the answer of a receiver.
type answer struct {
	status     int
	location   string
	retryAfter time.Duration // 0: none
	body       []byte
}

// String returns the answer for an error: one line.
func (a answer) String() string {
	s := fmt.Sprintf("the receiver answered %d %s", a.status, http.StatusText(a.status))
	line := strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, string(cut(a.body, maxReason)))
	if line = strings.TrimSpace(line); line != "" {
		s += ": " + line
	}
	return s
}

// result returns the result of an item. A text that grows because its characters
// have to be escaped is recorded up to a third of the length, or less.
func (a answer) result() (json.RawMessage, error) {
	for body := cut(a.body, maxAnswer); ; body = cut(body, len(body)/3) {
		var b bytes.Buffer
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false)
		if err := e.Encode(struct {
			Status int    `json:"status"`
			Body   string `json:"body"`
		}{a.status, string(body)}); err != nil {
			return nil, err
		}
		if text := bytes.TrimSpace(b.Bytes()); len(text) <= work.MaxResult {
			return text, nil
		}
	}
}

// cut returns at most the first n bytes of a text, without a part of a
// character at the end.
func cut(text []byte, n int) []byte {
	text = text[:min(n, len(text))]
	for i := 1; i < utf8.UTFMax && i <= len(text); i++ {
		if rest := text[len(text)-i:]; utf8.RuneStart(rest[0]) {
			if !utf8.FullRune(rest) {
				return text[:len(text)-i]
			}
			break
		}
	}
	return text
}
