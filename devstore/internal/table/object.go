package table

import (
	"encoding/json"
	"strings"
	"unicode/utf8"
)

// A scalar is a simple value in JSON.
type scalar struct {
	form form
	text string // of a text or a number
	yes  bool
}

// A form is what a scalar is.
type form byte

const (
	isNull form = iota
	isText
	isNumber
	isBoolean
)

// An object is a JSON object of which the members are still to be read. It is
// known to be valid. The decoder of the standard library needs several times the
// time for the small objects of a transaction. What is read shares the memory of
// the object.
type object struct{ rest string }

// openObject returns the object in a body that has nothing else.
func openObject(body []byte) (object, bool) {
	if !json.Valid(body) {
		return object{}, false
	}
	o := object{string(body)}
	return o, o.take('{')
}

// skip goes to the next byte that is no space.
func (o *object) skip() {
	for o.rest != "" && (o.rest[0] == ' ' || o.rest[0] == '\t' || o.rest[0] == '\r' || o.rest[0] == '\n') {
		o.rest = o.rest[1:]
	}
}

// take goes behind a byte if it is next.
func (o *object) take(c byte) bool {
	if o.skip(); o.rest[0] != c {
		return false
	}
	o.rest = o.rest[1:]
	return true
}

// more reports whether there is another member, and goes to it.
func (o *object) more() bool {
	o.take(',')
	return !o.take('}')
}

func (o *object) name() string {
	name := o.text()
	o.take(':')
	return name
}

// text reads the text that is next.
func (o *object) text() string {
	o.skip()
	end, plain := 1, true
	for ; o.rest[end] != '"'; end++ {
		if o.rest[end] == '\\' {
			end++
			plain = false
		}
	}
	raw := o.rest[:end+1]
	o.rest = o.rest[end+1:]
	if plain && utf8.ValidString(raw) {
		return raw[1:end]
	}
	var text string
	_ = json.Unmarshal([]byte(raw), &text) // it is valid
	return text
}

// value reads the value that is next. It reports false for one that is not
// simple.
func (o *object) value() (scalar, bool) {
	o.skip()
	switch o.rest[0] {
	case '{', '[':
		return scalar{}, false
	case '"':
		return scalar{form: isText, text: o.text()}, true
	}
	end := strings.IndexAny(o.rest, ",} \t\r\n")
	raw := o.rest[:end]
	o.rest = o.rest[end:]
	switch raw {
	case "null":
		return scalar{}, true
	case "true", "false":
		return scalar{form: isBoolean, yes: raw == "true"}, true
	}
	return scalar{form: isNumber, text: raw}, true
}
