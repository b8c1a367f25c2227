package customhandler

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// An empty answer hangs the host, which is worse than any failure. So every
// answer of this package goes through write: one JSON object, with its content
// type.

func writeAnswer(w http.ResponseWriter, a Answer) { write(w, http.StatusOK, encode(a)) }

func writeError(w http.ResponseWriter, e *Error) {
	h := w.Header()
	for _, name := range []string{"Content-Encoding", "Etag", "Last-Modified"} {
		h.Del(name) // the function set it for the answer that it did not finish
	}
	h["Cache-Control"] = noStore
	if e.Status == http.StatusServiceUnavailable && h.Get("Retry-After") == "" {
		h.Set("Retry-After", "1") // another instance can answer
	}
	write(w, statusOf(e), errorBody(e))
}

// Answered returns the status of the answer to an HTTP call that has begun, or 0
// before.
func Answered(w http.ResponseWriter) int {
	if a, ok := w.(interface{ answered() int }); ok {
		return a.answered()
	}
	return 0
}

// requestID returns the id that ServeHTTP gave to an answer.
func requestID(w http.ResponseWriter) string { return w.Header().Get(headerRequestID) }

func write(w http.ResponseWriter, status int, object []byte) {
	h := w.Header()
	h["Content-Type"] = []string{"application/json"}
	h["Content-Length"] = []string{strconv.Itoa(len(object))}
	w.WriteHeader(status)
	_, _ = w.Write(object) // fails only when the host has gone
}

func errorBody(e *Error) []byte {
	type detail struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	}
	return encode(struct {
		Error detail `json:"error"`
	}{detail{cmp.Or(e.Code, "internal"), cmp.Or(e.Message, http.StatusText(statusOf(e)))}})
}

// statusOf returns the status of an error, 500 if it has none or one that is
// not an error's.
func statusOf(e *Error) int {
	if e.Status < 400 || e.Status > 599 {
		return http.StatusInternalServerError
	}
	return e.Status
}

// standing are the headers that every answer begins with. They are for browsers,
// which the API is not made for: nothing keeps an answer, because a state that
// has changed since would mislead; a text is of the type that the answer names;
// no page shows it in a frame or runs it; and no link passes its address on,
// which may contain a key. A function may replace a value.
//
// The values are shared, so nothing may change them in place.
var standing = []struct {
	name  string
	value []string
}{
	{"Cache-Control", noStore},
	{"Content-Security-Policy", []string{"default-src 'none'; frame-ancestors 'none'"}},
	{"Referrer-Policy", []string{"no-referrer"}},
	{"Strict-Transport-Security", []string{"max-age=31536000"}}, // has no effect over plain HTTP
	{"X-Content-Type-Options", []string{"nosniff"}},
}

// SetStanding gives an answer the headers that every answer of the app has. App
// calls it for its own answers.
func SetStanding(h http.Header) {
	for _, s := range standing {
		h[s.name] = s.value
	}
}

// noStore is the Cache-Control of every error, whatever the function set: a
// cache that keeps a 404 would hide what is created later.
var noStore = []string{"no-store"}

// Limits of the header of a request. The Functions host passes on up to 100
// lines with 32 KiB, and adds some. More than that did not come through it.
const (
	maxHeaderBytes = 64 << 10
	maxHeaderLines = 200
)

// checkHeader returns 431 for a request with too many headers. net/http limits
// their length.
func checkHeader(h http.Header) *Error {
	lines := 0
	for _, values := range h {
		lines += len(values)
	}
	if lines <= maxHeaderLines {
		return nil
	}
	return &Error{http.StatusRequestHeaderFieldsTooLarge, "too_many_headers",
		fmt.Sprintf("The request has %d headers. Send at most %d.", lines, maxHeaderLines)}
}

// httpOutput is the name of the http output binding of every HTTP function.
const httpOutput = "res"

// response is Outputs.res. The status must be called statusCode and the body
// must be a string: the host ignores status and reformats other bodies.
type response struct {
	StatusCode int               `json:"statusCode"`
	Headers    map[string]string `json:"headers,omitempty"`
	Body       string            `json:"body"`
}

func (r response) answer() Answer {
	return Answer{Outputs: map[string]json.RawMessage{httpOutput: encode(r)}}
}

// errorAnswer returns Outputs.res with an error for the caller of ctx's
// invocation.
func errorAnswer(ctx context.Context, e *Error) Answer {
	header := map[string]string{"Content-Type": "application/json", headerRequestID: invocationFrom(ctx).id}
	for _, s := range standing {
		header[s.name] = s.value[0]
	}
	return response{statusOf(e), header, string(errorBody(e))}.answer()
}

// capture is the ResponseWriter of a call in an envelope.
type capture struct {
	header http.Header
	sent   http.Header // header at the time of WriteHeader
	status int         // 0 before WriteHeader
	body   bytes.Buffer
}

func newCapture() *capture { return &capture{header: make(http.Header)} }

func (c *capture) Header() http.Header { return c.header }

func (c *capture) WriteHeader(status int) {
	if status < 100 || status > 999 {
		panic(fmt.Sprintf("invalid WriteHeader code %v", status)) // as net/http does
	}
	if c.begun() || status < 200 { // only the first one counts, and 1xx is not an answer
		return
	}
	c.status, c.sent = status, c.header.Clone()
}

func (c *capture) Write(p []byte) (int, error) {
	c.WriteHeader(http.StatusOK)
	return c.body.Write(p)
}

func (c *capture) Flush() { c.WriteHeader(http.StatusOK) }

func (c *capture) begun() bool { return c.status != 0 }

func (c *capture) answered() int { return c.status }

// answer returns Outputs.res with what net/http would have sent.
func (c *capture) answer(head bool) Answer {
	c.WriteHeader(http.StatusOK)
	out := response{StatusCode: c.status, Headers: make(map[string]string)}
	for name, values := range c.sent {
		switch {
		case len(values) == 0 || slices.Contains(connectionHeaders, name):
		case name == "Set-Cookie": // cookies cannot be joined
			out.Headers[name] = values[0]
		default:
			out.Headers[name] = strings.Join(values, ", ")
		}
	}
	if head || c.status == http.StatusNoContent || c.status == http.StatusNotModified {
		return out.answer()
	}
	out.Body = c.body.String()
	if _, ok := c.sent["Content-Type"]; !ok && c.body.Len() > 0 {
		out.Headers["Content-Type"] = http.DetectContentType(c.body.Bytes())
	}
	return out.answer()
}

// connectionHeaders belong to a connection, not to an answer; the host sets its
// own.
var connectionHeaders = []string{"Connection", "Content-Length", "Keep-Alive", "Trailer", "Transfer-Encoding", "Upgrade"}

// WriteError answers an HTTP call with an error. If the chain of err holds an
// *Error, the caller receives it. Otherwise the caller receives only the kind
// of the failure, and the log the rest. If an answer has begun, WriteError
// breaks it off, because the caller must not take half an answer for a whole
// one.
func WriteError(w http.ResponseWriter, r *http.Request, err error) {
	e := explain(err)
	inv := invocationFrom(r.Context())
	if e.Status >= http.StatusInternalServerError && inv != nil {
		logFailure(r.Context(), inv.log, "HTTP call failed", err)
	}
	if hasBegun(w) {
		panic(http.ErrAbortHandler)
	}
	writeError(w, e)
}

// hasBegun reports whether the answer has begun that is written to w, or to the
// writer within it.
func hasBegun(w http.ResponseWriter) bool {
	for w != nil {
		if b, ok := w.(interface{ begun() bool }); ok {
			return b.begun()
		}
		w = within(w)
	}
	return false
}

// within returns the writer that another one wraps; nil if it wraps none.
func within(w http.ResponseWriter) http.ResponseWriter {
	if u, ok := w.(interface{ Unwrap() http.ResponseWriter }); ok {
		return u.Unwrap()
	}
	return nil
}

// WithRequest returns a writer that knows the request which it answers.
func WithRequest(w http.ResponseWriter, r *http.Request) http.ResponseWriter {
	return requestWriter{w, r}
}

type requestWriter struct {
	http.ResponseWriter
	r *http.Request
}

func (w requestWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// RequestOf returns the request that a writer of [WithRequest], or one that
// wraps it, answers. Of another writer it is an empty one, so that functions can
// be tested alone.
func RequestOf(w http.ResponseWriter) *http.Request {
	for ; w != nil; w = within(w) {
		if known, ok := w.(requestWriter); ok {
			return known.r
		}
	}
	return new(http.Request)
}

// explain maps errors to statuses. No other place does.
func explain(err error) *Error {
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	if e, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return errTooLarge(e.Limit)
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return &Error{http.StatusGatewayTimeout, "timeout",
			"The call exceeded its time limit. It may have been applied. Read the current state before you retry."}
	case errors.Is(err, context.Canceled):
		return &Error{http.StatusServiceUnavailable, "stopped",
			"The call was stopped before it was complete. It may have been applied. Read the current state before you retry."}
	default:
		return &Error{http.StatusInternalServerError, "internal", "The function failed. The cause is in its log."}
	}
}

// failure is the answer to a failed invocation. The host reads only the status.
// A local host shows the rest to the developer, so the cause is in it.
func failure(err error) *Error {
	e := explain(err)
	switch e.Status {
	case http.StatusRequestEntityTooLarge, http.StatusBadRequest:
		return e
	}
	return &Error{http.StatusInternalServerError, e.Code, err.Error()}
}

func errMethod(method string) *Error {
	return &Error{http.StatusMethodNotAllowed, "method_not_allowed",
		fmt.Sprintf("This address does not support the method %.32q. The Allow header lists the methods that it supports.", method)}
}

func errTooLarge(limit int64) *Error {
	return &Error{http.StatusRequestEntityTooLarge, "body_too_large",
		fmt.Sprintf("The body is larger than the limit of %d bytes.", limit)}
}
