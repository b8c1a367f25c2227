package azure

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"

	"kennel/internal/azure/identity"
	"kennel/internal/azure/requests"
	"kennel/internal/table"
)

// minPatience is how long a call has to wait before the end of its caller's
// time counts as a failure of the service.
const minPatience = time.Second

// observing is the policy of the SDK's pipeline that records the outcome of
// each call. It runs before the policy for retries, so a call that succeeds
// with a retry is a success.
type observing struct {
	outcomes *requests.Outcomes
	service  string
}

func (o observing) Do(r *policy.Request) (*http.Response, error) {
	began := time.Now()
	answer, err := r.Next()
	raw := r.Raw()
	switch {
	case err != nil:
		o.failed(raw, began, err)
	case isFailure(answer.StatusCode) || isDenial(answer.StatusCode):
		o.answered(raw, began, safe(runtime.NewResponseError(answer)))
	case answer.StatusCode == http.StatusAccepted:
		// The answer to a transaction has the outcome in its body.
	case downloaded(answer.Body):
		o.answered(raw, began, nil)
	default:
		answer.Body = &observedBody{ReadCloser: answer.Body, done: func(err error) { o.answered(raw, began, err) }}
	}
	return answer, err
}

func isFailure(status int) bool {
	return status >= http.StatusInternalServerError || status == http.StatusTooManyRequests || status == http.StatusRequestTimeout
}

func isDenial(status int) bool {
	return status == http.StatusUnauthorized || status == http.StatusForbidden
}

// downloaded reports whether the SDK has read the body of an answer. It does so
// unless an adapter reads it itself.
func downloaded(body io.ReadCloser) bool {
	_, inMemory := body.(io.Seeker)
	return inMemory || body == http.NoBody
}

// answered records the outcome of a call with an answer: nil, an [Error], or
// why the answer could not be read.
func (o observing) answered(raw *http.Request, began time.Time, err error) {
	refusal, ok := errors.AsType[*Error](err)
	switch {
	case err != nil && !ok && !errors.Is(err, table.ErrLarge):
		o.failed(raw, began, err)
	case ok && isFailure(refusal.Status):
		o.outcomes.Failed(o.label(raw), isWrite(raw), refusal.cause())
	case ok && isDenial(refusal.Status):
		o.outcomes.Denied(o.label(raw), isWrite(raw), refusal.cause())
	case !o.outcomes.AllWell():
		o.outcomes.Responded(o.label(raw), isWrite(raw))
	}
}

// failed records a call without an answer, unless its caller gave it up.
func (o observing) failed(raw *http.Request, began time.Time, err error) {
	ended := raw.Context().Err()
	signIn, denied := errors.AsType[*signInError](err)
	switch {
	case errors.Is(ended, context.Canceled), ended != nil && time.Since(began) < minPatience:
	case denied && ended == nil:
		o.outcomes.Denied(o.label(raw), isWrite(raw), signIn.Error())
	case ended != nil || errors.Is(err, context.DeadlineExceeded):
		o.outcomes.Failed(o.label(raw), isWrite(raw), ErrTimeout.Error())
	default:
		o.outcomes.Failed(o.label(raw), isWrite(raw), causeOf(err))
	}
}

func (o observing) label(raw *http.Request) requests.Label {
	return requests.Label{
		Service:   o.service,
		Operation: requests.Operation(o.service, raw.Method, raw.URL),
		Job:       requests.Job(raw.Context()),
	}
}

func isWrite(raw *http.Request) bool {
	return raw.Method != http.MethodGet && raw.Method != http.MethodHead
}

// causeOf returns the text of a failure that is the same each time: without
// ports, which differ by connection.
func causeOf(err error) string {
	if failed, ok := errors.AsType[*net.OpError](err); ok && failed.Err != nil {
		return "no connection to storage (" + failed.Op + ": " + identity.OneLine(failed.Err) + ")"
	}
	return identity.OneLine(safe(err))
}

// observedBody records the outcome of a call whose answer is read by an
// adapter: once it is read, or reading it fails.
type observedBody struct {
	io.ReadCloser
	done func(error) // nil once it was called
}

func (b *observedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	switch {
	case errors.Is(err, io.EOF):
		b.end(nil)
	case err != nil:
		b.end(err)
	}
	return n, err
}

func (b *observedBody) Close() error {
	b.end(nil)
	return b.ReadCloser.Close()
}

func (b *observedBody) end(err error) {
	if b.done != nil {
		b.done(err)
		b.done = nil
	}
}

// signIn is a credential whose errors can be distinguished from those of the
// service.
type signIn struct{ azcore.TokenCredential }

func (s signIn) GetToken(ctx context.Context, o policy.TokenRequestOptions) (azcore.AccessToken, error) {
	token, err := s.TokenCredential.GetToken(ctx, o)
	if err != nil {
		err = &signInError{err}
	}
	return token, err
}

type signInError struct{ error }

func (e *signInError) Error() string { return "sign in to storage: " + identity.OneLine(e.error) }
func (e *signInError) Unwrap() error { return e.error }
