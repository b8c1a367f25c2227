package apptest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"kennel/internal/customhandler"
)

// Checked is a transport that checks what it carries.
type Checked struct{ t testing.TB }

// NewChecked returns a transport that checks what it carries.
func NewChecked(t testing.TB) Checked { return Checked{t} }

func (c Checked) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		return nil, err
	}
	answer.Body = io.NopCloser(bytes.NewReader(body))
	CheckDescribed(c.t, r, BodyOf(r), answer.StatusCode, answer.Header, string(body))
	return answer, nil
}

// ServeDescribed serves a request in this process, and checks it with its
// answer.
func ServeDescribed(t testing.TB, host http.Handler, r *http.Request, body string) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	host.ServeHTTP(w, r)
	CheckDescribed(t, r, body, w.Code, w.Header(), w.Body.String())
	return w
}

// Enveloped returns the request with which the host sends an envelope.
func Enveloped(ctx context.Context, function, text string) *http.Request {
	r, err := customhandler.NewEnvelopeRequest(ctx, "http://127.0.0.1", function, []byte(text))
	if err != nil {
		panic(err)
	}
	return r
}

// BodyOf returns the body that a client sent, or "" if it was a stream.
func BodyOf(r *http.Request) string {
	if r.GetBody == nil {
		return ""
	}
	body, _ := r.GetBody()
	text, _ := io.ReadAll(body)
	return string(text)
}

// CheckDescribed reports an answer that docs/openapi.yaml does not describe, and
// a request that was accepted although it is not described. All requests of the
// tests go through it. Those that only the Functions host sends are not part of
// the API, and neither is the page of the console.
func CheckDescribed(t testing.TB, r *http.Request, sent string, status int, header http.Header, body string) {
	t.Helper()
	isPage := strings.HasPrefix(r.URL.Path+"/", consoleAt+"/") && !strings.HasPrefix(r.URL.Path, consoleAt+"/api/")
	if isPage || !strings.HasPrefix(r.URL.Path, "/api/") {
		return
	}
	if err := Described(t).check(r, sent, status, header, body); err != nil {
		t.Errorf("docs/openapi.yaml does not describe %s %.200s: %d %v %.300s\n%v", r.Method, r.URL.RequestURI(), status, header, body, err)
	}
}

func (d *document) check(r *http.Request, sent string, status int, header http.Header, body string) error {
	op, values, known := d.find(r)
	if op == nil {
		return d.checkUnknown(known, status, header, body)
	}
	answer := op.Responses[strconv.Itoa(status)]
	if answer == nil {
		return fmt.Errorf("%s has no answer %d", op.OperationID, status)
	}
	if err := answer.check(r.Method, header, body); err != nil || r.Method == http.MethodHead {
		return err
	}
	if status >= http.StatusBadRequest {
		return d.checkCode(answer, status, body)
	}
	if err := errors.Join(op.checkParameters(r, values), op.checkBody(r.Header.Get("Content-Type"), sent)); err != nil {
		return fmt.Errorf("the request was accepted, but is not described: %w", err)
	}
	return nil
}

// checkCode checks that an answer can have the code of an error. Every route can
// be answered with those of BadRequest.
func (d *document) checkCode(answer *response, status int, body string) error {
	value, err := jsonschema.UnmarshalJSON(strings.NewReader(body))
	if err != nil {
		return err
	}
	codes := answer.Codes()
	if status == http.StatusBadRequest {
		codes = append(codes, d.Components.Responses["BadRequest"].Codes()...)
	}
	if code, _ := Member(value, "error", "code").(string); !slices.Contains(codes, code) {
		return fmt.Errorf("code %q is not in the examples of the answer", code)
	}
	return nil
}

// find returns the operation of a request with the parameters in its address,
// or nil; then known reports whether the address has another method.
func (d *document) find(r *http.Request) (op *operation, values map[string]string, known bool) {
	wanted := r.Method
	if wanted == http.MethodHead {
		wanted = http.MethodGet
	}
	for pattern, op := range d.Operations {
		method, template, _ := strings.Cut(pattern, " ")
		values, fits := match(template, strings.TrimPrefix(r.URL.EscapedPath(), consoleAt))
		if fits && method == wanted {
			return op, values, true
		}
		known = known || fits
	}
	return nil, nil, known
}

// match fits an address to a template and returns its parameters.
func match(template, path string) (values map[string]string, ok bool) {
	want, got := strings.Split(template, "/"), strings.Split(path, "/")
	if len(want) != len(got) {
		return nil, false
	}
	values = make(map[string]string)
	for i, segment := range want {
		if name, isParameter := strings.CutPrefix(segment, "{"); isParameter {
			values[strings.TrimSuffix(name, "}")], _ = url.PathUnescape(got[i])
		} else if segment != got[i] {
			return nil, false
		}
	}
	return values, true
}

// checkUnknown checks the two answers that belong to no operation.
func (d *document) checkUnknown(known bool, status int, header http.Header, body string) error {
	if err := d.anyError.checkJSON(body); err != nil {
		return err
	}
	want, code := http.StatusNotFound, `"not_found"`
	if known {
		want, code = http.StatusMethodNotAllowed, `"method_not_allowed"`
	}
	if status != want || !strings.Contains(body, code) || known && header.Get("Allow") == "" {
		return fmt.Errorf("there is no such operation; want %d %s", want, code)
	}
	return nil
}

// transport are the headers that every answer may have, besides those that it
// has.
var transport = []string{"Content-Type", "Content-Length", "Date", "Connection"}

func (a *response) check(method string, header http.Header, body string) error {
	left := header.Clone()
	for name, h := range a.Headers {
		value := header.Get(name)
		if value == "" && h.Required {
			return fmt.Errorf("the header %s is missing", name)
		}
		if value != "" {
			if err := h.check(value); err != nil {
				return fmt.Errorf("header %s: %w", name, err)
			}
		}
		left.Del(name)
	}
	standing := make(http.Header)
	customhandler.SetStanding(standing)
	for name, want := range standing {
		if !slices.Equal(header[name], want) {
			return fmt.Errorf("the header %s is %q, want %q", name, header[name], want)
		}
	}
	for name := range left {
		if !slices.Contains(transport, name) && standing[name] == nil {
			return fmt.Errorf("the header %s is not described", name)
		}
	}
	contentType := header.Get("Content-Type")
	if len(a.Content) == 0 && contentType == "" && body == "" {
		return nil
	}
	kind, _, _ := mime.ParseMediaType(contentType)
	content := a.Content[kind]
	switch {
	case content == nil:
		return fmt.Errorf("the content type %q is not described", contentType)
	case method == http.MethodHead:
		return nil
	case kind == "application/json":
		return content.checkJSON(body)
	}
	return content.Compiled.Validate(body)
}

func (m *media) checkJSON(text string) error {
	value, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		return err
	}
	return m.Compiled.Validate(value)
}

// checkParameters checks parameters and conditions. Values are those of the
// parameters in the address.
func (op *operation) checkParameters(r *http.Request, values map[string]string) error {
	query := r.URL.Query()
	for name := range query {
		if slices.ContainsFunc([]string{"code", "clientId"}, func(h string) bool { return strings.EqualFold(name, h) }) {
			delete(query, name)
		}
	}
	header := r.Header.Clone()
	for _, p := range op.Parameters {
		value, given := values[p.Name], p.In == "path"
		if p.In == "header" {
			value, given = header.Get(p.Name), header[p.Name] != nil
			delete(header, p.Name)
		}
		for name := range query {
			if p.In == "query" && strings.EqualFold(name, p.Name) {
				value, given = query.Get(name), true
				delete(query, name)
			}
		}
		if !given && p.Required {
			return fmt.Errorf("%s is missing", p.Name)
		}
		if given {
			if err := p.check(value); err != nil {
				return fmt.Errorf("%s: %w", p.Name, err)
			}
		}
	}
	for _, name := range []string{"If-Match", "If-None-Match", "Idempotency-Key", "If-Modified-Since", "If-Unmodified-Since", "If-Range"} {
		if header[name] != nil {
			return fmt.Errorf("the condition %s", name)
		}
	}
	if len(query) > 0 {
		return fmt.Errorf("the query %v", query)
	}
	return nil
}

func (op *operation) checkBody(contentType, body string) error {
	if op.RequestBody == nil {
		if body != "" {
			return errors.New("a body")
		}
		return nil
	}
	if body == "" && !op.RequestBody.Required {
		return nil
	}
	kind, _, _ := mime.ParseMediaType(contentType)
	content := op.RequestBody.Content[kind]
	if op.RequestBody.Content["*/*"] != nil {
		return nil
	}
	if content == nil {
		return fmt.Errorf("a body of type %q", kind)
	}
	if kind != "application/json" {
		return content.Compiled.Validate(body)
	}
	return content.checkJSON(body)
}

// consoleAt is where people call the API.
const consoleAt = "/api/console"
