package customhandler

import (
	"cmp"
	"net/http"
	"strconv"
)

// An empty answer hangs the host, which is worse than any failure. So every
// answer of this package goes through write: one JSON object, with its content
// type.

func writeAnswer(w http.ResponseWriter, a Answer) { write(w, http.StatusOK, encode(a)) }

func writeError(w http.ResponseWriter, e *Error) {
	h := w.Header()
	for _, name := range []string{"Content-Encoding", "Etag", "Last-Modified"} {
		h.Del(name) // the function set it for the answer that it did not finish
	}
	h["Cache-Control"] = noStore
	if e.Status == http.StatusServiceUnavailable && h.Get("Retry-After") == "" {
		h.Set("Retry-After", "1") // another instance can answer
	}
	write(w, statusOf(e), errorBody(e))
}

// Answered returns the status of the answer to an HTTP call that has begun, or 0
// before.
func Answered(w http.ResponseWriter) int {
	if a, ok := w.(interface{ answered() int }); ok {
		return a.answered()
	}
	return 0
}

// requestID returns the id that ServeHTTP gave to an answer.
func requestID(w http.ResponseWriter) string { return w.Header().Get(headerRequestID) }

func write(w http.ResponseWriter, status int, object []byte) {
	h := w.Header()
	h["Content-Type"] = []string{"application/json"}
	h["Content-Length"] = []string{strconv.Itoa(len(object))}
	w.WriteHeader(status)
	_, _ = w.Write(object) // fails only when the host has gone
}

func errorBody(e *Error) []byte {
	type detail struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	}
	return encode(struct {
		Error detail `json:"error"`
	}{detail{cmp.Or(e.Code, "internal"), cmp.Or(e.Message, http.StatusText(statusOf(e)))}})
}

// statusOf returns the status of an error, 500 if it has none or one that is
// not an error's.
func statusOf(e *Error) int {
	if e.Status < 400 || e.Status > 599 {
		return http.StatusInternalServerError
	}
	return e.Status
}
