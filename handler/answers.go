package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"kennel/channels"
	"kennel/internal/customhandler"
	"kennel/internal/table"
)

// Values of headers that all answers share. They are never changed.
var (
	jsonType = []string{"application/json"}
	textType = []string{"text/plain; charset=utf-8"}
)

// reply is the answer to a call that succeeded.
type reply struct {
	status         int
	location, etag string // "" sends none
	body           any    // nil sends none, and a content is sent as it is
}

// content is a body that is stored as it is sent.
type content struct {
	kind  []string
	bytes []byte
}

// serve turns the replies and errors of a call into answers.
func serve(failures []failure, do func(*http.Request) (reply, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer, err := do(r)
		if err != nil {
			writeFailure(w, r, failures, err)
			return
		}
		header := w.Header()
		if answer.location != "" {
			if _, ok := personOf(r); ok {
				answer.location = consoleBase + answer.location
			}
			header.Set("Location", answer.location)
		}
		if answer.etag != "" {
			header.Set("ETag", answer.etag)
		}
		if answer.body == nil {
			w.WriteHeader(answer.status)
			return
		}
		if stored, ok := answer.body.(content); ok {
			header["Content-Type"] = stored.kind
			w.WriteHeader(answer.status)
			w.Write(stored.bytes)
			return
		}
		writeJSON(w, answer.status, answer.body)
	})
}

// callTimeout limits a call after its body was read, with all its requests to
// storage and their repeats.
const callTimeout = 10 * time.Second

// limited does a call within callTimeout.
func limited(r *http.Request, do func(*http.Request) (reply, error)) (reply, error) {
	body, err := io.ReadAll(r.Body) // before the limit begins: a sender may be slow
	ctx, cancel := context.WithTimeout(r.Context(), callTimeout)
	defer cancel()
	r = r.WithContext(ctx)
	r.Body = io.NopCloser(io.MultiReader(bytes.NewReader(body), failedReader{err}))
	return do(r)
}

// failedReader repeats the error of an earlier read; nil means the end.
type failedReader struct{ err error }

func (f failedReader) Read([]byte) (int, error) { return 0, cmp.Or(f.err, io.EOF) }

func writeJSON(w http.ResponseWriter, status int, answer any) {
	w.Header()["Content-Type"] = jsonType
	w.WriteHeader(status)
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	encoder.Encode(answer)
}

// hasQuery reports whether a query has a parameter, even an empty one.
func hasQuery(r *http.Request, name string) bool {
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

// defaultTop is the length of a list if the request does not limit it.
const defaultTop = 100

// pageOf reads which part of a list is requested.
func pageOf(r *http.Request) (top int, continuation string, err error) {
	top = defaultTop
	if hasQuery(r, "top") {
		if top, err = strconv.Atoi(customhandler.Query(r, "top")); err != nil || top < 1 || top > table.MaxPage {
			return 0, "", badRequest("bad_top", "top must be a whole number from 1 to "+strconv.Itoa(table.MaxPage)+".")
		}
	}
	return top, customhandler.Query(r, "continuation"), nil
}

// maxETag is longer than any ETag of storage. A request with a longer one, which
// no resource has, could be too long for storage.
const maxETag = 1024

// conditionOf reads If-Match: "" if there is none, one ETag, or *. It rejects
// several ETags, because storage compares with one.
func conditionOf(r *http.Request) (string, error) {
	values := r.Header[ifMatch]
	condition := strings.TrimSpace(strings.Join(values, ", "))
	quoted := strings.TrimPrefix(condition, "W/")
	unsent := func(r rune) bool { return r <= ' ' || r > '~' } // only an envelope can carry them
	if len(values) == 0 || condition == table.AnyVersion ||
		len(quoted) > 2 && quoted[0] == '"' && strings.IndexByte(quoted[1:], '"') == len(quoted)-2 && !strings.ContainsFunc(quoted, unsent) {
		if len(condition) > maxETag {
			return "", channels.ErrChanged
		}
		return condition, nil
	}
	return "", badRequest("bad_if_match", "If-Match must be one ETag as in an earlier answer, with its quotes, or *.")
}

// absenceOf reads If-None-Match: whether the caller wants to create something
// only if it does not exist.
func absenceOf(r *http.Request) (bool, error) {
	values := r.Header[ifNoneMatch]
	if len(values) > 0 && (len(values) > 1 || strings.TrimSpace(values[0]) != table.AnyVersion) {
		return false, badRequest("bad_if_none_match", "If-None-Match must be * here: create it only if it does not exist.")
	}
	return len(values) > 0, nil
}

// newestOf reads in which order a list is requested.
func newestOf(r *http.Request) (newest bool, err error) {
	order := customhandler.Query(r, "order")
	if order != "oldest" && order != "newest" && hasQuery(r, "order") {
		return false, badRequest("bad_order", "order must be oldest or newest.")
	}
	return order == "newest", nil
}

// idempotencyKeyOf reads Idempotency-Key: "" if it is absent.
func idempotencyKeyOf(r *http.Request) (string, error) {
	values := r.Header[idempotencyKey]
	key := strings.Join(values, "")
	if len(values) > 1 || len(values) == 1 && key == "" || channels.CheckKey(key) != nil {
		return "", badRequest("bad_idempotency_key", "Idempotency-Key must be one key of 1 to 128 visible ASCII characters.")
	}
	return key, nil
}
