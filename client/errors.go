package client

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"time"
)

var (
	// ErrInvalid reports an invalid argument. No request was sent.
	ErrInvalid = errors.New("invalid argument")

	// ErrUnclear reports that a change may have been made, or may still be made:
	// the answer was lost, or the app does not know. Read the state, or repeat
	// the call where the package documentation calls that safe.
	ErrUnclear = errors.New("the change may have been made")
)

// Error is an answer of the app that is not a success.
type Error struct {
	Status int

	// Programs branch on Code; see docs/api.md. It is "" if the app did not
	// send the answer itself: it comes from the Functions host or a proxy in
	// front of it.
	Code    string
	Message string // for people: what failed, why, and what to do

	Items []BadItem // of the codes bad_items and bad_rules: the first invalid ones

	RequestID  string        // names the request in the app's log; "" if unknown
	RetryAfter time.Duration // at least a second; 0: the answer has no Retry-After
	Address    string        // of the app
	Location   string        // where a redirect leads to

	effect string // what the request may have done
	sent   int    // bytes of an upload
}

// BadItem is an item for which a submission was rejected, or a fault of rules of
// scaling.
type BadItem struct {
	Line    int    `json:"line,omitempty"`   // of a batch; in a JSON array, the element; both count from 1
	Row     int    `json:"row,omitempty"`    // of the list Member, from 1; 0: not about a row
	Member  string `json:"member,omitempty"` // of rules; "": about the whole text
	Message string `json:"message"`
}

// deployedUpload is the host's limit of a body as infra/ sets it. An app may
// have another one, which only its answer shows.
const deployedUpload = 8 << 20

// tooLong reports whether the upload was probably longer than the host's limit:
// the host answers that with 500 and no body, before it calls the app.
func (e *Error) tooLong() bool {
	return e.Status == http.StatusInternalServerError && e.Code == "" && e.sent > deployedUpload
}

func (e *Error) Error() string {
	text := ""
	switch {
	case e.Code != "" || e.Message != "":
		return fmt.Sprintf("the app returned %d %s: %s", e.Status, e.Code, e.Message)
	case e.Status == http.StatusUnauthorized:
		return fmt.Sprintf("the app at %s requires a valid function key (401)", e.Address)
	case e.Status == http.StatusNotFound:
		return fmt.Sprintf("%s does not serve this request (404); check that the address is the app's, without /api", e.Address)
	case e.Location != "":
		return fmt.Sprintf("%s redirects (%d) to %s; use that address", e.Address, e.Status, e.Location)
	case e.tooLong():
		return fmt.Sprintf("the app at %s returned 500 without a body to an upload of %.1f MiB, which is probably more than its Functions host accepts (FUNCTIONS_REQUEST_BODY_SIZE_LIMIT, %d MiB as deployed); split the batch or raise the setting%s",
			e.Address, float64(e.sent)/(1<<20), deployedUpload>>20, also(e, e.effect))
	case http.StatusText(e.Status) != "":
		text = " " + http.StatusText(e.Status)
	}
	return fmt.Sprintf("the app at %s returned %d%s%s", e.Address, e.Status, text, also(e, e.effect))
}

// Is reports whether target is ErrUnclear and the request may have had an
// effect.
func (e *Error) Is(target error) bool {
	return target == ErrUnclear && e.effect != "" && e.Status >= 500 &&
		slices.Contains([]string{"", "change_unclear", "internal", "send_unclear", "stopped", "timeout"}, e.Code)
}

// busy reports whether the app, or a proxy in front of it, cannot serve the
// request now.
func (e *Error) busy() bool {
	return e.Status == http.StatusServiceUnavailable || e.Status == http.StatusTooManyRequests
}

// unchanged reports whether the app did nothing: it reports that itself, or the
// request was not let in.
func (e *Error) unchanged() bool {
	return e.Status == http.StatusTooManyRequests || slices.Contains([]string{"storage_unavailable", "stopping"}, e.Code)
}

// final reports whether the same request would fail again.
func (e *Error) final() bool {
	return e.Status < 500 && e.Status != http.StatusTooManyRequests && e.Status != http.StatusRequestTimeout
}

// NoAnswerError reports a request without a complete answer.
type NoAnswerError struct {
	Address   string // of the app
	Connected bool   // false: the app did not receive the request
	Err       error  // why, without the address

	effect string // what the request may have done
}

func (e *NoAnswerError) Error() string {
	if dns, ok := errors.AsType[*net.DNSError](e.Err); ok && dns.IsNotFound {
		return fmt.Sprintf("host %q does not exist; check the address", dns.Name)
	}
	if !e.Connected {
		why := e.Err
		if op, ok := errors.AsType[*net.OpError](why); ok {
			why = op.Err // the rest is the address again
		}
		return fmt.Sprintf("cannot connect to %s: %v; check the address and that the app is running", e.Address, why)
	}
	return fmt.Sprintf("no response from %s: %v%s", e.Address, e.Err, also(e, e.effect))
}

func (e *NoAnswerError) Unwrap() error { return e.Err }

// Is reports whether target is ErrUnclear and the request may have had an
// effect.
func (e *NoAnswerError) Is(target error) bool {
	return target == ErrUnclear && e.Connected && e.effect != ""
}

// closedEarly reports whether the server accepted the connection and closed it
// without a complete answer, as an app does that is killed.
func (e *NoAnswerError) closedEarly() bool {
	_, broken := errors.AsType[*net.OpError](e.Err)
	return e.Connected && (broken || errors.Is(e.Err, io.EOF) || errors.Is(e.Err, io.ErrUnexpectedEOF))
}

// connected reports whether a request that failed with err may have been sent.
func connected(err error) bool {
	op, isOp := errors.AsType[*net.OpError](err)
	_, isDNS := errors.AsType[*net.DNSError](err)
	_, isTLS := errors.AsType[*tls.CertificateVerificationError](err)
	return !isDNS && !isTLS && !(isOp && (op.Op == "dial" || op.Op == "proxyconnect"))
}

// UnexpectedError reports an answer that is not one of the API, such as the
// sign-in page of a proxy.
type UnexpectedError struct {
	Address string // of the app
	Err     error  // why the answer is unexpected

	effect string // what the request may have done
}

func (e *UnexpectedError) Error() string {
	return fmt.Sprintf("the app at %s returned an unexpected response: %v%s", e.Address, e.Err, also(e, e.effect))
}

func (e *UnexpectedError) Unwrap() error { return e.Err }

// Is reports whether target is ErrUnclear and the request may have had an
// effect.
func (e *UnexpectedError) Is(target error) bool { return target == ErrUnclear && e.effect != "" }

// earlierError is the error of the last attempt, after an earlier one that may
// have had an effect.
type earlierError struct {
	last   error
	effect string
}

func (e earlierError) Error() string {
	return e.last.Error() + "; after an earlier attempt " + e.effect
}
func (e earlierError) Unwrap() error        { return e.last }
func (e earlierError) Is(target error) bool { return target == ErrUnclear }

// also adds the possible effect of a request to the text of its error.
func also(err error, effect string) string {
	if !errors.Is(err, ErrUnclear) {
		return ""
	}
	return "; " + effect
}

// invalid is the text of an error that is ErrInvalid.
type invalid string

func (i invalid) Error() string        { return string(i) }
func (i invalid) Is(target error) bool { return target == ErrInvalid }

func invalidf(format string, args ...any) error { return invalid(fmt.Sprintf(format, args...)) }
