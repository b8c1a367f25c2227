package customhandler

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"strconv"
)

// HTTPAnswer is what the host sends to an HTTP caller.
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
		return answer, nil
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
	if n, err := strconv.ParseFloat(elementText(code), 64); err == nil && n == math.Trunc(n) {
		if n < 200 || n > 999 {
			return fmt.Errorf("statusCode %.0f is not the status of an answer", n)
		}
		h.Status = int(n)
	}
	if raw, ok := lookup(fields, "headers"); ok {
		var headers map[string]json.RawMessage
		if err := json.Unmarshal(raw, &headers); err != nil {
			return fmt.Errorf("headers are not an object: %w", err)
		}
		for name, value := range headers {
			if isNull(value) || bytes.ContainsAny(value[:1], "{[") {
				return fmt.Errorf("header %q is not a scalar, on which the host fails: %.100s", name, value)
			}
			h.Header.Set(name, bodyText(value))
		}
	}
	if raw, ok := lookup(fields, "body"); ok {
		h.Body = []byte(bodyText(raw))
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
