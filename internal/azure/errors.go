package azure

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"

	"kennel/internal/cas"
)

// ErrTimeout reports that one try of a request got no answer within its
// timeout, before the caller's deadline.
var ErrTimeout = errors.New("storage did not answer in time")

// Error is an error response of the storage service.
type Error struct {
	Status    int    // HTTP status
	Code      string // the service's error code; "" if the response has none
	RequestID string // identifies the request for Microsoft's support
}

func (e *Error) Error() string {
	text := e.cause()
	if e.RequestID != "" {
		text += " (request " + e.RequestID + ")"
	}
	return text
}

// cause is the text that is the same for all requests with this answer.
func (e *Error) cause() string {
	return fmt.Sprintf("storage answered %d %s", e.Status, cmp.Or(e.Code, http.StatusText(e.Status)))
}

// Refused reports whether the request was rejected permanently: it had no
// effect and a retry will fail. 408 and 429 are retryable; after a 5xx the
// outcome is unknown.
func (e *Error) Refused() bool {
	return e.Status >= 400 && e.Status < 500 && e.Status != http.StatusRequestTimeout && e.Status != http.StatusTooManyRequests
}

// answered maps the SDK's error for a request of ctx to the errors of this
// package.
func answered(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return ErrTimeout // the deadline of the try passed, not the caller's
	}
	return safe(err)
}

// safe removes addresses, which may contain a signature or a receipt, and
// bodies from an error.
func safe(err error) error {
	if refusal, ok := errors.AsType[*azcore.ResponseError](err); ok {
		e := &Error{Status: refusal.StatusCode, Code: refusal.ErrorCode}
		if refusal.RawResponse != nil {
			e.RequestID = refusal.RawResponse.Header.Get("x-ms-request-id")
		}
		return e
	}
	if failed, ok := errors.AsType[*signInError](err); ok {
		return errors.New(failed.Error())
	}
	if failed, ok := errors.AsType[*url.Error](err); ok {
		return fmt.Errorf("connect to storage: %w", failed.Err)
	}
	return err
}

// declined adds [cas.ErrRefused] to an error response that a retry does not
// change.
func declined(err error) error {
	if e, ok := errors.AsType[*Error](err); ok && e.Refused() {
		return fmt.Errorf("%w: %w", cas.ErrRefused, err)
	}
	return err
}

// declinedBlob is declined for a request to blobs. A container that is being
// deleted is a conflict for half a minute.
func declinedBlob(err error) error {
	if hasStatus(err, http.StatusConflict) {
		return err
	}
	return declined(err)
}

// hasCode reports whether err is an [Error] with one of these codes.
func hasCode[Code ~string](err error, codes ...Code) bool {
	refusal, ok := errors.AsType[*Error](err)
	return ok && slices.Contains(codes, Code(refusal.Code))
}

func hasStatus(err error, status int) bool {
	refusal, ok := errors.AsType[*Error](err)
	return ok && refusal.Status == status
}
