package work

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode"
)

var (
	errNotObject = errors.New("the item is not a JSON object")
	errNoID      = errors.New("the item has no id")
)

// itemID returns the member id of an item, which is compact and valid JSON. It
// reads only the names of the members, because Processors decode the item.
func itemID(item []byte) (string, error) {
	if len(item) < 2 || item[0] != '{' {
		return "", errNotObject
	}
	id, found := "", false
	for rest := item[1:]; rest[0] != '}'; {
		if rest[0] == ',' {
			rest = rest[1:]
		}
		end := stringLen(rest)
		if end == 0 || end+1 >= len(rest) {
			return "", errNotObject
		}
		name, value := rest[:end], rest[end+1:]
		length := valueLen(value)
		if length == 0 || length >= len(value) {
			return "", errNotObject
		}
		value, rest = value[:length], value[length:]
		if text, err := decodeText(name); err != nil || text != "id" {
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
	switch {
	case !found:
		return "", errNoID
	case id == "" || len(id) > MaxItemID:
		return "", fmt.Errorf("the id has %d bytes: use 1 to %d", len(id), MaxItemID)
	case strings.ContainsFunc(id, unicode.IsControl):
		return "", errors.New("the id contains control characters")
	}
	return id, nil
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
