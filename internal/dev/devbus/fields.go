package devbus

import (
	"fmt"
	"time"
)

// fields reads the elements of a list one after the other, each as the type it
// must have. Elements that are null or missing at the end read as zero values,
// as AMQP wants it. The first error sticks: check err once, at the end.
type fields struct {
	b    []byte
	left int
	err  error
}

var encodedNull = []byte{ctorNull}

// readFields opens the list at the start of b and returns what follows it.
func readFields(b []byte) (f fields, rest []byte, err error) {
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

// next returns the next element, described or not, undecoded.
func (f *fields) next() []byte {
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
func (f *fields) primitive() (ctor byte, content []byte) {
	element := f.next()
	ctor, content, _, err := cut(element)
	if err != nil {
		f.err = err
		return ctorNull, nil
	}
	return ctor, content
}

func (f *fields) wrong(ctor byte, want string) {
	f.err = fmt.Errorf("expected %s, found constructor %#02x", want, ctor)
}

// maybeUint tells null from zero.
func (f *fields) maybeUint() (v uint32, present bool) {
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

func (f *fields) uint() uint32 {
	v, _ := f.maybeUint()
	return v
}

func (f *fields) ushort() uint16 {
	switch ctor, content := f.primitive(); ctor {
	case ctorNull:
	case 0x60:
		return be.Uint16(content)
	default:
		f.wrong(ctor, "a ushort")
	}
	return 0
}

func (f *fields) maybeUbyte() *uint8 {
	switch ctor, content := f.primitive(); ctor {
	case ctorNull:
	case ctorUbyte:
		v := content[0]
		return &v
	default:
		f.wrong(ctor, "a ubyte")
	}
	return nil
}

func (f *fields) boolean() bool {
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

// text reads a string or a symbol.
func (f *fields) text() string {
	switch ctor, content := f.primitive(); ctor {
	case ctorNull:
	case ctorString8, ctorString32, ctorSymbol8, ctorSymbol32:
		return string(content)
	default:
		f.wrong(ctor, "a string")
	}
	return ""
}

// duration reads milliseconds.
func (f *fields) duration() (d time.Duration, present bool) {
	ms, present := f.maybeUint()
	return time.Duration(ms) * time.Millisecond, present
}

func (f *fields) value() any {
	v, _, err := decode(f.next())
	if err != nil {
		f.err = err
	}
	return v
}

func (f *fields) mapping() mapping {
	switch v := f.value().(type) {
	case nil:
	case mapping:
		return v
	default:
		f.err = fmt.Errorf("expected a map, found %T", v)
	}
	return nil
}

// composite opens a described list; present is false for null.
func (f *fields) composite() (code uint64, inner fields, present bool) {
	element := f.next()
	if element[0] == ctorNull {
		return 0, inner, false
	}
	code, b, err := descriptor(element)
	if err == nil {
		inner, _, err = readFields(b)
	}
	if err != nil {
		f.err = err
	}
	return code, inner, err == nil
}
