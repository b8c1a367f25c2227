package customhandler

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"reflect"
	"strings"
)

// What HTTP functions ask of a request. Each returns an *Error with the status that belongs to it, for WriteError.

// RequireBody returns 411 for a call without a body. One that came without Content-Length, in chunks, is such a call:
// the host drops its body.
func RequireBody(r *http.Request) error {
	if r.ContentLength != 0 {
		return nil
	}
	return &Error{http.StatusLengthRequired, "length_required",
		"this needs a body, sent with a Content-Length; a chunked one is lost on the way through the Functions host"}
}

// HasBody reports whether a call that may come without a body has one. Who says JSON has sent some: if nothing has come,
// it came in chunks, and RequireBody is right to say so.
func HasBody(r *http.Request) bool {
	return r.ContentLength != 0 || strings.HasPrefix(strings.ToLower(r.Header.Get("Content-Type")), "application/json")
}

// ReadJSON reads the body, one JSON value of at most limit bytes, into v. It returns 411, 413, 415, or 400 with the
// place of the mistake. Names that v has no field for are a mistake too, most often a misspelt one; and so is whatever
// could not be passed on exactly as it was sent.
func ReadJSON(r *http.Request, limit int64, v any) error {
	if err := RequireBody(r); err != nil {
		return err
	}
	if err := requireJSON(r); err != nil {
		return err
	}
	body, err := io.ReadAll(http.MaxBytesReader(nil, r.Body, limit))
	if err == nil {
		err = decodeJSON(body, v)
	}
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return errTooLarge(limit)
	}
	return &Error{http.StatusBadRequest, "bad_json", "the body is not the JSON expected here: " + explainJSON(err)}
}

// explainJSON says what is wrong with a body that decodeJSON has refused.
func explainJSON(err error) string {
	if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		what := "it"
		if e.Field != "" {
			what = fmt.Sprintf("field %q", e.Field)
		}
		return fmt.Sprintf("%s is of the wrong kind: %s instead of %s (near byte %d)", what, e.Value, kindOf(e.Type), e.Offset)
	}
	if e, ok := errors.AsType[*json.SyntaxError](err); ok {
		return fmt.Sprintf("%s (near byte %d)", e, e.Offset)
	}
	switch {
	case errors.Is(err, io.EOF):
		return "it is blank"
	case errors.Is(err, io.ErrUnexpectedEOF):
		return "it ends in the middle"
	}
	return strings.TrimPrefix(err.Error(), "json: ")
}

// kindOf says what JSON calls a type.
func kindOf(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String, reflect.Bool:
		return t.Kind().String()
	case reflect.Struct, reflect.Map:
		return "object"
	case reflect.Slice, reflect.Array:
		return "array"
	}
	return "number"
}

// requireJSON returns 415 for a body that says it is something else than JSON, or text of another encoding: read as
// UTF-8 it would be another text.
func requireJSON(r *http.Request) error {
	got := r.Header.Get("Content-Type")
	media, params, err := mime.ParseMediaType(got)
	wrong := ""
	if err != nil || media != "application/json" {
		wrong = fmt.Sprintf("the body's content type is %.128q; this takes application/json", got)
	} else if charset, given := params["charset"]; given && !strings.EqualFold(charset, "utf-8") {
		wrong = fmt.Sprintf("the body's charset is %.128q; JSON is sent as UTF-8 alone", charset)
	}
	if wrong != "" {
		return &Error{http.StatusUnsupportedMediaType, "unsupported_media_type", wrong}
	}
	return nil
}

// Query returns the first value of a query parameter, whose name is found without regard to case, as it is in the host.
func Query(r *http.Request, name string) string {
	query := r.URL.Query()
	if values, ok := query[name]; ok {
		return values[0]
	}
	for key, values := range query {
		if strings.EqualFold(key, name) {
			return values[0]
		}
	}
	return ""
}
