package amqp

import (
	"encoding/binary"
	"fmt"
	"math"
	"time"
)

var be = binary.BigEndian

// Each append function appends one encoded value to b, in its shortest form.

func appendUint(b []byte, v uint32) []byte {
	switch {
	case v == 0:
		return append(b, ctorUint0)
	case v < 256:
		return append(b, ctorSmallUint, byte(v))
	}
	return be.AppendUint32(append(b, ctorUint), v)
}

func appendBool(b []byte, v bool) []byte {
	if v {
		return append(b, ctorTrue)
	}
	return append(b, ctorFalse)
}

func appendTime(b []byte, t time.Time) []byte {
	return be.AppendUint64(append(b, ctorTimestamp), uint64(t.UnixMilli()))
}

// appendSized takes the constructor of the short form; that of the long form
// is 0x10 above it.
func appendSized[T ~string | ~[]byte](b []byte, short byte, v T) []byte {
	if len(v) < 256 {
		b = append(b, short, byte(len(v)))
	} else {
		b = be.AppendUint32(append(b, short+0x10), uint32(len(v)))
	}
	return append(b, v...)
}

// AppendDescriptor begins a described value. The caller appends its value.
func AppendDescriptor(b []byte, code uint64) []byte {
	if code < 256 {
		return append(b, ctorDescribed, ctorSmallUlong, byte(code))
	}
	return be.AppendUint64(append(b, ctorDescribed, ctorUlong), code)
}

// AppendBinary appends a binary.
func AppendBinary(b, v []byte) []byte { return appendSized(b, ctorBinary8, v) }

// AppendValue appends a value of any type that Decode returns. Slices of
// times, int64s, strings and Symbols become arrays. It panics on other types.
func AppendValue(b []byte, v any) []byte {
	switch v := v.(type) {
	case Described:
		return AppendValue(AppendValue(append(b, ctorDescribed), v.Descriptor), v.Value)
	case bool:
		return appendBool(b, v)
	case uint32:
		return appendUint(b, v)
	case string:
		return appendSized(b, ctorString8, v)
	case Symbol:
		return appendSized(b, ctorSymbol8, v)
	case []byte:
		return AppendBinary(b, v)
	case []time.Time:
		return appendArray(append(b, ctorArray32), ctorTimestamp, v)
	case []int64:
		return appendArray(append(b, ctorArray32), ctorLong, v)
	case []string:
		return appendArray(append(b, ctorArray32), ctorString32, v)
	case []Symbol:
		return appendArray(append(b, ctorArray32), ctorSymbol32, v)
	}
	return appendContent(append(b, constructor(v)), v)
}

// constructor returns the constructor whose content appendContent writes: the
// longest of the type.
func constructor(v any) byte {
	switch v := v.(type) {
	case nil:
		return ctorNull
	case uint8:
		return ctorUbyte
	case int8:
		return ctorByte
	case uint16:
		return ctorUshort
	case int16:
		return ctorShort
	case int32:
		return ctorInt
	case uint64:
		return ctorUlong
	case int64:
		return ctorLong
	case float32:
		return ctorFloat
	case float64:
		return ctorDouble
	case Char:
		return ctorChar
	case time.Time:
		return ctorTimestamp
	case UUID:
		return ctorUUID
	case Decimal:
		return map[int]byte{4: ctorDecimal32, 8: ctorDecimal64, 16: ctorDecimal128}[len(v)]
	case []any:
		return ctorList32
	case Map:
		return ctorMap32
	case Array:
		return ctorArray32
	}
	panic(fmt.Sprintf("amqp: no AMQP type for %T", v))
}

// longest returns the constructor of the same type with the widest content.
func longest(c byte) byte {
	switch c {
	case ctorTrue, ctorFalse:
		return ctorBool
	case ctorUint0, ctorSmallUint:
		return ctorUint
	case ctorUlong0, ctorSmallUlong:
		return ctorUlong
	case ctorSmallInt:
		return ctorInt
	case ctorSmallLong:
		return ctorLong
	case ctorList0:
		return ctorList32
	case ctorBinary8, ctorString8, ctorSymbol8, ctorList8, ctorMap8, ctorArray8:
		return c + 0x10
	}
	return c
}

// appendContent appends what follows the longest constructor of v's type. All
// items of an array share one constructor, so none can have a short form.
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
	case Char:
		return be.AppendUint32(b, uint32(v))
	case time.Time:
		return be.AppendUint64(b, uint64(v.UnixMilli()))
	case UUID:
		return append(b, v[:]...)
	case Decimal:
		return append(b, v...)
	case string:
		return append(be.AppendUint32(b, uint32(len(v))), v...)
	case Symbol:
		return append(be.AppendUint32(b, uint32(len(v))), v...)
	case []byte:
		return append(be.AppendUint32(b, uint32(len(v))), v...)
	case Array:
		return appendArray(b, v.Constructor, v.Items)
	case Map:
		return appendList(b, v)
	}
	return appendList(b, v.([]any))
}

func appendList(b []byte, items []any) []byte {
	w := openContent(b)
	for _, item := range items {
		w.Value(item)
	}
	return w.Close()
}

func appendArray[T any](b []byte, constructor byte, items []T) []byte {
	w := openContent(b)
	w.b = append(w.b, constructor)
	for _, item := range items {
		w.b = appendContent(w.b, item)
	}
	w.count = len(items)
	return w.Close()
}
