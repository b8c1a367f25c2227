package customhandler

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"math"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// This file imitates how the host treats values: how it encodes them, how .NET
// writes scalars as text, and how the properties of a payload replace metadata.

// encodeScalar is the host's encoding of everything but objects, byte arrays
// and times: a string that holds JSON.
func encodeScalar(v any) json.RawMessage {
	if text, ok := v.(string); ok {
		return quote(quote(text))
	}
	return quote(encode(v))
}

// encodeOffset is the host's encoding of a DateTimeOffset: a plain string, in
// whole seconds.
func encodeOffset(t time.Time) json.RawMessage {
	return encode(t.Format("2006-01-02T15:04:05-07:00"))
}

// table is the host's dictionary of metadata. It ignores the case of names and
// keeps the last spelling and value.
type table struct {
	spelling map[string]string // by lower case
	values   map[string]json.RawMessage
}

func newTable() *table {
	return &table{make(map[string]string), make(map[string]json.RawMessage)}
}

func (t *table) set(name string, value json.RawMessage) {
	lower := strings.ToLower(name)
	if earlier, ok := t.spelling[lower]; ok {
		delete(t.values, earlier)
	}
	t.spelling[lower] = name
	t.values[name] = value
}

// addPayload adds the top-level properties of a payload that is a JSON object,
// which replaces values of the same names. It skips arrays and nulls, keeps
// objects, and turns scalars into .NET's text of them.
func (t *table) addPayload(payload []byte) {
	if !json.Valid(payload) || !isObject(payload) {
		return
	}
	dec := json.NewDecoder(bytes.NewReader(payload)) // the payload is valid, so no call fails
	_, _ = dec.Token()
	for dec.More() {
		name, _ := dec.Token()
		var raw json.RawMessage
		_ = dec.Decode(&raw)
		switch raw[0] {
		case '[', 'n':
		case '{':
			var compact bytes.Buffer
			_ = json.Compact(&compact, raw)
			t.set(name.(string), compact.Bytes())
		default:
			t.set(name.(string), encodeScalar(dotnetText(raw)))
		}
	}
}

// finish adds the host's own entry unless the payload has one, removes the names
// that the host never sends, and returns the metadata.
func (t *table) finish(function string, now time.Time) map[string]json.RawMessage {
	if _, replaced := t.spelling["sys"]; !replaced {
		t.set("sys", encode(struct{ MethodName, UtcNow, RandGuid string }{
			function, now.UTC().Format("2006-01-02T15:04:05.0000000Z07:00"), NewInvocationID()}))
	}
	for name := range t.values {
		if strings.HasSuffix(strings.ToLower(name), "trigger") {
			delete(t.values, name)
		}
	}
	return t.values
}

// hostQuery returns a query as the host keeps it: each name in its first
// spelling, without regard to case, and its values joined by commas.
func hostQuery(raw string) (names []string, values map[string]string) {
	values = make(map[string]string)
	for pair := range strings.SplitSeq(raw, "&") {
		name, value, _ := strings.Cut(pair, "=")
		name, value = unescape(name), unescape(value)
		if pair == "" {
			continue
		}
		at := slices.IndexFunc(names, func(known string) bool { return strings.EqualFold(known, name) })
		if at < 0 {
			names = append(names, name)
			values[name] = value
			continue
		}
		values[names[at]] += "," + value
	}
	return names, values
}

// lastQuery returns a query as the host's metadata has it: the last value of
// each name, in its last spelling.
func lastQuery(raw string) map[string]string {
	values := make(map[string]string)
	for pair := range strings.SplitSeq(raw, "&") {
		if pair == "" {
			continue
		}
		name, value, _ := strings.Cut(pair, "=")
		name = unescape(name)
		for known := range values {
			if strings.EqualFold(known, name) {
				delete(values, known)
			}
		}
		values[name] = unescape(value)
	}
	return values
}

// unescape keeps a text with invalid escapes as it is, like the host.
func unescape(text string) string {
	if decoded, err := url.QueryUnescape(text); err == nil {
		return decoded
	}
	return text
}

// isoDate matches the strings that the host's JSON parser converts to dates.
var isoDate = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)?$`)

// dotnetText returns .NET's ToString() of a JSON value: "" for null, indented
// JSON for an object or array.
func dotnetText(raw json.RawMessage) string {
	switch raw[0] {
	case 'n':
		return ""
	case 't':
		return "True"
	case 'f':
		return "False"
	case '{', '[':
		var b bytes.Buffer
		_ = json.Indent(&b, raw, "", "  ") // the value is valid
		return b.String()
	case '"':
		text := elementText(raw)
		if isoDate.MatchString(text) {
			if t := parseTime(text); !t.IsZero() {
				return t.Format("01/02/2006 15:04:05")
			}
		}
		return text
	}
	return dotnetNumber(string(raw))
}

// dotnetNumber keeps integers of any length. Other numbers become a double, and
// its text the shortest that gives the double again, with an exponent below
// 1E-04 and from 1E+15 on.
func dotnetNumber(text string) string {
	if !strings.ContainsAny(text, ".eE") {
		return text
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return map[bool]string{true: "-∞", false: "∞"}[f < 0]
	}
	if abs := math.Abs(f); abs != 0 && (abs < 1e-4 || abs >= 1e15) {
		return strconv.FormatFloat(f, 'E', -1, 64)
	}
	return strconv.FormatFloat(f, 'f', -1, 64)
}

// NewInvocationID returns a new invocation id, a random GUID.
func NewInvocationID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6] = b[6]&0x0f | 0x40
	b[8] = b[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
