package customhandler

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
)

// What can be wrong with an answer, for errors.Is on an *AnswerError.
var (
	// ErrStatus: not 2xx. The invocation fails; the host throws the body and its Logs away.
	ErrStatus = errors.New("the status is not 2xx")
	// ErrContentType: a body that is not declared as JSON. The invocation fails.
	ErrContentType = errors.New("the content type is not application/json")
	// ErrMalformed: not a JSON object of the answer's shape. The invocation fails.
	ErrMalformed = errors.New("the body is not a JSON object with Outputs, Logs and ReturnValue")
	// ErrHang: 2xx with an empty body, blanks or null. Nothing in the real host ends such an invocation but
	// functionTimeout, and then it kills the handler with everything it has in flight.
	ErrHang = errors.New("the answer is empty: the REAL HOST WOULD NOW HANG until functionTimeout and then KILL THE HANDLER; " +
		"answer at least {} with Content-Type: application/json")
)

// AnswerError is an answer that the host does not accept.
type AnswerError struct {
	Reason      error // ErrStatus, ErrContentType, ErrMalformed or ErrHang
	Function    string
	Status      int
	ContentType string
	Body        string // its beginning, for a developer to read; the host throws it away
	Detail      string // what exactly is malformed
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

// judge decides about an answer as the host does, in the host's order. It is stricter in one thing: JSON that only
// .NET's lenient parser would accept is malformed here.
func judge(function string, status int, contentType string, body []byte) (Answer, error) {
	const shown = 1024
	refuse := func(reason error, detail string) (Answer, error) {
		return Answer{}, &AnswerError{Reason: reason, Function: function, Status: status, ContentType: contentType,
			Body: string(body[:min(len(body), shown)]), Detail: detail}
	}
	media, _, err := mime.ParseMediaType(contentType)
	switch {
	case status < 200 || status > 299:
		return refuse(ErrStatus, "")
	case len(body) == 0: // whatever its content type
		return refuse(ErrHang, "")
	case err != nil || media != "application/json" && media != "text/json":
		return refuse(ErrContentType, "")
	case isNull(body):
		return refuse(ErrHang, "")
	}
	answer, err := decodeAnswer(body)
	if err != nil {
		return refuse(ErrMalformed, err.Error())
	}
	return answer, nil
}

func decodeAnswer(body []byte) (Answer, error) {
	var wire struct {
		Outputs     map[string]json.RawMessage
		Logs        []json.RawMessage
		ReturnValue json.RawMessage
	}
	if !isObject(body) && json.Valid(body) {
		return Answer{}, errors.New("it is no object")
	}
	if err := json.Unmarshal(body, &wire); err != nil {
		return Answer{}, err
	}
	answer := Answer{Outputs: wire.Outputs}
	if !isNull(wire.ReturnValue) {
		answer.ReturnValue = wire.ReturnValue
	}
	for i, line := range wire.Logs {
		if bytes.ContainsAny(line[:1], "{[") {
			return Answer{}, fmt.Errorf("entry %d of Logs is not a string", i)
		}
		answer.Logs = append(answer.Logs, elementText(line))
	}
	return answer, nil
}
