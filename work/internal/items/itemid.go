package items

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode"

	"kennel/work/internal/model"
)

var (
	ErrNotObject = errors.New("the item is not a JSON object")
	errNoID      = errors.New("the item has no id")
)

// ID returns the member id of an item of a parcel, which is compact and valid
// JSON, and was checked when it was submitted. It reads only the names of the members, because Processors decode the item.
func ID(item []byte) (string, error) {
	if len(item) < 2 || item[0] != '{' {
		return "", ErrNotObject
	}
	id, found := "", false
	for rest := item[1:]; rest[0] != '}'; {
		if rest[0] == ',' {
			rest = rest[1:]
		}
		end := stringLen(rest)
		if end == 0 || end+1 >= len(rest) {
			return "", ErrNotObject
		}
		name, value := rest[:end], rest[end+1:]
		length := valueLen(value)
		if length == 0 || length >= len(value) {
			return "", ErrNotObject
		}
		value, rest = value[:length], value[length:]
		if !namesID(name) {
			continue
		}
		if found {
			return "", errors.New("the item has two members id")
		}
		text, err := decodeText(value)
		if err != nil {
			return "", errors.New("the id is not a text")
		}
		id, found = text, true
	}
	if !found {
		return "", errNoID
	}
	return checkID(id)
}

func checkID(id string) (string, error) {
	switch {
	case id == "" || len(id) > model.MaxItemID:
		return "", fmt.Errorf("the id has %d bytes: use 1 to %d", len(id), model.MaxItemID)
	case strings.ContainsFunc(id, unicode.IsControl):
		return "", errors.New("the id contains control characters")
	}
	return id, nil
}

// namesID reports whether the name of a member is id.
func namesID(name []byte) bool {
	if bytes.IndexByte(name, '\\') < 0 {
		return string(name) == `"id"`
	}
	text, err := decodeText(name)
	return err == nil && text == "id"
}

// stringLen returns the length of the string that a text begins with, or 0.
func stringLen(text []byte) int {
	if len(text) == 0 || text[0] != '"' {
		return 0
	}
	for i := 1; i < len(text); i++ {
		switch text[i] {
		case '"':
			return i + 1
		case '\\':
			i++
		}
	}
	return 0
}

// valueLen returns the length of the value that a text begins with, or 0.
func valueLen(text []byte) int {
	depth := 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '"':
			n := stringLen(text[i:])
			if n == 0 {
				return 0
			}
			i += n - 1
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 {
				return i
			}
			depth--
		case ',':
			if depth == 0 {
				return i
			}
		}
	}
	return 0
}

// decodeText decodes a string.
func decodeText(text []byte) (decoded string, err error) {
	if n := len(text); n >= 2 && text[0] == '"' && bytes.IndexByte(text, '\\') < 0 {
		return string(text[1 : n-1]), nil
	}
	if len(text) == 0 || text[0] != '"' {
		return "", errors.New("not a string")
	}
	err = json.Unmarshal(text, &decoded)
	return decoded, err
}

// IsPlain reports whether a text is a compact JSON object whose values are
// texts without escapes, and numbers without exponents. Most items and results
// are, and this finds out several times faster than encoding/json. It does not
// check that the texts are UTF-8.
func IsPlain(text []byte) bool {
	if len(text) == 0 || text[0] != '{' {
		return false
	}
	for rest := text[1:]; ; rest = rest[1:] {
		n := plainTextLen(rest)
		if n == 0 || n == len(rest) || rest[n] != ':' {
			return false
		}
		rest = rest[n+1:]
		if n = plainTextLen(rest); n == 0 {
			n = plainNumberLen(rest)
		}
		if n == 0 || n == len(rest) {
			return false
		}
		if rest = rest[n:]; rest[0] != ',' {
			return rest[0] == '}' && len(rest) == 1
		}
	}
}

// plainTextLen returns the length of the string without escapes that a text
// begins with, or 0.
func plainTextLen(text []byte) int {
	if len(text) == 0 || text[0] != '"' {
		return 0
	}
	for i := 1; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"':
			return i + 1
		case c == '\\' || c < ' ':
			return 0
		}
	}
	return 0
}

// plainNumberLen returns the length of the number that a text begins with, or
// 0.
func plainNumberLen(text []byte) int {
	digits := func(i int) int {
		for i < len(text) && '0' <= text[i] && text[i] <= '9' {
			i++
		}
		return i
	}
	begin := 0
	if len(text) > 0 && text[0] == '-' {
		begin = 1
	}
	end := digits(begin)
	if end == begin || end > begin+1 && text[begin] == '0' {
		return 0
	}
	if end < len(text) && text[end] == '.' {
		point := end
		if end = digits(point + 1); end == point+1 {
			return 0
		}
	}
	return end
}

// Quote shortens text of a submitter for an error.
func Quote(text []byte) string {
	const limit = 50
	if len(text) > limit {
		return fmt.Sprintf("%q…", bytes.ToValidUTF8(text[:limit], nil))
	}
	return fmt.Sprintf("%q", text)
}
