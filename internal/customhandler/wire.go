package customhandler

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
)

// Headers of the host, in the canonical form that http.Header wants as a key.
const (
	headerInvocationID = "X-Azure-Functions-Invocationid"
	headerHostVersion  = "X-Azure-Functions-Hostversion"
)

// Envelope is the body of POST /<Function>: what set the function off, and what the host knows about it.
// Its values are raw, because their encoding depends on who wrote them.
type Envelope struct {
	// ID is the invocation's id. It travels in a header; Client.Invoke makes one when it is empty.
	ID string `json:"-"`

	Data     map[string]json.RawMessage // by binding name
	Metadata map[string]json.RawMessage
}

// Answer is the body of a handler's 2xx answer to an envelope.
type Answer struct {
	Outputs     map[string]json.RawMessage `json:",omitempty"` // by binding name, exact case; nil when the answer has none
	Logs        []string                   `json:",omitempty"`
	ReturnValue json.RawMessage            `json:",omitempty"`
}

// decodeEnvelope ignores what it does not know. Data must be there; metadata of any other shape is as good as none.
func decodeEnvelope(body []byte) (Envelope, error) {
	var wire struct {
		Data     map[string]json.RawMessage
		Metadata json.RawMessage
	}
	if err := json.Unmarshal(body, &wire); err != nil {
		return Envelope{}, errEnvelope("the body is not an envelope of the Functions host: " + err.Error())
	}
	e := Envelope{Data: wire.Data}
	_ = json.Unmarshal(wire.Metadata, &e.Metadata)
	return e, nil
}

func errEnvelope(message string) *Error {
	return &Error{http.StatusBadRequest, "bad_envelope", message}
}

// data returns what the envelope holds for a binding.
func (e Envelope) data(binding string) (json.RawMessage, error) {
	if raw, ok := lookup(e.Data, binding); ok {
		return raw, nil
	}
	return nil, errEnvelope(fmt.Sprintf("the envelope has no data for binding %q but for %q: function.json and the code must use one name",
		binding, slices.Sorted(maps.Keys(e.Data))))
}

// lookup finds a key exactly, or else without regard to case: the host's tables ignore case, ours do not.
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

// textOf takes the host's encoding off a value. A string holds JSON and is decoded once more if that gives a string
// again; other JSON in it is the text itself, and so is a string that was encoded only once, as some hosts do. An
// object that came unwrapped is returned as JSON text. Only one level is undone, so a message with quotes keeps them.
func textOf(raw json.RawMessage) string {
	var outer string
	if err := json.Unmarshal(raw, &outer); err != nil {
		return string(raw)
	}
	if len(outer) < 2 || outer[0] != '"' || outer[len(outer)-1] != '"' {
		return outer
	}
	var inner string
	if err := json.Unmarshal([]byte(outer), &inner); err != nil {
		return outer
	}
	return inner
}

// marshal is compact JSON that leaves <, > and & as they are, like .NET's.
func marshal(v any) (json.RawMessage, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// encode is marshal for values that always have a JSON form; one that has not is a mistake in the program.
func encode(v any) json.RawMessage {
	raw, err := marshal(v)
	if err != nil {
		panic(fmt.Sprintf("customhandler: encode %T: %v", v, err))
	}
	return raw
}

// isObject tells whether valid JSON is an object.
func isObject(raw []byte) bool {
	raw = bytes.TrimLeft(raw, " \t\r\n")
	return len(raw) > 0 && raw[0] == '{'
}

// isNull tells whether a value is missing or JSON's null.
func isNull(raw []byte) bool {
	raw = bytes.TrimSpace(raw)
	return len(raw) == 0 || string(raw) == "null"
}
