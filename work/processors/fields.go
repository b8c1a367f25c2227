package processors

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"kennel/work/internal/items"
)

// field is a member of an item that a processor knows.
type field struct {
	name  string
	value []byte // its JSON text, part of the item; nil if it is missing
}

// readFields finds the values of known in an object. It is stricter than
// encoding/json: names match exactly, an unknown or repeated member is an error,
// and so is text that is not valid Unicode. It reads the object once, and
// allocates nothing for names and values without escapes.
//
// A value that is an object or an array is only correct if item is valid JSON.
// The caller checks that, unless it refuses such values.
func readFields(item []byte, known []field) error {
	rest := skipSpace(item)
	if len(rest) == 0 || rest[0] != '{' {
		return items.ErrNotObject
	}
	rest = skipSpace(rest[1:])
	for n := 0; ; n++ {
		if n == 0 && len(rest) > 0 && rest[0] == '}' {
			return endOfItem(rest[1:])
		}
		quoted, after, err := cutString(rest)
		if err != nil {
			return err
		}
		if after = skipSpace(after); len(after) == 0 || after[0] != ':' {
			return errSyntax
		}
		i, err := find(known, quoted)
		if err != nil {
			return err
		}
		if known[i].value, rest, err = cutValue(skipSpace(after[1:])); err != nil {
			return err
		}
		if rest = skipSpace(rest); len(rest) == 0 {
			return errSyntax
		}
		switch rest[0] {
		case ',':
			rest = skipSpace(rest[1:])
		case '}':
			return endOfItem(rest[1:])
		default:
			return errSyntax
		}
	}
}

var errSyntax = errors.New("the item is not valid JSON")

func endOfItem(rest []byte) error {
	if len(skipSpace(rest)) > 0 {
		return errSyntax
	}
	return nil
}

// find returns the index of the known member of that name.
func find(known []field, quoted []byte) (int, error) {
	name := quoted[1 : len(quoted)-1]
	if bytes.IndexByte(name, '\\') >= 0 {
		text, err := unquote(quoted)
		if err != nil {
			return 0, err
		}
		name = []byte(text)
	}
	i := slices.IndexFunc(known, func(m field) bool { return m.name == string(name) })
	switch {
	case i < 0:
		var names []string
		for _, m := range known {
			names = append(names, m.name)
		}
		return 0, fmt.Errorf("member %s is unknown; the members are %s", items.Quote(name), strings.Join(names, ", "))
	case known[i].value != nil:
		return 0, fmt.Errorf("member %s is repeated", items.Quote(name))
	}
	return i, nil
}

func skipSpace(b []byte) []byte {
	for len(b) > 0 && (b[0] == ' ' || b[0] == '\t' || b[0] == '\n' || b[0] == '\r') {
		b = b[1:]
	}
	return b
}

// cutString cuts a string with its quotation marks off b.
func cutString(b []byte) (quoted, rest []byte, err error) {
	if len(b) == 0 || b[0] != '"' {
		return nil, nil, errSyntax
	}
	ascii := true
	for i := 1; i < len(b); i++ {
		switch c := b[i]; {
		case c == '"':
			if quoted = b[:i+1]; !ascii && !isText(quoted) {
				return nil, nil, errText
			}
			return quoted, b[i+1:], nil
		case c == '\\':
			i++
		case c < ' ':
			return nil, nil, errSyntax
		case c >= utf8.RuneSelf:
			ascii = false
		}
	}
	return nil, nil, errSyntax
}

// cutValue cuts a value off b, which may be invalid unless it is a string.
func cutValue(b []byte) (value, rest []byte, err error) {
	if len(b) > 0 && b[0] == '"' {
		return cutString(b)
	}
	end, depth := 0, 0
	for ; end < len(b); end++ {
		switch c := b[end]; {
		case c == '"':
			_, after, err := cutString(b[end:])
			if err != nil {
				return nil, nil, err
			}
			end = len(b) - len(after) - 1
		case c == '{' || c == '[':
			depth++
		case depth == 0 && (c == ',' || c == '}' || c <= ' '):
			return endOfValue(b, end)
		case c == '}' || c == ']':
			depth--
		}
	}
	return endOfValue(b, end)
}

func endOfValue(b []byte, end int) (value, rest []byte, err error) {
	if end == 0 {
		return nil, nil, errSyntax
	}
	return b[:end], b[end:], nil
}

var errText = errors.New("the item has text that is not valid Unicode, or U+FFFD, which stands for lost text")

// isText reports whether b is Unicode without U+FFFD. Decoders put that in the
// place of text that they cannot read, which would make different names equal.
func isText(b []byte) bool { return utf8.Valid(b) && !bytes.ContainsRune(b, utf8.RuneError) }

// text returns the text of a string. b is part of value if that has no escapes.
func (m field) text() (b []byte, err error) {
	switch {
	case m.value == nil:
		return nil, fmt.Errorf("%s is missing", m.name)
	case m.value[0] != '"':
		return nil, fmt.Errorf("%s is not a string", m.name)
	case bytes.IndexByte(m.value, '\\') < 0:
		return m.value[1 : len(m.value)-1], nil
	}
	s, err := unquote(m.value)
	return []byte(s), err
}

func unquote(quoted []byte) (s string, err error) {
	if err := json.Unmarshal(quoted, &s); err != nil {
		return "", errSyntax
	}
	if !isText([]byte(s)) {
		return "", errText
	}
	return s, nil
}

// short returns the text of a string of 1 to maxText bytes.
func (m field) short() ([]byte, error) {
	b, err := m.text()
	switch {
	case err != nil:
		return nil, err
	case len(b) == 0:
		return nil, fmt.Errorf("%s is empty", m.name)
	case len(b) > maxText:
		return nil, fmt.Errorf("%s is longer than %d bytes", m.name, maxText)
	}
	return b, nil
}

// maxText is the maximum length in bytes of a name in an item.
const maxText = 200

// decimal returns the number of a member that is a number or a string.
func (m field) decimal() (d decimal, err error) {
	switch {
	case m.value == nil:
		return d, fmt.Errorf("%s is missing", m.name)
	case m.value[0] == '"':
		text, err := m.text()
		if err != nil {
			return d, err
		}
		d, err = parseDecimal(text)
		if err != nil {
			return d, fmt.Errorf("%s %s %w", m.name, items.Quote(text), err)
		}
	default:
		if d, err = parseDecimal(m.value); err != nil {
			return d, fmt.Errorf("%s %s %w", m.name, items.Quote(m.value), err)
		}
	}
	return d, nil
}
