package edge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"kennel/internal/customhandler"
	"kennel/internal/table"
)

// Values of headers that all answers share. They are never changed.
var (
	JsonType = []string{"application/json"}
	TextType = []string{"text/plain; charset=utf-8"}
)

// Fault is the answer to an error.
type Fault struct {
	Status     int
	Code       string
	Message    string // "" sends the text of the error
	RetryAfter string // in seconds; "" sends none
}

// Faults returns the answer to an error, nil if it has none.
type Faults func(error) *Fault

const (
	// CodeStopping is the code of answers that are not logged: a stopping
	// instance sends one to each of thousands of waiters, and nothing is wrong.
	CodeStopping = "stopping"

	// CodeUnavailable is the code of failures that changed nothing. If storage
	// rejected a request, their message is rejected.
	CodeUnavailable = "storage_unavailable"
)

// Rejected is the message of a request that storage rejected.
const Rejected = "Storage rejected the request and nothing was changed. Retrying will not help until an operator fixes the cause; see the log."

// WriteFailure turns an error into an answer. The caller gets the meaning and
// what to do; the log gets the cause as well. An error without a row is left to
// customhandler.
func WriteFailure(w http.ResponseWriter, r *http.Request, of Faults, err error) {
	if items, ok := errors.AsType[*BadItems](err); ok {
		items.write(w)
		return
	}
	if member, ok := errors.AsType[*BadMember](err); ok {
		WriteJSON(w, http.StatusBadRequest, map[string]any{"error": member})
		return
	}
	known, isKnown := errors.AsType[*customhandler.Error](err)
	if !isKnown && r.Context().Err() == context.Canceled {
		known = &customhandler.Error{Status: http.StatusRequestTimeout, Code: "gone", Message: "The client closed the connection."}
	}
	if known != nil {
		customhandler.WriteError(w, r, known)
		return
	}
	found := of(err)
	if found == nil {
		customhandler.WriteError(w, r, err)
		return
	}
	f := *found
	answer := &customhandler.Error{Status: f.Status, Code: f.Code, Message: f.Message}
	if f.Message == "" {
		answer.Message = err.Error()
	}
	if f.RetryAfter != "" && table.IsRefused(err) {
		f.RetryAfter = "60" // an operator has to act first
		if f.Code == CodeUnavailable {
			answer.Message = Rejected
		}
	}
	if f.RetryAfter != "" {
		w.Header().Set("Retry-After", f.RetryAfter)
	}
	if f.Code == CodeStopping {
		WriteJSON(w, f.Status, map[string]any{"error": map[string]string{"code": f.Code, "message": f.Message}})
		return
	}
	customhandler.WriteError(w, r, fmt.Errorf("%w: %w", err, answer))
}

// BadItems is the error of a body of which some parts are invalid. The answer
// lists them, so that programs need not read its message.
type BadItems struct {
	Code, Message string
	Items         any // a slice
}

func (b *BadItems) Error() string { return b.Message }

func (b *BadItems) write(w http.ResponseWriter) {
	type detail struct {
		Code    string `json:"code"`
		Message string `json:"message"`
		Items   any    `json:"items"`
	}
	WriteJSON(w, http.StatusBadRequest, map[string]any{"error": detail{b.Code, b.Message, b.Items}})
}

// BadMember is the error of a body of which one member is invalid.
type BadMember struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Member  string `json:"member"` // such as address.city
}

func (b *BadMember) Error() string { return b.Message }

// BadRequest returns the answer 400 with a code and a message.
func BadRequest(code, message string) *customhandler.Error {
	return &customhandler.Error{Status: http.StatusBadRequest, Code: code, Message: message}
}

// WriteJSON sends an answer in JSON.
func WriteJSON(w http.ResponseWriter, status int, answer any) {
	w.Header()["Content-Type"] = JsonType
	w.WriteHeader(status)
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	encoder.Encode(answer)
}
