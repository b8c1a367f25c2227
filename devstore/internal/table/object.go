package table

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"
)

// An object is a JSON object of which the members are still to be read. It is
// known to be valid. The decoder of the standard library needs several times the
// time for the small objects of a transaction.
type object struct{ rest []byte }

// openObject returns the object in a body that has nothing else.
func openObject(body []byte) (object, bool) {
	if !json.Valid(body) {
		return object{}, false
	}
	o := object{body}
	return o, o.take('{')
}

// skip goes to the next byte that is no space.
func (o *object) skip() { o.rest = bytes.TrimLeft(o.rest, " \t\r\n") }

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
	if plain && utf8.Valid(raw) {
		return string(raw[1:end])
	}
	var text string
	_ = json.Unmarshal(raw, &text) // it is valid
	return text
}

// value reads the value that is next as [json.Decoder.Token] does. It reports
// false for one that is not simple.
func (o *object) value() (any, bool) {
	o.skip()
	switch o.rest[0] {
	case '{', '[':
		return nil, false
	case '"':
		return o.text(), true
	}
	end := bytes.IndexAny(o.rest, ",} \t\r\n")
	raw := string(o.rest[:end])
	o.rest = o.rest[end:]
	switch raw {
	case "null":
		return nil, true
	case "true", "false":
		return raw == "true", true
	}
	return json.Number(raw), true
}
