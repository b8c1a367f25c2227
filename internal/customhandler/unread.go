package customhandler

import (
	"io"
	"net/http"
	"time"
)

// MaxUnread is the longest body that a host has surely sent, or can, while it
// receives an answer: a function that leaves it unread may close the connection.
// With a longer one the host would still be sending, fail, and answer 500
// instead, so the rest is read before the answer.
const MaxUnread = 64 << 10

// maxSilence is how long an answer waits for the next byte of a body that the
// function did not read. A body may be announced and never come.
const maxSilence = 10 * time.Second

// unreadWriter is the ResponseWriter of a call with a long body. It reads the
// rest of the body before net/http sends the beginning of the answer: at the
// first write or flush, or at the end of the call.
type unreadWriter struct {
	http.ResponseWriter
	body  io.Reader // nil once an answer began
	until time.Time // the end of the call
}

func (u *unreadWriter) Write(p []byte) (int, error) {
	u.discard()
	return u.ResponseWriter.Write(p)
}

// FlushError serves http.ResponseController.
func (u *unreadWriter) FlushError() error {
	u.discard()
	return http.NewResponseController(u.ResponseWriter).Flush()
}

// Unwrap serves http.ResponseController.
func (u *unreadWriter) Unwrap() http.ResponseWriter { return u.ResponseWriter }

func (u *unreadWriter) discard() {
	if u.body == nil {
		return
	}
	control := http.NewResponseController(u.ResponseWriter)
	buffer := make([]byte, 32<<10)
	for {
		silent := time.Now().Add(maxSilence)
		if silent.After(u.until) {
			silent = u.until
		}
		_ = control.SetReadDeadline(silent) // fails on a writer without deadlines, as in tests
		if _, err := u.body.Read(buffer); err != nil {
			break // nothing is left that could be read
		}
	}
	u.body = nil
}

// callBody is the body of a call. An error of the connection becomes one that
// the caller may read: it is not a failure of the function.
type callBody struct{ io.ReadCloser }

func (b callBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && err != io.EOF {
		err = errIncomplete()
	}
	return n, err
}

func errIncomplete() *Error {
	return &Error{http.StatusBadRequest, "body_incomplete",
		"The body ended early or did not arrive within the time limit of the call. Send the request again."}
}
