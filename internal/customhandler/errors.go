package customhandler

import (
	"context"
	"errors"
	"fmt"
	"net/http"
)

// Error is a failure that its caller should read. It becomes {"error":{"code":…,"message":…}} with the status.
type Error struct {
	Status  int
	Code    string // for programs: a word or two, never changed
	Message string // for people: what happened, what it means, what to do
}

func (e *Error) Error() string { return e.Code + ": " + e.Message }

// HandlerFunc is an HTTP function that may fail. What it returns is answered by WriteError; then it must not have
// written anything itself.
type HandlerFunc func(http.ResponseWriter, *http.Request) error

func (f HandlerFunc) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if err := f(w, r); err != nil {
		WriteError(w, r, err)
	}
}

// WriteError answers an HTTP call with an error. An *Error anywhere in its chain is told to the caller; anything else
// the caller learns only the kind of, and the log the rest. When an answer has already begun it is broken off, because
// half an answer must not pass for a whole one.
func WriteError(w http.ResponseWriter, r *http.Request, err error) {
	e := explain(err)
	inv := invocationFrom(r.Context())
	if e.Status >= http.StatusInternalServerError && inv != nil {
		logFailure(r.Context(), inv.log, "HTTP call failed", err)
	}
	if b, ok := w.(interface{ begun() bool }); ok && b.begun() {
		panic(http.ErrAbortHandler)
	}
	writeError(w, e)
}

// explain is the one place where errors become statuses.
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
			"this took longer than it may; it may or may not have been done: look before you try again"}
	case errors.Is(err, context.Canceled):
		return &Error{http.StatusServiceUnavailable, "stopped",
			"this was stopped before it was done; it may or may not have been done: look before you try again"}
	default:
		return &Error{http.StatusInternalServerError, "internal",
			"this failed inside the function; its log says why"}
	}
}

// failure is what the host is told of a failed invocation. Only the status counts for it: it throws the rest away, and
// a local host shows it to the developer, so here the cause stays.
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
		fmt.Sprintf("%.32q is not a method of this address; the Allow header has those that are", method)}
}

func errTooLarge(limit int64) *Error {
	return &Error{http.StatusRequestEntityTooLarge, "body_too_large",
		fmt.Sprintf("the body is larger than the %d bytes allowed here", limit)}
}
