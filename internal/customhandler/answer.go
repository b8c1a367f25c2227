package customhandler

import (
	"cmp"
	"net/http"
	"strconv"
)

// An answer the host waits for ever for is worse than any failure. So everything this package says to the host itself
// goes through write: one JSON object, its content type set before the status, one write.

func writeAnswer(w http.ResponseWriter, a Answer) { write(w, http.StatusOK, encode(a)) }

func writeError(w http.ResponseWriter, e *Error) {
	for _, name := range []string{"Content-Encoding", "Etag", "Last-Modified"} {
		w.Header().Del(name) // meant for the answer that the function did not finish
	}
	w.Header()["Cache-Control"] = noStore
	write(w, statusOf(e), errorBody(e))
}

// noStore goes with every error: without it a cache may keep a 404 and hide what is there by now.
var noStore = []string{"no-store"}

func write(w http.ResponseWriter, status int, object []byte) {
	h := w.Header()
	h["Content-Type"] = []string{"application/json"}
	h["Content-Length"] = []string{strconv.Itoa(len(object))}
	w.WriteHeader(status)
	_, _ = w.Write(object) // the host is gone: nobody left to tell
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

// statusOf never lets an Error without a proper status pass for a success.
func statusOf(e *Error) int {
	if e.Status < 400 || e.Status > 599 {
		return http.StatusInternalServerError
	}
	return e.Status
}
