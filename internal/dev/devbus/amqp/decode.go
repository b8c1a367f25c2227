package amqp

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// A constructor is the first byte of an encoded value. It defines the type and
// the width of the size.
const (
	ctorDescribed  = 0x00
	ctorNull       = 0x40
	ctorTrue       = 0x41
	ctorFalse      = 0x42
	ctorUint0      = 0x43
	ctorUlong0     = 0x44
	ctorList0      = 0x45
	ctorUbyte      = 0x50
	ctorByte       = 0x51
	ctorSmallUint  = 0x52
	ctorSmallUlong = 0x53
	ctorSmallInt   = 0x54
	ctorSmallLong  = 0x55
	ctorBool       = 0x56
	ctorUshort     = 0x60
	ctorShort      = 0x61
	ctorUint       = 0x70
	ctorInt        = 0x71
	ctorFloat      = 0x72
	ctorChar       = 0x73
	ctorDecimal32  = 0x74
	ctorUlong      = 0x80
	ctorLong       = 0x81
	ctorDouble     = 0x82
	ctorTimestamp  = 0x83
	ctorDecimal64  = 0x84
	ctorDecimal128 = 0x94
	ctorUUID       = 0x98
	ctorBinary8    = 0xa0
	ctorString8    = 0xa1
	ctorSymbol8    = 0xa3
	ctorBinary32   = 0xb0
	ctorString32   = 0xb1
	ctorSymbol32   = 0xb3
	ctorList8      = 0xc0
	ctorMap8       = 0xc1
	ctorList32     = 0xd0
	ctorMap32      = 0xd1
	ctorArray8     = 0xe0
	ctorArray32    = 0xf0
)

var (
	errShort  = errors.New("value is truncated")
	errNested = errors.New("value is nested too deeply")
)

// maxNesting bounds the recursion. The SDKs nest values far less deeply.
const maxNesting = 32

// cut splits off the first value in b: its constructor, and its content
// without the size. It does not accept described values: the caller removes the
// descriptor first.
func cut(b []byte) (ctor byte, content, rest []byte, err error) {
	if len(b) == 0 {
		return 0, nil, nil, errShort
	}
	content, rest, err = cutContent(b[0], b[1:])
	return b[0], content, rest, err
}

// cutContent does the same as cut for an item of an array. The items share one
// constructor, ctor.
func cutContent(ctor byte, b []byte) (content, rest []byte, err error) {
	size := 0
	switch ctor >> 4 {
	case 0x4:
	case 0x5:
		size = 1
	case 0x6:
		size = 2
	case 0x7:
		size = 4
	case 0x8:
		size = 8
	case 0x9:
		size = 16
	case 0xa, 0xc, 0xe:
		if len(b) < 1 {
			return nil, nil, errShort
		}
		size, b = int(b[0]), b[1:]
	case 0xb, 0xd, 0xf:
		if len(b) < 4 {
			return nil, nil, errShort
		}
		long := be.Uint32(b)
		if int64(long) > int64(len(b)-4) {
			return nil, nil, errShort
		}
		size, b = int(long), b[4:]
	default:
		return nil, nil, fmt.Errorf("no AMQP type has constructor %#02x", ctor)
	}
	if size > len(b) {
		return nil, nil, errShort
	}
	return b[:size], b[size:], nil
}

// skip returns the bytes after the first value in b.
func skip(b []byte) (rest []byte, err error) {
	for len(b) > 0 && b[0] == ctorDescribed {
		if _, _, b, err = cut(b[1:]); err != nil { // the descriptor
			return nil, err
		}
	}
	_, _, rest, err = cut(b)
	return rest, err
}

// DecodeDescriptor splits off the descriptor of a described value. The
// descriptor must be a number. All known clients use numbers.
func DecodeDescriptor(b []byte) (code uint64, value []byte, err error) {
	if len(b) == 0 || b[0] != ctorDescribed {
		return 0, nil, errors.New("expected a described value")
	}
	ctor, content, value, err := cut(b[1:])
	if err != nil {
		return 0, nil, err
	}
	switch ctor {
	case ctorUlong0:
		return 0, value, nil
	case ctorSmallUlong:
		return uint64(content[0]), value, nil
	case ctorUlong:
		return be.Uint64(content), value, nil
	}
	return 0, nil, fmt.Errorf("descriptor has constructor %#02x: only numbers are supported", ctor)
}

// DecodeBinary returns the content of an encoded binary without copying it.
func DecodeBinary(b []byte) ([]byte, error) {
	ctor, content, _, err := cut(b)
	if err != nil {
		return nil, err
	}
	if ctor != ctorBinary8 && ctor != ctorBinary32 {
		return nil, fmt.Errorf("expected a binary, found constructor %#02x", ctor)
	}
	return content, nil
}

// elements returns the number of elements of a list, map or array, and their
// encodings.
func elements(ctor byte, content []byte) (count int, rest []byte, err error) {
	switch ctor {
	case ctorList0:
		return 0, nil, nil
	case ctorList8, ctorMap8, ctorArray8:
		if len(content) < 1 {
			return 0, nil, errShort
		}
		return int(content[0]), content[1:], nil
	case ctorList32, ctorMap32, ctorArray32:
		if len(content) < 4 {
			return 0, nil, errShort
		}
		long := be.Uint32(content)
		if long > math.MaxInt32 {
			return 0, nil, errShort
		}
		return int(long), content[4:], nil
	}
	return 0, nil, fmt.Errorf("constructor %#02x is not a list, map or array", ctor)
}

// Decode returns the first value in b, and the bytes after it. The value shares
// no memory with b.
func Decode(b []byte) (v any, rest []byte, err error) {
	// An element takes at least one byte, except in an array of nulls or other
	// empty values, which can announce billions of elements in ten bytes.
	d := decoder{budget: len(b) + 1024}
	return d.value(b, 0)
}

// decoder counts the elements that one call of Decode may still create.
type decoder struct{ budget int }

func (d *decoder) value(b []byte, depth int) (any, []byte, error) {
	if depth > maxNesting {
		return nil, nil, errNested
	}
	if len(b) > 0 && b[0] == ctorDescribed {
		ctor, content, b, err := cut(b[1:]) // a descriptor has no descriptor
		if err != nil {
			return nil, nil, err
		}
		descriptor, err := d.content(ctor, content, depth+1)
		if err != nil {
			return nil, nil, err
		}
		v, b, err := d.value(b, depth+1)
		return Described{descriptor, v}, b, err
	}
	ctor, content, rest, err := cut(b)
	if err != nil {
		return nil, nil, err
	}
	v, err := d.content(ctor, content, depth)
	return v, rest, err
}

func (d *decoder) content(ctor byte, b []byte, depth int) (any, error) {
	switch ctor {
	case ctorNull:
		return nil, nil
	case ctorTrue:
		return true, nil
	case ctorFalse:
		return false, nil
	case ctorUint0:
		return uint32(0), nil
	case ctorUlong0:
		return uint64(0), nil
	case ctorBool:
		return b[0] != 0, nil
	case ctorUbyte:
		return b[0], nil
	case ctorByte:
		return int8(b[0]), nil
	case ctorSmallUint:
		return uint32(b[0]), nil
	case ctorSmallUlong:
		return uint64(b[0]), nil
	case ctorSmallInt:
		return int32(int8(b[0])), nil
	case ctorSmallLong:
		return int64(int8(b[0])), nil
	case ctorUshort:
		return be.Uint16(b), nil
	case ctorShort:
		return int16(be.Uint16(b)), nil
	case ctorUint:
		return be.Uint32(b), nil
	case ctorInt:
		return int32(be.Uint32(b)), nil
	case ctorFloat:
		return math.Float32frombits(be.Uint32(b)), nil
	case ctorChar:
		return Char(be.Uint32(b)), nil
	case ctorUlong:
		return be.Uint64(b), nil
	case ctorLong:
		return int64(be.Uint64(b)), nil
	case ctorDouble:
		return math.Float64frombits(be.Uint64(b)), nil
	case ctorTimestamp:
		return time.UnixMilli(int64(be.Uint64(b))).UTC(), nil
	case ctorDecimal32, ctorDecimal64, ctorDecimal128:
		return Decimal(b), nil
	case ctorUUID:
		return UUID(b), nil
	case ctorBinary8, ctorBinary32:
		return append([]byte{}, b...), nil
	case ctorString8, ctorString32:
		return string(b), nil
	case ctorSymbol8, ctorSymbol32:
		return Symbol(b), nil
	case ctorArray8, ctorArray32:
		return d.array(ctor, b, depth)
	}
	items, err := d.items(ctor, b, depth)
	if err == nil && (ctor == ctorMap8 || ctor == ctorMap32) {
		if len(items)%2 != 0 {
			return nil, errOddMap
		}
		return Map(items), nil
	}
	return items, err
}

var errOddMap = errors.New("a map has a key without a value")

// items decodes the elements of a list or a map.
func (d *decoder) items(ctor byte, b []byte, depth int) ([]any, error) {
	count, b, err := d.elements(ctor, b)
	if err != nil {
		return nil, err
	}
	items := make([]any, count)
	for i := range items {
		if items[i], b, err = d.value(b, depth+1); err != nil {
			return nil, err
		}
	}
	return items, nil
}

func (d *decoder) array(ctor byte, b []byte, depth int) (any, error) {
	count, b, err := d.elements(ctor, b)
	switch {
	case err != nil:
		return nil, err
	case len(b) < 1:
		return nil, errShort
	case depth >= maxNesting:
		return nil, errNested
	}
	of, b := b[0], b[1:]
	items := make([]any, count)
	for i := range items {
		var content []byte
		if content, b, err = cutContent(of, b); err != nil {
			return nil, err
		}
		if items[i], err = d.content(of, content, depth+1); err != nil {
			return nil, err
		}
	}
	return Array{widest(of), items}, nil
}

func (d *decoder) elements(ctor byte, b []byte) (count int, rest []byte, err error) {
	count, rest, err = elements(ctor, b)
	if d.budget -= count; err == nil && d.budget < 0 {
		err = errShort
	}
	return count, rest, err
}
