package rest

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"net/http"
	"time"
)

// An Error is an answer that says why a request was refused, with a code of
// Microsoft's documentation.
type Error struct {
	Status  int
	Code    string
	Message string

	// Details are further elements of the XML, in pairs of name and text, such
	// as QueryParameterName and its value.
	Details []string

	// Header is added to the answer.
	Header http.Header
}

func (e *Error) Error() string { return fmt.Sprintf("%d %s: %s", e.Status, e.Code, e.Message) }

// Fail returns an error.
func Fail(status int, code, format string, args ...any) *Error {
	return &Error{Status: status, Code: code, Message: fmt.Sprintf(format, args...)}
}

// The errors that all services share.

// InvalidHeader is the error of a header that cannot be read.
func InvalidHeader(name, value string) *Error {
	e := Fail(400, "InvalidHeaderValue", "The value for one of the HTTP headers is not in the correct format.")
	e.Details = []string{"HeaderName", name, "HeaderValue", value}
	return e
}

// InvalidQuery is the error of a query parameter that cannot be read.
func InvalidQuery(name, value, reason string) *Error {
	e := Fail(400, "InvalidQueryParameterValue", "Value for one of the query parameters specified in the request URI is invalid.")
	e.Details = []string{"QueryParameterName", name, "QueryParameterValue", value, "Reason", reason}
	return e
}

// OutOfRange is the error of a query parameter below or above its limits.
func OutOfRange(name, value string, low, high int64) *Error {
	e := Fail(400, "OutOfRangeQueryParameterValue", "One of the query parameters specified in the request URI is outside the permissible range.")
	e.Details = []string{"QueryParameterName", name, "QueryParameterValue", value, "MinimumAllowed", fmt.Sprint(low), "MaximumAllowed", fmt.Sprint(high)}
	return e
}

// InvalidXML is the error of a body that is no XML of the documented form.
func InvalidXML(reason string) *Error {
	e := Fail(400, "InvalidXmlDocument", "XML specified is not syntactically valid.")
	e.Details = []string{"Reason", reason}
	return e
}

// MissingHeader is the error of a call without a header that it needs.
func MissingHeader(name string) *Error {
	e := Fail(400, "MissingRequiredHeader", "An HTTP header that's mandatory for this request is not specified.")
	e.Details = []string{"HeaderName", name}
	return e
}

// XML returns the answer of the blob and the queue service for an error.
func (e *Error) XML(r *Request) *Answer {
	var b bytes.Buffer
	b.WriteString(`<?xml version="1.0" encoding="utf-8"?><Error><Code>`)
	_ = xml.EscapeText(&b, []byte(e.Code))
	b.WriteString(`</Code><Message>`)
	_ = xml.EscapeText(&b, []byte(e.text(r)))
	b.WriteString(`</Message>`)
	for i := 0; i+1 < len(e.Details); i += 2 {
		b.WriteString("<" + e.Details[i] + ">")
		_ = xml.EscapeText(&b, []byte(e.Details[i+1]))
		b.WriteString("</" + e.Details[i] + ">")
	}
	b.WriteString(`</Error>`)
	return e.answer("application/xml", b.Bytes())
}

// JSON returns the answer of the table service for an error.
func (e *Error) JSON(r *Request) *Answer {
	type message struct {
		Lang  string `json:"lang"`
		Value string `json:"value"`
	}
	type body struct {
		Code    string  `json:"code"`
		Message message `json:"message"`
	}
	text, _ := json.Marshal(map[string]body{"odata.error": {e.Code, message{"en-US", e.text(r)}}}) // strings can always be written
	return e.answer("application/json;odata=minimalmetadata;streaming=true;charset=utf-8", text)
}

func (e *Error) text(r *Request) string {
	return e.Message + "\nRequestId:" + r.ID + "\nTime:" + r.Now.Format("2006-01-02T15:04:05.0000000Z")
}

func (e *Error) answer(contentType string, body []byte) *Answer {
	a := &Answer{Status: e.Status, Header: e.Header.Clone()}
	a.With(contentType, body)
	a.Header.Set("x-ms-error-code", e.Code)
	return a
}

// Date returns a time as HTTP headers and lists hold it.
func Date(t time.Time) string { return t.UTC().Format(http.TimeFormat) }
