package client

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

const (
	maxAnswer = 1 << 20  // bytes of an answer that is not a list
	maxPage   = 64 << 20 // bytes of a page of a list, which ends at about 1 MiB of text, before it is escaped

	// requestTimeout is long enough for a cold start of the app in Azure.
	requestTimeout = 100 * time.Second
)

// A request is one HTTP request to the app.
type request struct {
	method  string
	path    string // after /api, escaped, with query
	body    any    // sent as JSON; nil for none
	upload  *upload
	accept  string            // "": JSON
	ifMatch string            // "" for none
	key     string            // in Idempotency-Key; "" for none
	header  map[string]string // others

	repeats repeats
	effect  string        // what the request may have done, for an error; "" for a read
	takes   time.Duration // how long the app may wait before it answers
	within  time.Duration // no repeat but the first begins later; 0: no limit
	limit   int64         // bytes of the answer; 0: maxAnswer
}

// repeats is when a request may be sent again.
type repeats int

const (
	ifUnchanged repeats = iota // if nothing was changed, as the app reports, or a 429 means
	ifBusy                     // also after any other 503 with Retry-After
	always                     // also after a lost answer
)

// An upload is a body that is sent as it is.
type upload struct {
	kind string // the content type
	body []byte
}

// response is a successful answer, read to its end.
type response struct {
	status int
	kind   string // the content type, without parameters
	body   []byte
}

// received keeps an answer as it was received.
type received struct{ line json.RawMessage }

// JSON returns the answer of the app on one line, otherwise unchanged.
func (r received) JSON() json.RawMessage { return r.line }

func (r *received) keep(line json.RawMessage) { r.line = line }

// keeper is an answer that embeds received.
type keeper interface{ keep(json.RawMessage) }

// once sends a request without repeating it.
func (c *Client) once(ctx context.Context, r request) (*response, error) {
	limit := requestTimeout + r.takes
	limited, release := context.WithTimeout(ctx, limit)
	defer release()
	req, err := c.newRequest(limited, r)
	if err != nil {
		return nil, err
	}
	answer, err := c.opt.HTTP.Do(req)
	var body []byte
	if err == nil {
		defer answer.Body.Close()
		body, err = io.ReadAll(io.LimitReader(answer.Body, max(r.limit, maxAnswer)+1))
		if answer.StatusCode/100 != 2 {
			return nil, c.refused(answer, body, r) // with what arrived before an error
		}
	}
	switch {
	case err == nil:
	case ctx.Err() != nil:
		return nil, c.noAnswer(ctx.Err(), r)
	case limited.Err() != nil:
		return nil, c.noAnswer(fmt.Errorf("waited for %v", limit), r)
	default:
		return nil, c.noAnswer(err, r)
	}
	if int64(len(body)) > max(r.limit, maxAnswer) {
		return nil, c.unexpected(r, "it is longer than %d bytes", max(r.limit, maxAnswer))
	}
	kind, _, _ := mime.ParseMediaType(answer.Header.Get("Content-Type"))
	return &response{answer.StatusCode, kind, body}, nil
}

func (c *Client) newRequest(ctx context.Context, r request) (*http.Request, error) {
	body, kind := io.Reader(http.NoBody), ""
	switch { // bodies of known length: the Functions host rejects chunked ones with 500
	case r.body != nil:
		text, err := encode(r.body)
		if err != nil {
			return nil, err
		}
		body, kind = bytes.NewReader(text), "application/json"
	case r.upload != nil:
		body, kind = bytes.NewReader(r.upload.body), r.upload.kind
	}
	req, err := http.NewRequestWithContext(ctx, r.method, c.address+"/api"+r.path, body)
	if err != nil {
		return nil, invalidf("the request cannot be sent: %v", err)
	}
	req.Header.Set("Accept", cmp.Or(r.accept, "application/json"))
	req.Header.Set("User-Agent", c.opt.UserAgent)
	if kind != "" {
		req.Header.Set("Content-Type", kind)
	}
	for name, value := range r.header {
		req.Header.Set(name, value)
	}
	if r.ifMatch != "" {
		req.Header.Set("If-Match", r.ifMatch)
	}
	if r.key != "" {
		req.Header.Set("Idempotency-Key", r.key)
	}
	if c.opt.Key != "" {
		req.Header.Set("x-functions-key", c.opt.Key)
	}
	return req, nil
}

// refused explains an answer that is not a success. The app sends code and
// message in JSON; the host in front of it often sends no body.
func (c *Client) refused(answer *http.Response, body []byte, r request) *Error {
	var own struct {
		Error struct {
			Code, Message string
			Items         []BadItem
		}
	}
	e := &Error{
		Status:     answer.StatusCode,
		RequestID:  answer.Header.Get("X-Request-Id"),
		RetryAfter: retryAfter(answer.Header, time.Now()),
		Address:    c.address,
		Location:   answer.Header.Get("Location"),
		effect:     r.effect,
	}
	if r.upload != nil {
		e.sent = len(r.upload.body)
	}
	if json.Unmarshal(body, &own) == nil {
		e.Code, e.Message, e.Items = own.Error.Code, own.Error.Message, own.Error.Items
	}
	return e
}

func (c *Client) noAnswer(err error, r request) error {
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		err = wrapped.Err // it would repeat the address
	}
	return &NoAnswerError{Address: c.address, Connected: connected(err), Err: err, effect: r.effect}
}

func (c *Client) unexpected(r request, format string, args ...any) error {
	return &UnexpectedError{c.address, fmt.Errorf(format, args...), r.effect}
}

// expect checks that an answer without an error is for the requested name. The
// error names it with what, such as "for channel".
func (c *Client) expect(r request, err error, what, name, want string) error {
	if err == nil && name != want {
		return c.unexpected(r, "it is not %s %q", what, want)
	}
	return err
}

// decode decodes an answer. Its content type detects an answer that is not from
// the app but, for example, the sign-in page of a proxy.
func (c *Client) decode(answer *response, r request, into keeper) error {
	if answer.kind != "application/json" {
		return &UnexpectedError{c.address, fmt.Errorf("content type %q instead of JSON; check that the address is the app's", answer.kind), ""}
	}
	if err := decodeJSON(answer.body, into); err != nil {
		return c.unexpected(r, "%w", err)
	}
	return nil
}

func decodeJSON(text []byte, into keeper) error {
	var line bytes.Buffer
	if err := json.Compact(&line, text); err != nil {
		return err
	}
	if err := json.Unmarshal(text, into); err != nil {
		return err
	}
	into.keep(line.Bytes())
	return nil
}

// encode returns v as JSON on one line.
func encode(v any) ([]byte, error) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(v)
	return bytes.TrimSuffix(text.Bytes(), []byte("\n")), err
}

// checkTexts reports a text that JSON would alter.
func checkTexts(texts ...string) error {
	for _, text := range texts {
		if !utf8.ValidString(text) {
			return invalidf("%.40q is not valid UTF-8", text)
		}
	}
	return nil
}

// checkName reports a name that cannot be part of an address. All other rules
// are the app's.
func checkName(what, name string) error {
	switch name {
	case "":
		return invalidf("the name of the %s is empty", what)
	case ".", "..":
		return invalidf("a %s cannot have the name %q", what, name)
	}
	if changed.MatchString(name) {
		return invalidf("a %s cannot have the name %q: the Functions host would change it into another name", what, name)
	}
	return nil
}

// changed are the names that the host changes when it forwards their address,
// even if they are encoded: it decodes an escape once more, a backslash becomes a
// slash, a question mark or number sign ends the address, and so does a blank at
// its end.
var changed = regexp.MustCompile("%[0-9A-Fa-f]{2}|[?#\\\\\x00]|[ \t\r\n]$")

// checkKey reports a key that cannot be in a header.
func checkKey(what, key string) error {
	if key == "" || len(key) > maxKey || strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return invalidf("the key of a %s must have 1 to %d visible ASCII characters", what, maxKey)
	}
	return nil
}

const maxKey = 128

// retryAfter returns the value of the Retry-After header, which is a number of
// seconds or a date, or 0 if there is none.
func retryAfter(header http.Header, now time.Time) time.Duration {
	value := header.Get("Retry-After")
	if seconds, err := strconv.ParseUint(value, 10, 31); err == nil {
		return max(time.Duration(seconds)*time.Second, time.Second)
	}
	if at, err := http.ParseTime(value); err == nil {
		return max(at.Sub(now).Round(time.Second), time.Second)
	}
	return 0
}
