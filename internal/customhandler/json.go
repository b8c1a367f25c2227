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
	"unicode/utf16"
	"unicode/utf8"
)

// What encoding/json lets pass changes what the caller has written without a word: it puts U+FFFD where a text is no
// text, takes the last of several members with one name, takes OWNER for owner, and null for whatever was there before.
// Here these are mistakes.

// decodeJSON reads one JSON value into v and refuses what would not be in v as it is in the text.
func decodeJSON(text []byte, v any) error {
	if at := invalidUTF8(text); at >= 0 {
		return fmt.Errorf("it is not valid UTF-8 (at byte %d)", at)
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(v); err != nil {
		return err
	}
	if _, err := dec.Token(); err == nil {
		return errors.New("there is more after the first JSON value")
	} else if err != io.EOF {
		return err
	}
	if at := loneSurrogate(text); at >= 0 {
		return fmt.Errorf("the escape %s is half a character, and its other half is missing (at byte %d)", text[at:at+6], at)
	}
	known := membersOf(v)
	null, err := checkMembers(json.NewDecoder(bytes.NewReader(text)), known)
	if null && known != nil {
		return errors.New("it is null, and not an object")
	}
	return err
}

// invalidUTF8 returns where the first byte is that belongs to no character, -1 for nowhere.
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

// loneSurrogate returns where, in text that is JSON, the first \uXXXX is that is one half of a pair, -1 for nowhere.
// Outside of strings JSON has no backslash.
func loneSurrogate(text []byte) int {
	for at := 0; at < len(text); at++ {
		if text[at] != '\\' {
			continue
		}
		r := escaped(text[at:])
		switch {
		case r < 0:
			at++ // the escaped character is no beginning of an escape
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

// escaped returns what the \uXXXX stands for that text begins with, -1 if it begins with something else.
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

// membersOf returns the names of the members that v takes, nil if it is no struct.
func membersOf(v any) []string {
	t := reflect.TypeOf(v).Elem()
	if t.Kind() != reflect.Struct {
		return nil
	}
	names := []string{} // a struct without fields takes none
	for _, f := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" {
			name = f.Name
		}
		names = append(names, name)
	}
	return names
}

// checkMembers reads one value that is JSON, says whether it is null, and refuses objects with several members of one
// name. The outermost object's members must be among those known, unless that is nil, and must not be null.
func checkMembers(dec *json.Decoder, known []string) (null bool, _ error) {
	open, err := dec.Token()
	if err != nil {
		return false, err
	}
	if open != json.Delim('{') && open != json.Delim('[') {
		return open == nil, nil
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
				return false, fmt.Errorf("unknown field %q: names count in this very case", name)
			case seen[name]:
				return false, fmt.Errorf("field %q is there twice", name)
			}
			seen[name] = true
		}
		switch null, err := checkMembers(dec, nil); {
		case err != nil:
			return false, err
		case null && known != nil:
			return false, fmt.Errorf("field %q is null: give it a value, or leave it out", name)
		}
	}
	_, err = dec.Token()
	return false, err
}
