package edge

import (
	"bytes"
	"cmp"
	"context"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"kennel/internal/customhandler"
	"kennel/internal/table"
)

// Reply is the answer to a call that succeeded.
type Reply struct {
	Status         int
	Location, Etag string // "" sends none
	Body           any    // nil sends none, and a content is sent as it is
}

// Content is a body that is stored as it is sent.
type Content struct {
	Kind  []string
	Bytes []byte
}

// Respond turns the replies and errors of a call into answers.
func Respond(of Faults, do func(*http.Request) (Reply, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer, err := do(r)
		if err != nil {
			WriteFailure(w, r, of, err)
			return
		}
		header := w.Header()
		if answer.Location != "" {
			if _, ok := PersonOf(r); ok {
				answer.Location = ConsoleBase + answer.Location
			}
			header.Set("Location", answer.Location)
		}
		if answer.Etag != "" {
			header.Set("ETag", answer.Etag)
		}
		if answer.Body == nil {
			w.WriteHeader(answer.Status)
			return
		}
		if stored, ok := answer.Body.(Content); ok {
			header["Content-Type"] = stored.Kind
			w.WriteHeader(answer.Status)
			w.Write(stored.Bytes)
			return
		}
		WriteJSON(w, answer.Status, answer.Body)
	})
}

// CallTimeout limits a call after its body was read, with all its requests to
// storage and their repeats.
const CallTimeout = 10 * time.Second

// Limited does a call within CallTimeout.
func Limited(r *http.Request, do func(*http.Request) (Reply, error)) (Reply, error) {
	body, err := io.ReadAll(r.Body) // before the limit begins: a sender may be slow
	ctx, cancel := context.WithTimeout(r.Context(), CallTimeout)
	defer cancel()
	r = r.WithContext(ctx)
	r.Body = io.NopCloser(io.MultiReader(bytes.NewReader(body), failedReader{err}))
	return do(r)
}

// failedReader repeats the error of an earlier read; nil means the end.
type failedReader struct{ err error }

func (f failedReader) Read([]byte) (int, error) { return 0, cmp.Or(f.err, io.EOF) }

// HasQuery reports whether a query has a parameter, even an empty one.
func HasQuery(r *http.Request, name string) bool {
	if r.URL.RawQuery == "" {
		return false
	}
	for key := range r.URL.Query() {
		if strings.EqualFold(key, name) {
			return true
		}
	}
	return false
}

// MaxBody limits the body of a call to any function of this app, in bytes.
const MaxBody = 1 << 20

// defaultTop is the length of a list if the request does not limit it.
const defaultTop = 100

// PageOf reads which part of a list is requested.
func PageOf(r *http.Request) (top int, continuation string, err error) {
	top = defaultTop
	if HasQuery(r, "top") {
		if top, err = strconv.Atoi(customhandler.Query(r, "top")); err != nil || top < 1 || top > table.MaxPage {
			return 0, "", BadRequest("bad_top", "top must be a whole number from 1 to "+strconv.Itoa(table.MaxPage)+".")
		}
	}
	return top, customhandler.Query(r, "continuation"), nil
}
