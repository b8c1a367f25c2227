package customhandler

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// encoding/json silently changes the text of the caller: it replaces invalid
// text by U+FFFD, uses the last of several members with one name, takes OWNER
// for owner, and skips null. Here these are errors.

// decodeJSON reads one JSON value into v. It rejects a text that v would not
// represent exactly.
func decodeJSON(text []byte, v any) error {
	if at := invalidUTF8(text); at >= 0 {
		return fmt.Errorf("it is not valid UTF-8 at byte %d", at)
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(v); err != nil {
		return err
	}
	if _, err := dec.Token(); err == nil {
		return errors.New("text follows the JSON value")
	} else if err != io.EOF {
		return err
	}
	if at := loneSurrogate(text); at >= 0 {
		return fmt.Errorf("the surrogate %s at byte %d has no other half", text[at:at+6], at)
	}
	known := membersOf(v)
	null, err := checkMembers(json.NewDecoder(bytes.NewReader(text)), known, 1)
	if null && known != nil {
		return errors.New("it is null instead of an object")
	}
	return err
}

// invalidUTF8 returns the index of the first byte that belongs to no character,
// -1 if there is none.
func invalidUTF8(text []byte) int {
	for at := 0; at < len(text); {
		r, size := utf8.DecodeRune(text[at:])
		if r == utf8.RuneError && size == 1 {
			return at
		}
		at += size
	}
	return -1
}

// loneSurrogate returns the index of the first \uXXXX in valid JSON that is a
// surrogate without its other half, -1 if there is none. JSON has backslashes
// only in strings.
func loneSurrogate(text []byte) int {
	for at := 0; at < len(text); at++ {
		if text[at] != '\\' {
			continue
		}
		r := escaped(text[at:])
		switch {
		case r < 0:
			at++ // skip the escaped character, which may be a backslash
		case !utf16.IsSurrogate(r):
			at += 5
		case utf16.DecodeRune(r, escaped(text[at+6:])) == utf8.RuneError:
			return at
		default:
			at += 11
		}
	}
	return -1
}

// escaped returns the value of the \uXXXX at the start of text, -1 if there is
// none.
func escaped(text []byte) rune {
	if len(text) < 6 || text[0] != '\\' || text[1] != 'u' {
		return -1
	}
	n, err := strconv.ParseUint(string(text[2:6]), 16, 16)
	if err != nil {
		return -1
	}
	return rune(n)
}

// membersOf returns the names of the members that v takes, nil if v is not a
// struct.
func membersOf(v any) []string {
	t := reflect.TypeOf(v).Elem()
	if t.Kind() != reflect.Struct {
		return nil
	}
	names := []string{} // not nil: a struct without fields takes no members
	for _, f := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" {
			name = f.Name
		}
		names = append(names, name)
	}
	return names
}

// maxDepth is how deep arrays and objects may be in each other. The deepest body
// of this app has four levels.
const maxDepth = 32

// checkMembers reads one valid JSON value at a depth and reports whether it is
// null. It rejects an object with two members of one name, or of names that
// differ only in case, because another reader may take them for one. Unless
// known is nil, the members of the outermost object must be in it and must not
// be null.
func checkMembers(dec *json.Decoder, known []string, depth int) (null bool, _ error) {
	open, err := dec.Token()
	if err != nil {
		return false, err
	}
	if open != json.Delim('{') && open != json.Delim('[') {
		return open == nil, nil
	}
	if depth > maxDepth {
		return false, fmt.Errorf("arrays and objects are more than %d deep in each other", maxDepth)
	}
	seen := make(map[string]bool)
	for dec.More() {
		name := ""
		if open == json.Delim('{') {
			token, err := dec.Token()
			if err != nil {
				return false, err
			}
			name = token.(string)
			switch {
			case known != nil && !slices.Contains(known, name):
				return false, fmt.Errorf("unknown field %q (names are case-sensitive)", name)
			case seen[folded(name)]:
				return false, fmt.Errorf("duplicate field %q", name)
			}
			seen[folded(name)] = true
		}
		switch null, err := checkMembers(dec, nil, depth+1); {
		case err != nil:
			return false, err
		case null && known != nil:
			return false, fmt.Errorf("field %q is null; give it a value or omit it", name)
		}
	}
	_, err = dec.Token()
	return false, err
}

// folded returns the same text for names that differ only in case. Like
// encoding/json, it takes the Kelvin sign for a k.
func folded(name string) string {
	return strings.Map(func(r rune) rune {
		least := r
		for other := unicode.SimpleFold(r); other != r; other = unicode.SimpleFold(other) {
			least = min(least, other)
		}
		return least
	}, name)
}
