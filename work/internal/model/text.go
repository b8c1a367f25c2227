package model

import (
	"fmt"
	"runtime"
	"strings"
	"unicode/utf8"
)

// ShortError returns the part of an error's text that is kept.
func ShortError(text string) string { return ShortenTo(text, MaxError) }

// ShortenTo returns the beginning of a text, as valid UTF-8.
func ShortenTo(text string, limit int) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if len(text) <= limit {
		return text
	}
	end := limit
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end]
}

// PanicText returns the text of the value passed to panic, without its methods,
// which may panic too.
func PanicText(p any) string {
	switch p := p.(type) {
	case string:
		return p
	case runtime.Error:
		return p.Error()
	}
	return fmt.Sprintf("%T", p)
}
