package customhandler

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"unicode/utf8"
)

// HTTP registers a function with an httpTrigger binding and an http output
// binding called "res". Patterns are those of http.ServeMux, with the route
// prefix: "POST /api/sequences/{sequence}/next". Call HTTP again to add routes
// to the same function.
//
// The handler serves forwarded calls and calls in envelopes. In an envelope an
// answer is text, with one value per header and at most one cookie. The host drops
// a body without Content-Length: forwarded, such a call is its own 500, and in an
// envelope it is 411.
func (a *App) HTTP(name, binding string, h http.Handler, patterns ...string) {
	a.Upload(name, binding, a.opt.MaxBody, h, patterns...)
}

// Upload is HTTP for routes whose forwarded calls have bodies of up to maxBody
// bytes. A forwarded body is a stream: nothing of it is kept in memory. The
// function may answer before its end. In an envelope, which is read as a whole,
// the limit is still that of all calls.
func (a *App) Upload(name, binding string, maxBody int64, h http.Handler, patterns ...string) {
	f := a.httpFunction(name, binding, patterns)
	for _, pattern := range patterns {
		a.routes.handle(pattern, &forwarded{log: a.opt.Log, limit: a.opt.HTTPTimeout, running: &a.running, function: name, maxBody: maxBody, next: h})
		f.routes.handle(pattern, h)
	}
}

// Enveloped is HTTP for a function whose function.json has a second output, so that
// all its calls come in envelopes. A forwarded call with such an address came
// through another function, whose level may be another one, and is 404.
func (a *App) Enveloped(name, binding string, h http.Handler, patterns ...string) {
	f := a.httpFunction(name, binding, patterns)
	refuse := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		writeError(w, &Error{http.StatusNotFound, "not_found", fmt.Sprintf(
			"This route is served only to calls that the host sends in an envelope of function %s. If this is its own address, the folder functions/%s is older than the program: run \"kennel functions\" and deploy again.", name, name)})
	})
	for _, pattern := range patterns {
		a.routes.handle(pattern, refuse)
		f.routes.handle(pattern, h)
	}
}

// httpFunction returns a function with routes, which it registers if it is new.
func (a *App) httpFunction(name, binding string, patterns []string) *function {
	f := a.functions[name]
	if f == nil {
		f = &function{name: name, binding: binding, limit: a.opt.HTTPTimeout, routes: newRouter()}
		f.invoke = func(ctx context.Context, e Envelope) (Answer, error) { return a.callHTTP(ctx, f, e) }
		a.register(f)
	}
	if f.routes == nil || f.binding != binding || len(patterns) == 0 {
		panic(fmt.Sprintf("customhandler: HTTP function %q needs a pattern, its own name, and always the same binding (%q)", name, binding))
	}
	return f
}

// callHTTP runs the handler on the call in an envelope. The invocation succeeds
// even if the handler answers with an error, or panics: see serveEnvelope.
func (a *App) callHTTP(ctx context.Context, f *function, e Envelope) (Answer, error) {
	r, err := decodeHTTP(e, f.binding)
	if err != nil {
		return Answer{}, err
	}
	if err := checkHeader(r.Header); err != nil {
		return errorAnswer(ctx, err), nil
	}
	if r.ContentLength > a.opt.MaxBody {
		return errorAnswer(ctx, errTooLarge(a.opt.MaxBody)), nil
	}
	if len(r.TransferEncoding) > 0 && r.ContentLength == 0 {
		return errorAnswer(ctx, errLength), nil
	}
	c := newCapture()
	SetStanding(c.header)
	c.header[headerRequestID] = []string{invocationFrom(ctx).id}
	f.routes.ServeHTTP(c, r.WithContext(ctx))
	if cookies := c.sent.Values("Set-Cookie"); len(cookies) > 1 {
		a.opt.Log.WarnContext(ctx, "an envelope has room for one cookie; the others are lost", "cookies", len(cookies))
	}
	if !utf8.Valid(c.body.Bytes()) {
		a.opt.Log.ErrorContext(ctx, "an envelope cannot carry a binary answer; give the function only its trigger and its http output")
		return errorAnswer(ctx, &Error{http.StatusInternalServerError, "binary_answer", "The answer is binary and cannot be passed on."}), nil
	}
	return c.answer(r.Method == http.MethodHead), nil
}

// decodeHTTP restores the client's request from an envelope. It ignores Params,
// Identities and Metadata: the routes give path values, and the rest repeats
// the request.
func decodeHTTP(e Envelope, binding string) (*http.Request, error) {
	raw, err := e.data(binding)
	if err != nil {
		return nil, err
	}
	var wire struct {
		URL     string `json:"Url"`
		Method  string
		Query   json.RawMessage
		Headers map[string]json.RawMessage
		Body    bodyMember
	}
	_ = json.Unmarshal(objectOf(raw), &wire) // leaves a field of another type empty and reads the rest
	if wire.Method == "" || wire.URL == "" {
		return nil, errEnvelope(fmt.Sprintf("Binding %q holds no HTTP request: Method or Url is missing.", binding))
	}
	r := &http.Request{
		Method: wire.Method, URL: parseURL(wire.URL), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: make(http.Header), Body: http.NoBody,
	}
	for name, values := range wire.Headers {
		for _, value := range oneOrMany(values) {
			r.Header.Add(name, value)
		}
	}
	if r.URL.RawQuery == "" {
		r.URL.RawQuery = parseQuery(wire.Query).Encode()
	}
	r.Host = r.Header.Get("Host")
	if r.Host == "" {
		r.Host = r.URL.Host
	}
	r.URL.Scheme, r.URL.Host = "", "" // as in a request to a server: the caller chose them
	r.Header.Del("Host")              // as net/http does
	r.TransferEncoding = r.Header["Transfer-Encoding"]
	r.Header.Del("Transfer-Encoding")
	r.RequestURI = r.URL.RequestURI()
	if !wire.Body.given {
		return r, nil
	}
	body := wire.Body.text
	if wire.Body.quoted && isBinary(r.Header.Get("Content-Type")) {
		decoded, err := base64.StdEncoding.DecodeString(body)
		if err != nil {
			return nil, errEnvelope("The body has a binary content type but is not base64: " + err.Error() + ".")
		}
		body = string(decoded)
	}
	r.Body, r.ContentLength = io.NopCloser(strings.NewReader(body)), int64(len(body))
	return r, nil
}

// bodyMember is a body in an envelope: a string, which is base64 for the content
// types that the host considers binary. Other hosts may send a JSON body as JSON.
type bodyMember struct {
	given, quoted bool
	text          string
}

// UnmarshalJSON implements [json.Unmarshaler].
func (b *bodyMember) UnmarshalJSON(raw []byte) error {
	b.given = !isNull(raw)
	if b.quoted = raw[0] == '"'; b.quoted {
		return json.Unmarshal(raw, &b.text)
	}
	b.text = string(raw)
	return nil
}

// isBinary reports whether the host sends bodies of a content type as base64.
// It damages other binary types.
func isBinary(contentType string) bool {
	media, _, err := mime.ParseMediaType(contentType)
	if err != nil {
		media, _, _ = strings.Cut(contentType, ";")
		media = strings.ToLower(strings.TrimSpace(media))
	}
	return media == "application/octet-stream" || strings.HasPrefix(media, "multipart/")
}

// parseURL splits the host's Url. Its path is percent-encoded, but the host
// passes on invalid escapes, which url.Parse would reject.
func parseURL(text string) *url.URL {
	u := &url.URL{}
	if scheme, rest, ok := strings.Cut(text, "://"); ok {
		u.Scheme = scheme
		end := strings.IndexAny(rest, "/?")
		if end < 0 {
			end = len(rest)
		}
		u.Host, text = rest[:end], rest[end:]
	}
	text, u.RawQuery, _ = strings.Cut(text, "?")
	if !strings.HasPrefix(text, "/") {
		text = "/" + text
	}
	u.Path = text
	if path, err := url.PathUnescape(text); err == nil {
		u.Path, u.RawPath = path, text
	}
	return u
}

// parseQuery reads the host's Query: an object, or, from very old hosts, a
// string that holds one.
func parseQuery(raw json.RawMessage) url.Values {
	query := url.Values{}
	var values map[string]json.RawMessage
	_ = json.Unmarshal([]byte(textOf(raw)), &values)
	for name, value := range values {
		query[name] = oneOrMany(value)
	}
	return query
}

// oneOrMany reads a string or an array of strings; null has no values.
func oneOrMany(raw json.RawMessage) []string {
	var many []json.RawMessage
	if err := json.Unmarshal(raw, &many); err != nil {
		return []string{elementText(raw)}
	}
	values := make([]string, 0, len(many))
	for _, value := range many {
		values = append(values, elementText(value))
	}
	return values
}
