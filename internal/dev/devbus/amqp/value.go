package amqp

import (
	"iter"
	"math"
)

// These AMQP types have no counterpart in Go. Every other type decodes to the
// Go type with the same meaning: a binary to []byte, a timestamp to time.Time,
// a list to []any.
type (
	// Symbol is a name that a protocol defines.
	Symbol string

	// Char is a Unicode character.
	Char rune

	// UUID is a UUID in the byte order of RFC 4122.
	UUID [16]byte

	// Decimal has the 4, 8 or 16 bytes of a decimal number.
	Decimal string

	// Described is a value with a descriptor, which names its type.
	Described struct{ Descriptor, Value any }

	// Array is a list whose items share one constructor, in its widest form.
	Array struct {
		Constructor byte
		Items       []any
	}

	// Map holds keys and values alternately, in wire order. It is not a Go map
	// because any value can be a key.
	Map []any
)

// All returns the keys of the map with their values.
func (m Map) All() iter.Seq2[any, any] {
	return func(yield func(key, value any) bool) {
		for i := 0; i+1 < len(m); i += 2 {
			if !yield(m[i], m[i+1]) {
				return
			}
		}
	}
}

// Get returns the value of a key that is a string or a symbol, or nil.
func (m Map) Get(key string) any {
	for k, v := range m.All() {
		if Text(k) == key {
			return v
		}
	}
	return nil
}

// Text returns the text of a string or a symbol, and "" for other values.
func Text(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case Symbol:
		return string(v)
	}
	return ""
}

// Int returns the value of any integer type that fits into an int64.
func Int(v any) (n int64, ok bool) {
	switch n := v.(type) {
	case uint8:
		return int64(n), true
	case uint16:
		return int64(n), true
	case uint32:
		return int64(n), true
	case uint64:
		return int64(n), n <= math.MaxInt64
	case int8:
		return int64(n), true
	case int16:
		return int64(n), true
	case int32:
		return int64(n), true
	case int64:
		return n, true
	}
	return 0, false
}

// Ints returns the integers in a list or an array.
func Ints(v any) []int64 {
	items, _ := v.([]any)
	if a, ok := v.(Array); ok {
		items = a.Items
	}
	var out []int64
	for _, item := range items {
		if n, ok := Int(item); ok {
			out = append(out, n)
		}
	}
	return out
}
