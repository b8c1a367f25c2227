package customhandler

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"net/http"
	"strconv"
	"strings"
)

// returnBinding is the output binding whose value is ReturnValue instead of an entry of Outputs.
const returnBinding = "$return"

// HTTPAnswer is what the host sends to an HTTP caller.
type HTTPAnswer struct {
	Status int
	Header http.Header
	Body   []byte
}

// HTTP makes the caller's answer from the output binding of type http called binding, usually "res". An error means
// what the host makes of it: 500 with an empty body.
func (a Answer) HTTP(binding string) (HTTPAnswer, error) {
	if binding == returnBinding {
		return returnedHTTP(a.ReturnValue)
	}
	outputs := a.merged()
	if outputs == nil {
		return plainHTTP(nil), nil
	}
	raw, ok := outputs[binding]
	if !ok {
		return plainHTTP([]byte("{}")), nil
	}
	object := []byte(textValue(raw))
	if !isObject(object) || !json.Valid(object) {
		return HTTPAnswer{}, fmt.Errorf("output %q is neither an object nor a string with one: %.100s", binding, raw)
	}
	return responseHTTP(object, false)
}

// merged is Outputs with the properties of a ReturnValue that is an object and has no binding of its own.
func (a Answer) merged() map[string]json.RawMessage {
	var returned map[string]json.RawMessage
	if isObject(a.ReturnValue) {
		_ = json.Unmarshal(a.ReturnValue, &returned)
	}
	if len(returned) == 0 {
		return a.Outputs
	}
	outputs := make(map[string]json.RawMessage, len(a.Outputs)+len(returned))
	maps.Copy(outputs, a.Outputs)
	maps.Copy(outputs, returned)
	return outputs
}

// returnedHTTP is the answer of a binding called $return.
func returnedHTTP(raw json.RawMessage) (HTTPAnswer, error) {
	if isNull(raw) {
		return plainHTTP(nil), nil
	}
	text := textValue(raw)
	if raw[0] == '"' {
		if decoded, ok := decodeBase64(text); ok {
			return plainHTTP(decoded), nil // mostly garbage: the text only looked like base64
		}
	}
	var properties map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text), &properties); err == nil {
		if _, ok := lookup(properties, "body"); ok {
			return responseHTTP([]byte(text), true)
		}
	}
	return plainHTTP([]byte(bodyText(raw))), nil
}

func plainHTTP(body []byte) HTTPAnswer {
	return HTTPAnswer{http.StatusOK, http.Header{"Content-Type": {plainText}}, body}
}

const plainText = "text/plain; charset=utf-8"

// responseHTTP reads a response object. Only in a $return binding does status count: elsewhere the host adds an empty
// statusCode to every response before it looks for either.
func responseHTTP(object []byte, status bool) (HTTPAnswer, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(object, &fields); err != nil {
		return HTTPAnswer{}, fmt.Errorf("read the response object: %w", err)
	}
	code, ok := lookup(fields, "statusCode")
	if !ok && status {
		code, _ = lookup(fields, "status")
	}
	answer := HTTPAnswer{Status: http.StatusOK, Header: http.Header{"Content-Type": {plainText}}}
	if n, err := strconv.ParseFloat(textValue(code), 64); err == nil && n == math.Trunc(n) {
		if n < 200 || n > 999 {
			return HTTPAnswer{}, fmt.Errorf("statusCode %.0f is no status of an answer", n)
		}
		answer.Status = int(n)
	}
	if raw, ok := lookup(fields, "headers"); ok && !isNull(raw) {
		var headers map[string]json.RawMessage
		if err := json.Unmarshal(raw, &headers); err != nil {
			return HTTPAnswer{}, fmt.Errorf("headers are no object: %w", err)
		}
		for name, value := range headers {
			if isNull(value) || bytes.ContainsAny(value[:1], "{[") {
				return HTTPAnswer{}, fmt.Errorf("header %q has no scalar value but %.100s: the host fails on it", name, value)
			}
			answer.Header.Set(name, string(elementMessage(value)))
		}
	}
	if raw, ok := lookup(fields, "body"); ok {
		answer.Body = []byte(bodyText(raw))
	}
	return answer, nil
}

// bodyText is a body as the host writes it: a string as it is, also when it looks like base64.
func bodyText(raw json.RawMessage) string {
	switch {
	case isNull(raw):
		return ""
	case raw[0] == '"':
		return elementText(raw)
	}
	return string(elementMessage(raw))
}

// Output is an output binding, in the words of function.json.
type Output struct {
	Name     string
	Type     string // "queue" or "serviceBus"
	DataType string // "binary" switches the decoding of base64 off
}

// Messages returns what the host sends to the queue behind an output binding, one element per message, before the
// queue's own base64. An error fails the invocation. One thing is kinder here: the host also reformats a text that is
// an ISO date and nothing else.
func (a Answer) Messages(out Output) ([][]byte, error) {
	raw := a.merged()[out.Name]
	if out.Name == returnBinding {
		raw = a.ReturnValue
	}
	switch {
	case isNull(raw):
		return nil, nil
	case raw[0] == '[':
		return elementMessages(raw)
	case raw[0] != '"':
		return [][]byte{elementMessage(raw)}, nil
	}
	text := elementText(raw)
	if out.DataType == "binary" {
		return [][]byte{[]byte(text)}, nil
	}
	if decoded, ok := decodeBase64(text); ok {
		if out.Type == "serviceBus" {
			decoded = []byte("System.Byte[]") // .NET's name of the decoded value instead of the value
		}
		return [][]byte{decoded}, nil
	}
	trimmed := strings.TrimSpace(text)
	array := strings.HasPrefix(trimmed, "[") && strings.HasSuffix(trimmed, "]")
	object := strings.HasPrefix(trimmed, "{") && strings.HasSuffix(trimmed, "}")
	switch {
	case !array && !object:
		return [][]byte{[]byte(text)}, nil
	case !json.Valid([]byte(trimmed)):
		return nil, fmt.Errorf("output %q looks like JSON and is not: the invocation fails; send texts as an array of strings", out.Name)
	case array:
		return elementMessages([]byte(trimmed))
	}
	return [][]byte{elementMessage([]byte(trimmed))}, nil
}

func elementMessages(raw json.RawMessage) ([][]byte, error) {
	var elements []json.RawMessage
	if err := json.Unmarshal(raw, &elements); err != nil {
		return nil, fmt.Errorf("read an array of messages: %w", err)
	}
	messages := make([][]byte, len(elements))
	for i, element := range elements {
		messages[i] = elementMessage(element)
	}
	return messages, nil
}

// elementMessage is one message: a string exactly, null as nothing, an object or array indented, a scalar as its text.
func elementMessage(raw json.RawMessage) []byte {
	switch {
	case isNull(raw):
		return []byte{}
	case raw[0] == '"':
		return []byte(elementText(raw))
	case raw[0] == '{' || raw[0] == '[':
		return dotnetIndented(raw)
	}
	return []byte(dotnetText(raw))
}

// textValue is a string's text, or the JSON of anything else.
func textValue(raw json.RawMessage) string {
	if isNull(raw) {
		return ""
	}
	return elementText(raw)
}

// decodeBase64 decodes what .NET takes for base64: blanks do not count, and the empty text is base64, too.
func decodeBase64(text string) ([]byte, bool) {
	text = strings.NewReplacer(" ", "", "\t", "", "\r", "", "\n", "").Replace(text)
	decoded, err := base64.StdEncoding.DecodeString(text)
	return decoded, err == nil
}
