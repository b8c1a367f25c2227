package azure

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"

	"kennel/internal/azure/identity"
)

// ErrTimeout says that one try of a request was not answered in time, though
// its caller still had some.
var ErrTimeout = errors.New("storage gave no answer in time")

// Error is a refusal by the storage service.
type Error struct {
	Status    int    // of HTTP
	Code      string // the service's name for the reason; "" if it gave none
	RequestID string // by which the service's owner finds the request
}

func (e *Error) Error() string {
	text := fmt.Sprintf("storage answers %d %s", e.Status, e.Code)
	if e.Code == "" {
		text = fmt.Sprintf("storage answers %d %s", e.Status, http.StatusText(e.Status))
	}
	if e.RequestID != "" {
		text += " (request " + e.RequestID + ")"
	}
	return text
}

// Busy says that the service asks to be left alone for a moment.
func (e *Error) Busy() bool {
	return e.Status == http.StatusTooManyRequests || e.Status == http.StatusServiceUnavailable
}

// Refused says that the service has declined the request and would do so again:
// nothing was done. What it says of timeouts or of haste is no such word, and
// what goes wrong within it leaves open what was done.
func (e *Error) Refused() bool {
	return e.Status >= 400 && e.Status < 500 && e.Status != http.StatusRequestTimeout && e.Status != http.StatusTooManyRequests
}

// answered turns what the SDK returned for a request of ctx into what this
// package returns.
func answered(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return ErrTimeout // of the try: the caller's own deadline is still to come
	}
	return safe(err)
}

// safe strips an error of addresses, which may carry a signature or a receipt,
// and of bodies.
func safe(err error) error {
	if refusal, ok := errors.AsType[*azcore.ResponseError](err); ok {
		e := &Error{Status: refusal.StatusCode, Code: refusal.ErrorCode}
		if refusal.RawResponse != nil {
			e.RequestID = refusal.RawResponse.Header.Get("x-ms-request-id")
		}
		return e
	}
	if failed, ok := errors.AsType[*azidentity.AuthenticationFailedError](err); ok {
		return errors.New("sign in to storage: " + identity.OneLine(failed))
	}
	if failed, ok := errors.AsType[*url.Error](err); ok {
		return fmt.Errorf("reach storage: %w", failed.Err)
	}
	return err
}

// hasCode says that err is a refusal for one of these reasons.
func hasCode[Code ~string](err error, codes ...Code) bool {
	refusal, ok := errors.AsType[*Error](err)
	return ok && slices.Contains(codes, Code(refusal.Code))
}

func hasStatus(err error, status int) bool {
	refusal, ok := errors.AsType[*Error](err)
	return ok && refusal.Status == status
}
