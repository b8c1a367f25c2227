package customhandler

import (
	"io"
	"net/http"
)

// maxUnread is how much of a body net/http reads when a function did not. If
// more is left, net/http closes the connection soon after the answer. The host
// is then still sending, fails, and answers 500 instead.
const maxUnread = 256 << 10

// unreadWriter is the ResponseWriter of a call with a long body. It reads what
// the function left of the body before net/http sends the beginning of the
// answer: at the first write or flush, or at the end of the call.
type unreadWriter struct {
	http.ResponseWriter
	body io.Reader // nil once an answer began
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

// discard takes at most until the read deadline of the call.
func (u *unreadWriter) discard() {
	if u.body != nil {
		_, _ = io.Copy(io.Discard, u.body) // after an error nothing is left that could be read
		u.body = nil
	}
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
