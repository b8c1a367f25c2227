package customhandler

import (
	"context"
	"errors"
	"fmt"
	"net/http"
)

// Error is a failure that the caller of an HTTP function may read. The answer
// is {"error":{"code":…,"message":…}} with the status.
type Error struct {
	Status  int
	Code    string // for programs: a word or two, never changed
	Message string // for people: what failed, why, and what to do
}

func (e *Error) Error() string { return e.Code + ": " + e.Message }

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
	if b, ok := w.(interface{ begun() bool }); ok && b.begun() {
		panic(http.ErrAbortHandler)
	}
	writeError(w, e)
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
