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

// Checks and readers for HTTP functions. Each returns an *Error for WriteError.

// RequireBody returns 411 for a call without a body. That includes a chunked
// one, without Content-Length: the host drops its body.
func RequireBody(r *http.Request) error {
	if r.ContentLength != 0 {
		return nil
	}
	return errLength
}

var errLength = &Error{http.StatusLengthRequired, "length_required",
	"The body is missing or empty. Send one with its Content-Length: the Functions host drops chunked bodies."}

// HasBody reports whether a call that may come without a body has one. A call
// with the content type JSON had one: if it is missing, it was chunked, and
// RequireBody reports that.
func HasBody(r *http.Request) bool {
	return r.ContentLength != 0 || strings.HasPrefix(strings.ToLower(r.Header.Get("Content-Type")), "application/json")
}

// ReadJSON reads the body, one JSON value of at most limit bytes, into v. It
// returns 411, 413, 415, or 400 with the place of the mistake. It rejects names
// that v has no field for, which are most often misspelt, and whatever v would
// not represent exactly.
func ReadJSON(r *http.Request, limit int64, v any) error {
	if err := RequireBody(r); err != nil {
		return err
	}
	if err := requireJSON(r); err != nil {
		return err
	}
	if r.ContentLength > limit {
		return errTooLarge(limit)
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
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	return &Error{http.StatusBadRequest, "bad_json", "The body is not the expected JSON: " + ExplainJSON(err) + "."}
}

// DecodeJSON reads one JSON value, such as that of a header, into v. It is as
// strict as ReadJSON. Its error describes the mistake, for a caller.
func DecodeJSON(text string, v any) error {
	if err := decodeJSON([]byte(text), v); err != nil {
		return errors.New(ExplainJSON(err))
	}
	return nil
}

// ExplainJSON describes the mistake in a text that encoding/json or DecodeJSON
// rejected, without a name of Go.
func ExplainJSON(err error) string {
	if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		what := "it"
		if e.Field != "" {
			what = fmt.Sprintf("field %q", e.Field)
		}
		if number, ok := strings.CutPrefix(e.Value, "number "); ok {
			return fmt.Sprintf("%s has the number %.40s, which is out of range (near byte %d)", what, number, e.Offset)
		}
		return fmt.Sprintf("%s has the wrong type: %s instead of %s (near byte %d)", what, e.Value, kindOf(e.Type), e.Offset)
	}
	if e, ok := errors.AsType[*json.SyntaxError](err); ok {
		return fmt.Sprintf("%s (near byte %d)", e, e.Offset)
	}
	switch {
	case errors.Is(err, io.EOF):
		return "it is blank"
	case errors.Is(err, io.ErrUnexpectedEOF):
		return "it is incomplete"
	}
	return strings.TrimPrefix(err.Error(), "json: ")
}

// kindOf returns the JSON name of a type.
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

// requireJSON returns 415 for a body whose content type is not JSON, or whose
// charset is not UTF-8: decoded as UTF-8 it would be another text.
func requireJSON(r *http.Request) error {
	got := r.Header.Get("Content-Type")
	media, params, err := mime.ParseMediaType(got)
	wrong := ""
	if err != nil || media != "application/json" {
		wrong = fmt.Sprintf("The content type of the body is %.128q instead of application/json.", got)
	} else if charset, given := params["charset"]; given && !strings.EqualFold(charset, "utf-8") {
		wrong = fmt.Sprintf("The charset of the body is %.128q instead of utf-8.", charset)
	}
	if wrong != "" {
		return &Error{http.StatusUnsupportedMediaType, "unsupported_media_type", wrong}
	}
	return nil
}

// Query returns the first value of a query parameter. Like the host, it ignores
// the case of the name.
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
