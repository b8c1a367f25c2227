package customhandler

import (
	"sync"
	"unicode/utf8"
)

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
