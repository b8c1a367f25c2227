package amqp

import (
	"fmt"
	"time"
)

// Fields reads the elements of a list one after the other, each as the type
// it must have. Elements that are null, or missing at the end, read as zero
// values, as AMQP requires. After an error all elements are null; callers
// check Err once, at the end.
type Fields struct {
	b    []byte
	left int
	err  error
}

var encodedNull = []byte{ctorNull}

// ReadFields opens the list at the start of b, and returns the bytes after it.
func ReadFields(b []byte) (f Fields, rest []byte, err error) {
	ctor, content, rest, err := cut(b)
	if err != nil {
		return f, nil, err
	}
	if ctor != ctorList0 && ctor != ctorList8 && ctor != ctorList32 {
		return f, nil, fmt.Errorf("expected a list, found constructor %#02x", ctor)
	}
	f.left, f.b, err = elements(ctor, content)
	return f, rest, err
}

// Err returns the first error.
func (f *Fields) Err() error { return f.err }

// Len returns the number of elements that have not been read.
func (f *Fields) Len() int { return f.left }

// Skip skips n elements.
func (f *Fields) Skip(n int) {
	for range n {
		f.Next()
	}
}

// Next returns the next element in its encoded form.
func (f *Fields) Next() []byte {
	if f.left == 0 || f.err != nil {
		return encodedNull
	}
	f.left--
	rest, err := skip(f.b)
	if err != nil {
		f.err = err
		return encodedNull
	}
	element := f.b[:len(f.b)-len(rest)]
	f.b = rest
	return element
}

// primitive returns the next element, which must not be described.
func (f *Fields) primitive() (ctor byte, content []byte) {
	ctor, content, _, err := cut(f.Next())
	if err != nil {
		f.err = err
		return ctorNull, nil
	}
	return ctor, content
}

func (f *Fields) wrong(ctor byte, want string) {
	f.err = fmt.Errorf("expected %s, found constructor %#02x", want, ctor)
}

// maybeUint distinguishes null from zero.
func (f *Fields) maybeUint() (v uint32, present bool) {
	switch ctor, content := f.primitive(); ctor {
	case ctorNull:
		return 0, false
	case ctorUint0:
		return 0, true
	case ctorSmallUint:
		return uint32(content[0]), true
	case ctorUint:
		return be.Uint32(content), true
	default:
		f.wrong(ctor, "a uint")
		return 0, false
	}
}

func (f *Fields) uint() uint32 {
	v, _ := f.maybeUint()
	return v
}

func (f *Fields) ushort() *uint16 {
	switch ctor, content := f.primitive(); ctor {
	case ctorNull:
	case ctorUshort:
		return new(be.Uint16(content))
	default:
		f.wrong(ctor, "a ushort")
	}
	return nil
}

func (f *Fields) ulong() uint64 {
	switch ctor, content := f.primitive(); ctor {
	case ctorNull, ctorUlong0:
	case ctorSmallUlong:
		return uint64(content[0])
	case ctorUlong:
		return be.Uint64(content)
	default:
		f.wrong(ctor, "a ulong")
	}
	return 0
}

// Ubyte returns the next element, or nil if it is null.
func (f *Fields) Ubyte() *uint8 {
	switch ctor, content := f.primitive(); ctor {
	case ctorNull:
	case ctorUbyte:
		return new(content[0])
	default:
		f.wrong(ctor, "a ubyte")
	}
	return nil
}

// Bool returns the next element.
func (f *Fields) Bool() bool {
	switch ctor, content := f.primitive(); ctor {
	case ctorNull, ctorFalse:
	case ctorTrue:
		return true
	case ctorBool:
		return content[0] != 0
	default:
		f.wrong(ctor, "a boolean")
	}
	return false
}

// Text returns the next element, a string or a symbol.
func (f *Fields) Text() string {
	switch ctor, content := f.primitive(); ctor {
	case ctorNull:
	case ctorString8, ctorString32, ctorSymbol8, ctorSymbol32:
		return string(content)
	default:
		f.wrong(ctor, "a string")
	}
	return ""
}

// binary returns the next element without copying it.
func (f *Fields) binary() []byte {
	element := f.Next()
	if element[0] == ctorNull {
		return nil
	}
	b, err := DecodeBinary(element)
	if err != nil {
		f.err = err
	}
	return b
}

// Duration returns the next element, a uint of milliseconds.
func (f *Fields) Duration() time.Duration {
	return time.Duration(f.uint()) * time.Millisecond
}

// Value returns the next element, of any type.
func (f *Fields) Value() any {
	v, _, err := Decode(f.Next())
	if err != nil {
		f.err = err
	}
	return v
}

func (f *Fields) mapping() Map {
	switch v := f.Value().(type) {
	case nil:
	case Map:
		return v
	default:
		f.err = fmt.Errorf("expected a map, found %T", v)
	}
	return nil
}

// composite opens a described list; present is false for null.
func (f *Fields) composite() (code uint64, inner Fields, present bool) {
	element := f.Next()
	if element[0] == ctorNull {
		return 0, inner, false
	}
	code, b, err := DecodeDescriptor(element)
	if err == nil {
		inner, _, err = ReadFields(b)
	}
	if err != nil {
		f.err = err
	}
	return code, inner, err == nil
}

// inherit copies the error of a nested list, unless f has an error already.
func (f *Fields) inherit(inner *Fields) {
	if f.err == nil {
		f.err = inner.err
	}
}
