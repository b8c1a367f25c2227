package devbus

import (
	"encoding/binary"
	"fmt"
	"math"
	"time"
)

// This file puts AMQP values together: each append function adds one value to
// b and returns it, as in the standard library.

var be = binary.BigEndian

func appendUint(b []byte, v uint32) []byte {
	switch {
	case v == 0:
		return append(b, ctorUint0)
	case v < 256:
		return append(b, ctorSmallUint, byte(v))
	}
	return be.AppendUint32(append(b, ctorUint), v)
}

func appendLong(b []byte, v int64) []byte {
	return be.AppendUint64(append(b, ctorLong), uint64(v))
}

func appendTime(b []byte, t time.Time) []byte {
	return be.AppendUint64(append(b, ctorTimestamp), uint64(t.UnixMilli()))
}

func appendBool(b []byte, v bool) []byte {
	if v {
		return append(b, ctorTrue)
	}
	return append(b, ctorFalse)
}

func appendString(b []byte, s string) []byte { return appendSized(b, ctorString8, s) }
func appendSymbol(b []byte, s string) []byte { return appendSized(b, ctorSymbol8, s) }
func appendBinary(b, v []byte) []byte        { return appendSized(b, ctorBinary8, v) }

// appendSized takes the constructor of the short form; that of the long form
// is 0x10 above it.
func appendSized[T string | []byte](b []byte, short byte, v T) []byte {
	if len(v) < 256 {
		b = append(b, short, byte(len(v)))
	} else {
		b = be.AppendUint32(append(b, short+0x10), uint32(len(v)))
	}
	return append(b, v...)
}

// appendDescriptor begins a described value; what is appended next is its value.
func appendDescriptor(b []byte, code uint64) []byte {
	if code < 256 {
		return append(b, ctorDescribed, ctorSmallUlong, byte(code))
	}
	return be.AppendUint64(append(b, ctorDescribed, ctorUlong), code)
}

// writer builds a list, map or array, whose size and count are known only at
// its end. Every method but close adds one element.
type writer struct {
	b     []byte
	start int // where size and count go
	count int
}

// open begins a list32 or map32 at the end of b.
func open(b []byte, ctor byte) writer { return openContent(append(b, ctor)) }

func openContent(b []byte) writer {
	return writer{b: append(b, 0, 0, 0, 0, 0, 0, 0, 0), start: len(b)}
}

// close fills in size and count and returns the whole.
func (w *writer) close() []byte {
	be.PutUint32(w.b[w.start:], uint32(len(w.b)-w.start-4))
	be.PutUint32(w.b[w.start+4:], uint32(w.count))
	return w.b
}

func (w *writer) null()             { w.b = append(w.b, ctorNull); w.count++ }
func (w *writer) uint(v uint32)     { w.b = appendUint(w.b, v); w.count++ }
func (w *writer) boolean(v bool)    { w.b = appendBool(w.b, v); w.count++ }
func (w *writer) string(s string)   { w.b = appendString(w.b, s); w.count++ }
func (w *writer) symbol(s string)   { w.b = appendSymbol(w.b, s); w.count++ }
func (w *writer) binary(v []byte)   { w.b = appendBinary(w.b, v); w.count++ }
func (w *writer) encoded(v []byte)  { w.b = append(w.b, v...); w.count++ }
func (w *writer) time(t time.Time)  { w.b = appendTime(w.b, t); w.count++ }
func (w *writer) long(v int64)      { w.b = appendLong(w.b, v); w.count++ }
func (w *writer) value(v any)       { w.b = appendValue(w.b, v); w.count++ }
func (w *writer) int(v int32)       { w.b = be.AppendUint32(append(w.b, ctorInt), uint32(v)); w.count++ }
func (w *writer) ubyte(v uint8)     { w.b = append(w.b, ctorUbyte, v); w.count++ }
func (w *writer) ushort(v uint16)   { w.b = be.AppendUint16(append(w.b, 0x60), v); w.count++ }
func (w *writer) ulong(v uint64)    { w.b = be.AppendUint64(append(w.b, ctorUlong), v); w.count++ }
func (w *writer) optional(v *uint8) { w.orNull(v != nil, func() { w.ubyte(*v) }) }

func (w *writer) orNull(present bool, field func()) {
	if present {
		field()
	} else {
		w.null()
	}
}

// appendValue encodes whatever decode returns, and slices of times, numbers
// and strings as arrays.
func appendValue(b []byte, v any) []byte {
	switch v := v.(type) {
	case described:
		return appendValue(appendValue(append(b, ctorDescribed), v.descriptor), v.value)
	case bool:
		return appendBool(b, v)
	case uint32:
		return appendUint(b, v)
	case string:
		return appendString(b, v)
	case symbol:
		return appendSymbol(b, string(v))
	case []byte:
		return appendBinary(b, v)
	case []time.Time:
		return appendArray(append(b, ctorArray32), ctorTimestamp, v)
	case []int64:
		return appendArray(append(b, ctorArray32), ctorLong, v)
	case []string:
		return appendArray(append(b, ctorArray32), ctorString32, v)
	case []symbol:
		return appendArray(append(b, ctorArray32), ctorSymbol32, v)
	}
	return appendContent(append(b, constructor(v)), v)
}

// constructor is the one whose content appendContent writes: the longest of
// its type. A Go type that has none is a mistake in this package, not of a
// client.
func constructor(v any) byte {
	switch v := v.(type) {
	case nil:
		return ctorNull
	case uint8:
		return ctorUbyte
	case int8:
		return 0x51
	case uint16:
		return 0x60
	case int16:
		return 0x61
	case int32:
		return ctorInt
	case uint64:
		return ctorUlong
	case int64:
		return ctorLong
	case float32:
		return 0x72
	case float64:
		return 0x82
	case char:
		return 0x73
	case time.Time:
		return ctorTimestamp
	case uuid:
		return ctorUUID
	case decimal:
		return map[int]byte{4: 0x74, 8: 0x84, 16: 0x94}[len(v)]
	case []any:
		return ctorList32
	case mapping:
		return ctorMap32
	case array:
		return ctorArray32
	}
	panic(fmt.Sprintf("devbus: no AMQP type for %T", v))
}

// longest is the constructor with the widest content of the same type as c.
func longest(c byte) byte {
	switch c {
	case ctorTrue, ctorFalse:
		return ctorBool
	case ctorUint0, ctorSmallUint:
		return ctorUint
	case ctorUlong0, ctorSmallUlong:
		return ctorUlong
	case 0x54:
		return ctorInt
	case 0x55:
		return ctorLong
	case ctorList0:
		return ctorList32
	case ctorBinary8, ctorString8, ctorSymbol8, ctorList8, ctorMap8, ctorArray8:
		return c + 0x10
	}
	return c
}

// appendContent appends what follows the longest constructor of v's type. The
// items of an array have one constructor for all, so none may choose a short
// form for itself.
func appendContent(b []byte, v any) []byte {
	switch v := v.(type) {
	case nil:
		return b
	case bool:
		if v {
			return append(b, 1)
		}
		return append(b, 0)
	case uint8:
		return append(b, v)
	case int8:
		return append(b, byte(v))
	case uint16:
		return be.AppendUint16(b, v)
	case int16:
		return be.AppendUint16(b, uint16(v))
	case uint32:
		return be.AppendUint32(b, v)
	case int32:
		return be.AppendUint32(b, uint32(v))
	case uint64:
		return be.AppendUint64(b, v)
	case int64:
		return be.AppendUint64(b, uint64(v))
	case float32:
		return be.AppendUint32(b, math.Float32bits(v))
	case float64:
		return be.AppendUint64(b, math.Float64bits(v))
	case char:
		return be.AppendUint32(b, uint32(v))
	case time.Time:
		return be.AppendUint64(b, uint64(v.UnixMilli()))
	case uuid:
		return append(b, v[:]...)
	case decimal:
		return append(b, v...)
	case string:
		return append(be.AppendUint32(b, uint32(len(v))), v...)
	case symbol:
		return append(be.AppendUint32(b, uint32(len(v))), v...)
	case []byte:
		return append(be.AppendUint32(b, uint32(len(v))), v...)
	case array:
		return appendArray(b, v.of, v.items)
	}
	w := openContent(b)
	switch v := v.(type) {
	case []any:
		for _, item := range v {
			w.value(item)
		}
	case mapping:
		for _, p := range v {
			w.value(p.key)
			w.value(p.value)
		}
	}
	return w.close()
}

// appendArray appends the content of an array.
func appendArray[T any](b []byte, of byte, items []T) []byte {
	w := openContent(b)
	w.b = append(w.b, of)
	for _, item := range items {
		w.b = appendContent(w.b, item)
	}
	w.count = len(items)
	return w.close()
}
