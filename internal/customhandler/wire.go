package customhandler

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"
)

// Headers of the host, in the canonical form of http.Header's keys.
const (
	headerInvocationID = "X-Azure-Functions-Invocationid"
	headerHostVersion  = "X-Azure-Functions-Hostversion"
)

// headerRequestID of an answer is the invocation's id, with which its caller
// can name the request.
const headerRequestID = "X-Request-Id"

// Envelope is the body of POST /<Function>: the trigger's data and the host's
// metadata. The values are raw, because their encoding depends on the sender.
type Envelope struct {
	// ID is the invocation's id, which travels in a header. Client.Invoke makes
	// one if it is empty.
	ID string `json:"-"`

	Data     map[string]json.RawMessage // by binding name
	Metadata map[string]json.RawMessage
}

// Answer is the body of a handler's 2xx answer to an envelope. It has no
// ReturnValue: no function uses the binding $return, because the host decodes
// its texts.
type Answer struct {
	Outputs map[string]json.RawMessage `json:",omitempty"` // by binding name, in its exact case
	Logs    []string                   `json:",omitempty"`
}

// encode returns the JSON of the envelope in parts, so that long values are not
// copied.
func (e Envelope) encode() ([][]byte, error) {
	data, err := appendMembers([][]byte{[]byte(`{"Data":`)}, e.Data)
	if err != nil {
		return nil, err
	}
	parts, err := appendMembers(append(data, []byte(`,"Metadata":`)), e.Metadata)
	return append(parts, []byte("}")), err
}

func appendMembers(parts [][]byte, members map[string]json.RawMessage) ([][]byte, error) {
	if members == nil {
		return append(parts, []byte("null")), nil
	}
	separator := "{"
	for _, name := range slices.Sorted(maps.Keys(members)) {
		if !json.Valid(members[name]) {
			return nil, fmt.Errorf("the value of %q is not JSON", name)
		}
		parts = append(parts, fmt.Appendf(nil, "%s%s:", separator, quote(name)), members[name])
		separator = ","
	}
	if separator == "{" {
		parts = append(parts, []byte("{"))
	}
	return append(parts, []byte("}")), nil
}

// decodeEnvelope ignores unknown members. It requires Data, and reads Metadata
// of another type as empty. An HTTP function does not need Metadata, which may
// hold the whole body of its call again.
func decodeEnvelope(body []byte, withMetadata bool) (Envelope, error) {
	var wire struct {
		Data     map[string]json.RawMessage
		Metadata metadataMember
	}
	wire.Metadata.skip = !withMetadata
	if err := json.Unmarshal(body, &wire); err != nil {
		return Envelope{}, errEnvelope("The body is not an envelope of the Functions host: " + err.Error() + ".")
	}
	return Envelope{Data: wire.Data, Metadata: wire.Metadata.values}, nil
}

type metadataMember struct {
	skip   bool
	values map[string]json.RawMessage
}

// UnmarshalJSON implements [json.Unmarshaler].
func (m *metadataMember) UnmarshalJSON(raw []byte) error {
	if !m.skip {
		_ = json.Unmarshal(raw, &m.values)
	}
	return nil
}

func errEnvelope(message string) *Error {
	return &Error{http.StatusBadRequest, "bad_envelope", message}
}

// data returns the envelope's value for a binding.
func (e Envelope) data(binding string) (json.RawMessage, error) {
	if raw, ok := lookup(e.Data, binding); ok {
		return raw, nil
	}
	return nil, errEnvelope(fmt.Sprintf("The envelope has no data for binding %q, only for %q. Use one name in function.json and in the code.",
		binding, slices.Sorted(maps.Keys(e.Data))))
}

// lookup finds a key exactly, or else without regard to case, as the host's
// tables do.
func lookup(m map[string]json.RawMessage, name string) (json.RawMessage, bool) {
	if raw, ok := m[name]; ok {
		return raw, true
	}
	for _, key := range slices.Sorted(maps.Keys(m)) {
		if strings.EqualFold(key, name) {
			return m[key], true
		}
	}
	return nil, false
}

// textOf removes the host's encoding from a value: a JSON string that holds a
// JSON string gives the inner one. Other hosts encode only once, or not at all:
// any other string gives its text, and any other value its JSON. Only one level
// is removed, so that a message with quotes keeps them.
func textOf(raw json.RawMessage) string {
	outer := elementText(raw)
	if len(outer) < 2 || outer[0] != '"' || outer[len(outer)-1] != '"' {
		return outer
	}
	return elementText([]byte(outer))
}

// objectOf is textOf for a value that is an object, which it does not copy.
func objectOf(raw json.RawMessage) []byte {
	if isObject(raw) {
		return raw
	}
	return []byte(textOf(raw))
}

// elementText returns a JSON string's text, an empty one for null, and the JSON
// of any other value.
func elementText(raw json.RawMessage) string {
	var s string
	if err := json.Unmarshal(raw, &s); err != nil {
		return string(raw)
	}
	return s
}

// marshal returns compact JSON in which <, > and & are not escaped, like .NET's.
func marshal(v any) (json.RawMessage, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// encode is marshal for values that always have a JSON form.
func encode(v any) json.RawMessage {
	raw, err := marshal(v)
	if err != nil {
		panic(fmt.Sprintf("customhandler: encode %T: %v", v, err))
	}
	return raw
}

// isObject reports whether valid JSON is an object.
func isObject(raw []byte) bool {
	raw = bytes.TrimLeft(raw, " \t\r\n")
	return len(raw) > 0 && raw[0] == '{'
}

// isNull reports whether a value is missing or null.
func isNull(raw []byte) bool {
	raw = bytes.TrimSpace(raw)
	return len(raw) == 0 || string(raw) == "null"
}

// A body of a call may be long and have characters that are six times as long in
// JSON. So its JSON string is written at once into memory of the right size,
// which encoding/json cannot do.

// quote returns the JSON string of a text, as encode does.
func quote[Text ~string | ~[]byte](text Text) []byte {
	return appendQuoted(make([]byte, 0, quotedLength(text)), text)
}

// appendQuoted appends the JSON string of a text. Like encode it replaces bytes
// that are not UTF-8 by U+FFFD.
func appendQuoted[Text ~string | ~[]byte](to []byte, text Text) []byte {
	to = append(to, '"')
	for len(text) > 0 {
		size, escape := nextQuoted(text)
		if escape == "" {
			to = append(to, text[:size]...)
		} else {
			to = append(to, escape...)
		}
		text = text[size:]
	}
	return append(to, '"')
}

// quotedLength returns the length of the JSON string of a text.
func quotedLength[Text ~string | ~[]byte](text Text) int {
	length := len(`""`)
	for len(text) > 0 {
		size, escape := nextQuoted(text)
		if escape == "" {
			length += size
		} else {
			length += len(escape)
		}
		text = text[size:]
	}
	return length
}

// nextQuoted returns the length of the first character of a text, and its escape
// in JSON, "" if it has none.
func nextQuoted[Text ~string | ~[]byte](text Text) (size int, escape string) {
	if c := text[0]; c < utf8.RuneSelf {
		return 1, asciiEscapes()[c]
	}
	r, size := utf8.DecodeRuneInString(string(text[:min(len(text), utf8.UTFMax)]))
	switch {
	case r == utf8.RuneError && size == 1:
		return 1, `\ufffd`
	case r == '\u2028': // encoding/json escapes it for JavaScript
		return size, `\u2028`
	case r == '\u2029':
		return size, `\u2029`
	}
	return size, ""
}

var asciiEscapes = sync.OnceValue(func() *[utf8.RuneSelf]string { // not at the start of the process
	escapes := new([utf8.RuneSelf]string)
	for c := range escapes {
		if quoted := string(encode(string(rune(c)))); quoted != `"`+string(rune(c))+`"` {
			escapes[c] = quoted[1 : len(quoted)-1]
		}
	}
	return escapes
})

// Error is a failure that the caller of an HTTP function may read. The answer
// is {"error":{"code":…,"message":…}} with the status.
type Error struct {
	Status  int
	Code    string // for programs: a word or two, never changed
	Message string // for people: what failed, why, and what to do
}

func (e *Error) Error() string { return e.Code + ": " + e.Message }
