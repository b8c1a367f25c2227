package customhandler

import (
	"bytes"
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"strconv"
)

// HTTPAnswer is the answer of the host to an HTTP caller.
type HTTPAnswer struct {
	Status int
	Header http.Header
	Body   []byte
}

// HTTP returns the caller's answer from the output binding of type http called
// binding, usually "res". After an error the host answers 500 with an empty
// body.
func (a Answer) HTTP(binding string) (HTTPAnswer, error) {
	answer := HTTPAnswer{http.StatusOK, http.Header{"Content-Type": {"text/plain; charset=utf-8"}}, nil}
	if a.Outputs == nil {
		return HTTPAnswer{Status: http.StatusNoContent}, nil
	}
	raw, ok := a.Outputs[binding]
	if !ok {
		answer.Body = []byte("{}")
		return answer, nil
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal([]byte(elementText(raw)), &fields); err != nil || fields == nil {
		return HTTPAnswer{}, fmt.Errorf("output %q is neither an object nor a string with one: %.100s", binding, raw)
	}
	if err := answer.fill(fields); err != nil {
		return HTTPAnswer{}, err
	}
	return answer, nil
}

// fill reads a response object. A status that is called status is ignored: the
// host looks for statusCode first, and adds an empty one to every response.
func (h *HTTPAnswer) fill(fields map[string]json.RawMessage) error {
	code, _ := lookup(fields, "statusCode")
	if len(code) > 0 && bytes.ContainsAny(code[:1], "{[") {
		return fmt.Errorf("statusCode is not a scalar, on which the host fails: %.100s", code)
	}
	if n, err := strconv.Atoi(elementText(code)); err == nil { // 201.0 is not a number to the host
		if n < 200 || n > 999 {
			return fmt.Errorf("statusCode %d is not the status of an answer", n)
		}
		h.Status = n
	}
	if raw, ok := lookup(fields, "headers"); ok && !isNull(raw) {
		if err := h.fillHeaders(raw); err != nil {
			return err
		}
	}
	if raw, ok := lookup(fields, "body"); ok {
		h.Body = []byte(bodyText(raw))
	}
	return nil
}

// fillHeaders reads the headers in their order, because the first of two
// spellings of a name stays.
func (h *HTTPAnswer) fillHeaders(raw json.RawMessage) error {
	if !isObject(raw) {
		return fmt.Errorf("headers are not an object: %.100s", raw)
	}
	seen := make(map[string]bool)
	dec := json.NewDecoder(bytes.NewReader(raw)) // it was decoded before, so no call fails
	_, _ = dec.Token()
	for dec.More() {
		token, _ := dec.Token()
		var value json.RawMessage
		_ = dec.Decode(&value)
		name := http.CanonicalHeaderKey(token.(string))
		if isNull(value) || bytes.ContainsAny(value[:1], "{[") {
			return fmt.Errorf("header %q is not a scalar, on which the host fails: %.100s", name, value)
		}
		if !seen[name] {
			h.Header.Set(name, bodyText(value))
		}
		seen[name] = true
	}
	if media, params, err := mime.ParseMediaType(h.Header.Get("Content-Type")); err == nil {
		params["charset"] = "utf-8" // whatever the function wrote
		h.Header.Set("Content-Type", mime.FormatMediaType(media, params))
	}
	return nil
}

// bodyText returns a value as the host writes it: a string unchanged, even if
// it looks like base64. (The host may also reformat a string that is a date.)
func bodyText(raw json.RawMessage) string {
	if raw[0] == '"' {
		return elementText(raw)
	}
	return dotnetText(raw)
}
