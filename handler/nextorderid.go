package main

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"kennel/ids"
	"kennel/internal/customhandler"
)

// maxCount is the most numbers that one request gets.
const maxCount = 10_000

// nextOrderID serves POST /api/sequences/{sequence}/next?count=N: N numbers in
// a row of the sequence, which begins with its first request.
func nextOrderID(sequences *ids.Set) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sequence := r.PathValue("sequence")
		numbers, err := draw(r, sequences, sequence)
		if err != nil {
			writeNumbersError(w, r, sequence, err)
			return
		}
		if strings.HasPrefix(r.Header.Get("Accept"), "text/plain") {
			writeNumbersText(w, numbers)
			return
		}
		writeNumbersJSON(w, sequence, numbers)
	})
}

func draw(r *http.Request, sequences *ids.Set, sequence string) (ids.Range, error) {
	count := 1
	if text, given := countOf(r); given {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > maxCount {
			return ids.Range{}, &customhandler.Error{
				Status: http.StatusBadRequest, Code: "bad_count",
				Message: "count must be a whole number from 1 to " + strconv.Itoa(maxCount),
			}
		}
		count = n
	}
	generator, err := sequences.Get(sequence)
	if err != nil {
		return ids.Range{}, err
	}
	if count > 1 {
		return generator.Lease(r.Context(), count)
	}
	n, err := generator.Next(r.Context())
	return ids.Range{First: n, Last: n}, err
}

func countOf(r *http.Request) (string, bool) {
	if r.URL.RawQuery == "" {
		return "", false
	}
	if text := customhandler.Query(r, "count"); text != "" {
		return text, true
	}
	// An empty count is one all the same, and a wrong one.
	return "", r.URL.Query().Has("count")
}

func writeNumbersJSON(w http.ResponseWriter, sequence string, numbers ids.Range) {
	// By hand, because it is the hot path and every value is safe as it is:
	// the name has been checked, the rest are numbers.
	b := make([]byte, 0, 128)
	b = append(b, `{"sequence":"`...)
	b = append(b, sequence...)
	b = append(b, `","first":`...)
	b = strconv.AppendInt(b, numbers.First, 10)
	b = append(b, `,"last":`...)
	b = strconv.AppendInt(b, numbers.Last, 10)
	b = append(b, `,"count":`...)
	b = strconv.AppendInt(b, numbers.Count(), 10)
	b = append(b, "}\n"...)
	w.Header()["Content-Type"] = jsonType
	w.Write(b)
}

func writeNumbersText(w http.ResponseWriter, numbers ids.Range) {
	b := make([]byte, 0, 20*numbers.Count())
	for n := numbers.First; n <= numbers.Last; n++ {
		b = strconv.AppendInt(b, n, 10)
		b = append(b, '\n')
	}
	w.Header()["Content-Type"] = textType
	w.Write(b)
}

// Values of a header that every answer shares; nobody writes to them.
var (
	jsonType = []string{"application/json"}
	textType = []string{"text/plain; charset=utf-8"}
)

// writeNumbersError is where the errors of order numbers become answers. Callers
// are told what it means and what to do; the store's own words go to the log.
func writeNumbersError(w http.ResponseWriter, r *http.Request, sequence string, err error) {
	answer := func(status int, code, message string) {
		told := &customhandler.Error{Status: status, Code: code, Message: message}
		customhandler.WriteError(w, r, fmt.Errorf("sequence %.80q: %w: %w", sequence, told, err))
	}
	var told *customhandler.Error
	switch {
	case errors.As(err, &told):
		customhandler.WriteError(w, r, told)
	case ids.CheckName(sequence) != nil:
		answer(http.StatusBadRequest, "bad_sequence", err.Error())
	case errors.Is(err, ids.ErrExhausted):
		answer(http.StatusConflict, "sequence_exhausted",
			"this sequence has not as many numbers left; it has to be continued under another name")
	case errors.Is(err, ids.ErrCorrupt):
		answer(http.StatusInternalServerError, "sequence_corrupt",
			"the stored number of this sequence cannot be used, so none is issued until an operator has put it right; the log says what it reads")
	case errors.Is(err, ids.ErrTooMany):
		answer(http.StatusServiceUnavailable, "too_many_sequences",
			"this instance serves as many different sequences as it can; use fewer")
	case errors.Is(err, ids.ErrClosed):
		w.Header().Set("Retry-After", "1")
		answer(http.StatusServiceUnavailable, "stopping", "this instance is stopping; send the request again")
	default:
		w.Header().Set("Retry-After", "5")
		answer(http.StatusServiceUnavailable, "storage_unavailable",
			"no numbers could be reserved in time, because storage does not answer or very many instances reserve at once; none were issued; send the request again later")
	}
}
