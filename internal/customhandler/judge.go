package customhandler

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
)

// The reasons of an AnswerError, for errors.Is.
var (
	// ErrStatus reports a status that is not 2xx. The invocation fails, and the
	// host drops the body and its Logs.
	ErrStatus = errors.New("the status is not 2xx")
	// ErrContentType reports a body that is not declared as JSON. The
	// invocation fails.
	ErrContentType = errors.New("the content type is not application/json")
	// ErrMalformed reports a body that is not an answer. The invocation fails.
	ErrMalformed = errors.New("the body is not a JSON object with Outputs and Logs")
	// ErrHang reports a 2xx answer with an empty body, blanks or null. In the
	// host such an invocation ends only at functionTimeout, when the host kills
	// the handler and with it all calls in flight.
	ErrHang = errors.New("the answer is empty: the REAL HOST WOULD NOW HANG until functionTimeout and then KILL THE HANDLER; " +
		"answer at least {} with Content-Type: application/json")
)

// AnswerError is an answer that the host does not accept.
type AnswerError struct {
	Reason      error // ErrStatus, ErrContentType, ErrMalformed or ErrHang
	Function    string
	Status      int
	ContentType string
	Body        string // its beginning, for a developer; the host drops it
	Detail      string // what is malformed
}

func (e *AnswerError) Error() string {
	text := fmt.Sprintf("answer %d of function %q: %v", e.Status, e.Function, e.Reason)
	if e.Detail != "" {
		text += ": " + e.Detail
	}
	if e.Body != "" {
		text += fmt.Sprintf(" (content type %q, body %q)", e.ContentType, e.Body)
	}
	return text
}

func (e *AnswerError) Unwrap() error { return e.Reason }

// judge accepts or rejects an answer as the host does, in the host's order. It
// is stricter in two ways: it rejects JSON that only .NET's lenient parser
// accepts, and a ReturnValue.
func judge(function string, status int, contentType string, body []byte) (Answer, error) {
	const maxShown = 1024
	reject := func(reason error, detail string) (Answer, error) {
		return Answer{}, &AnswerError{Reason: reason, Function: function, Status: status, ContentType: contentType,
			Body: string(body[:min(len(body), maxShown)]), Detail: detail}
	}
	media, _, err := mime.ParseMediaType(contentType)
	switch {
	case status < 200 || status > 299:
		return reject(ErrStatus, "")
	case len(body) == 0: // with any content type
		return reject(ErrHang, "")
	case err != nil || media != "application/json" && media != "text/json":
		return reject(ErrContentType, "")
	case isNull(body):
		return reject(ErrHang, "")
	}
	answer, err := decodeAnswer(body)
	if err != nil {
		return reject(ErrMalformed, err.Error())
	}
	return answer, nil
}

func decodeAnswer(body []byte) (Answer, error) {
	var wire struct {
		Outputs     map[string]json.RawMessage
		Logs        []json.RawMessage
		ReturnValue json.RawMessage
	}
	if err := json.Unmarshal(body, &wire); err != nil {
		return Answer{}, err
	}
	if !isNull(wire.ReturnValue) {
		return Answer{}, errors.New("ReturnValue is not supported; use Outputs")
	}
	answer := Answer{Outputs: wire.Outputs}
	for i, line := range wire.Logs {
		if bytes.ContainsAny(line[:1], "{[") {
			return Answer{}, fmt.Errorf("entry %d of Logs is not a string", i)
		}
		answer.Logs = append(answer.Logs, elementText(line))
	}
	return answer, nil
}
