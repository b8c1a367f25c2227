package devbus

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// This file takes AMQP values apart. Its input comes from clients, so every
// length is checked against what is there, nesting is bounded, and the memory
// a value takes is bounded by the bytes it came in.

// AMQP types that Go has no type of its own for.
type (
	symbol    string
	char      rune
	uuid      [16]byte
	decimal   string // the bytes of any of the three widths: carried, not understood
	described struct{ descriptor, value any }
	pair      struct{ key, value any }
	mapping   []pair // in the order of the wire; keys need not be comparable in Go
	array     struct {
		of    byte // the constructor all items share, in its longest form
		items []any
	}
)

// Constructors that are named elsewhere in the package.
const (
	ctorDescribed  = 0x00
	ctorNull       = 0x40
	ctorTrue       = 0x41
	ctorFalse      = 0x42
	ctorUint0      = 0x43
	ctorUlong0     = 0x44
	ctorList0      = 0x45
	ctorUbyte      = 0x50
	ctorSmallUint  = 0x52
	ctorSmallUlong = 0x53
	ctorBool       = 0x56
	ctorUint       = 0x70
	ctorInt        = 0x71
	ctorUlong      = 0x80
	ctorLong       = 0x81
	ctorTimestamp  = 0x83
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

var errShort = errors.New("value is cut short")

// maxNesting is deeper than any message a person would write, and shallow
// enough for the stack.
const maxNesting = 32

// cut takes the first value off b: its constructor, and its content without
// the size in front. A described value is not cut but an error: skip and
// decoder.value look for those first.
func cut(b []byte) (ctor byte, content, rest []byte, err error) {
	if len(b) == 0 {
		return 0, nil, nil, errShort
	}
	content, rest, err = cutContent(b[0], b[1:])
	return b[0], content, rest, err
}

// cutContent is cut for items of an array, which share one constructor.
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

// skip returns what follows the first value in b.
func skip(b []byte) (rest []byte, err error) {
	for len(b) > 0 && b[0] == ctorDescribed {
		if _, _, b, err = cut(b[1:]); err != nil { // the descriptor
			return nil, err
		}
	}
	_, _, rest, err = cut(b)
	return rest, err
}

// descriptor takes a numeric descriptor off b, the only kind that clients use.
func descriptor(b []byte) (code uint64, rest []byte, err error) {
	if len(b) == 0 || b[0] != ctorDescribed {
		return 0, nil, errors.New("expected a described value")
	}
	ctor, content, rest, err := cut(b[1:])
	if err != nil {
		return 0, nil, err
	}
	switch ctor {
	case ctorUlong0:
		return 0, rest, nil
	case ctorSmallUlong:
		return uint64(content[0]), rest, nil
	case ctorUlong:
		return be.Uint64(content), rest, nil
	}
	return 0, nil, fmt.Errorf("descriptor has constructor %#02x: only numbers are understood", ctor)
}

// elements returns the number of elements of a list, map or array, and where
// they begin.
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
	return 0, nil, fmt.Errorf("constructor %#02x holds no elements", ctor)
}

// decode turns the first value in b into Go's types and those above.
func decode(b []byte) (v any, rest []byte, err error) {
	// An element takes a byte at least, except in arrays of nulls and the
	// like, which could claim billions in ten bytes.
	d := decoder{budget: len(b) + 1024}
	return d.value(b, 0)
}

type decoder struct{ budget int }

func (d *decoder) value(b []byte, depth int) (any, []byte, error) {
	if depth > maxNesting {
		return nil, nil, errors.New("value is nested too deeply")
	}
	if len(b) > 0 && b[0] == ctorDescribed {
		ctor, content, b, err := cut(b[1:]) // a descriptor is not described itself
		if err != nil {
			return nil, nil, err
		}
		descriptor, err := d.content(ctor, content, depth+1)
		if err != nil {
			return nil, nil, err
		}
		v, b, err := d.value(b, depth+1)
		return described{descriptor, v}, b, err
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
	case 0x51:
		return int8(b[0]), nil
	case ctorSmallUint:
		return uint32(b[0]), nil
	case ctorSmallUlong:
		return uint64(b[0]), nil
	case 0x54:
		return int32(int8(b[0])), nil
	case 0x55:
		return int64(int8(b[0])), nil
	case 0x60:
		return be.Uint16(b), nil
	case 0x61:
		return int16(be.Uint16(b)), nil
	case ctorUint:
		return be.Uint32(b), nil
	case ctorInt:
		return int32(be.Uint32(b)), nil
	case 0x72:
		return math.Float32frombits(be.Uint32(b)), nil
	case 0x73:
		return char(be.Uint32(b)), nil
	case ctorUlong:
		return be.Uint64(b), nil
	case ctorLong:
		return int64(be.Uint64(b)), nil
	case 0x82:
		return math.Float64frombits(be.Uint64(b)), nil
	case ctorTimestamp:
		return time.UnixMilli(int64(be.Uint64(b))).UTC(), nil
	case 0x74, 0x84, 0x94:
		return decimal(b), nil
	case ctorUUID:
		return uuid(b), nil
	case ctorBinary8, ctorBinary32:
		return append([]byte{}, b...), nil
	case ctorString8, ctorString32:
		return string(b), nil
	case ctorSymbol8, ctorSymbol32:
		return symbol(b), nil
	}
	return d.compound(ctor, b, depth)
}

func (d *decoder) compound(ctor byte, b []byte, depth int) (any, error) {
	count, b, err := elements(ctor, b)
	if err != nil {
		return nil, err
	}
	if d.budget -= count; d.budget < 0 {
		return nil, errShort
	}
	isArray := ctor == ctorArray8 || ctor == ctorArray32
	var of byte
	if isArray {
		if len(b) < 1 {
			return nil, errShort
		}
		of, b = b[0], b[1:]
	}
	items := make([]any, count)
	for i := range items {
		if isArray {
			var content []byte
			if content, b, err = cutContent(of, b); err == nil {
				if depth >= maxNesting {
					return nil, errors.New("value is nested too deeply")
				}
				items[i], err = d.content(of, content, depth+1)
			}
		} else {
			items[i], b, err = d.value(b, depth+1)
		}
		if err != nil {
			return nil, err
		}
	}
	switch {
	case isArray:
		return array{longest(of), items}, nil
	case ctor == ctorMap8 || ctor == ctorMap32:
		if count%2 != 0 {
			return nil, errors.New("a map has a key without a value")
		}
		m := make(mapping, count/2)
		for i := range m {
			m[i] = pair{items[2*i], items[2*i+1]}
		}
		return m, nil
	}
	return items, nil
}

// get returns the value of a key, whether the client made it a string or a
// symbol, and nil if there is none.
func (m mapping) get(key string) any {
	for _, p := range m {
		if text(p.key) == key {
			return p.value
		}
	}
	return nil
}

// text is the text of a string or symbol, else "".
func text(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case symbol:
		return string(v)
	}
	return ""
}

// integers returns the whole numbers in a list or array.
func integers(v any) []int64 {
	items, _ := v.([]any)
	if a, ok := v.(array); ok {
		items = a.items
	}
	var out []int64
	for _, item := range items {
		if n, ok := integer(item); ok {
			out = append(out, n)
		}
	}
	return out
}

func integer(v any) (int64, bool) {
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
