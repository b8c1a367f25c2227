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

// appendSized appends a value with its size. short is the constructor of the
// 8-bit form. The constructor of the 32-bit form is greater by 0x10.
func appendSized[T ~string | ~[]byte](b []byte, short byte, v T) []byte {
	if len(v) < 256 {
		b = append(b, short, byte(len(v)))
	} else {
		b = be.AppendUint32(append(b, short+0x10), uint32(len(v)))
	}
	return append(b, v...)
}

// AppendDescriptor begins a described value. The caller appends the value.
func AppendDescriptor(b []byte, code uint64) []byte {
	if code < 256 {
		return append(b, ctorDescribed, ctorSmallUlong, byte(code))
	}
	return be.AppendUint64(append(b, ctorDescribed, ctorUlong), code)
}

// appendBinary appends a binary.
func appendBinary(b, v []byte) []byte { return appendSized(b, ctorBinary8, v) }

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
		return appendBinary(b, v)
	}
	start := len(b)
	constructor, b := appendContent(append(b, ctorNull), v)
	b[start] = constructor
	return b
}

// widest returns the constructor of the same type with the widest content.
func widest(c byte) byte {
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

// appendContent returns the widest constructor of v's type, and appends the
// content. The items of an array share one constructor, so none can use a
// shorter form.
func appendContent(b []byte, v any) (constructor byte, content []byte) {
	switch v := v.(type) {
	case nil:
		return ctorNull, b
	case bool:
		if v {
			return ctorBool, append(b, 1)
		}
		return ctorBool, append(b, 0)
	case uint8:
		return ctorUbyte, append(b, v)
	case int8:
		return ctorByte, append(b, byte(v))
	case uint16:
		return ctorUshort, be.AppendUint16(b, v)
	case int16:
		return ctorShort, be.AppendUint16(b, uint16(v))
	case uint32:
		return ctorUint, be.AppendUint32(b, v)
	case int32:
		return ctorInt, be.AppendUint32(b, uint32(v))
	case uint64:
		return ctorUlong, be.AppendUint64(b, v)
	case int64:
		return ctorLong, be.AppendUint64(b, uint64(v))
	case float32:
		return ctorFloat, be.AppendUint32(b, math.Float32bits(v))
	case float64:
		return ctorDouble, be.AppendUint64(b, math.Float64bits(v))
	case Char:
		return ctorChar, be.AppendUint32(b, uint32(v))
	case time.Time:
		return ctorTimestamp, be.AppendUint64(b, uint64(v.UnixMilli()))
	case UUID:
		return ctorUUID, append(b, v[:]...)
	case Decimal:
		of := map[int]byte{4: ctorDecimal32, 8: ctorDecimal64, 16: ctorDecimal128}
		return of[len(v)], append(b, v...)
	case string:
		return ctorString32, append(be.AppendUint32(b, uint32(len(v))), v...)
	case Symbol:
		return ctorSymbol32, append(be.AppendUint32(b, uint32(len(v))), v...)
	case []byte:
		return ctorBinary32, append(be.AppendUint32(b, uint32(len(v))), v...)
	case []any:
		return ctorList32, appendList(b, v)
	case Map:
		return ctorMap32, appendList(b, v)
	case Array:
		return ctorArray32, appendArray(b, v.Constructor, v.Items)
	case []time.Time:
		return ctorArray32, appendArray(b, ctorTimestamp, v)
	case []int64:
		return ctorArray32, appendArray(b, ctorLong, v)
	case []string:
		return ctorArray32, appendArray(b, ctorString32, v)
	case []Symbol:
		return ctorArray32, appendArray(b, ctorSymbol32, v)
	}
	panic(fmt.Sprintf("amqp: no AMQP type for %T", v))
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
		_, w.b = appendContent(w.b, item)
	}
	w.count = len(items)
	return w.Close()
}
