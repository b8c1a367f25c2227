package amqp

import "fmt"

// Codes of the sections of a message, in their order.
const (
	SectionHeader      = 0x70
	SectionDelivery    = 0x71 // delivery-annotations
	SectionAnnotations = 0x72 // message-annotations
	SectionProperties  = 0x73
	SectionApplication = 0x74 // application-properties
	SectionData        = 0x75
	SectionSequence    = 0x76
	SectionValue       = 0x77
	SectionFooter      = 0x78
)

// Sections calls visit for each section of an encoded message: its code, its
// encoded value, and the whole section with its descriptor. It stops at the
// first error. The slices share the memory of b.
func Sections(b []byte, visit func(code uint64, value, whole []byte) error) error {
	for len(b) > 0 {
		code, value, err := DecodeDescriptor(b)
		if err != nil {
			return err
		}
		rest, err := skip(value)
		if err != nil {
			return err
		}
		if code < SectionHeader || code > SectionFooter {
			return fmt.Errorf("no message section has code %#02x", code)
		}
		if err := visit(code, value[:len(value)-len(rest)], b[:len(b)-len(rest)]); err != nil {
			return err
		}
		b = rest
	}
	return nil
}

// Pairs calls visit for each pair of an encoded map whose key is a string or
// a symbol; AMQP reserves other keys. It stops at the first error. A nil visit
// only checks the map. The values share the memory of m.
func Pairs(m []byte, visit func(key string, value []byte) error) error {
	ctor, b, _, err := cut(m)
	if err != nil || ctor == ctorNull {
		return err
	}
	if ctor != ctorMap8 && ctor != ctorMap32 {
		return fmt.Errorf("expected a map, found constructor %#02x", ctor)
	}
	count, b, err := elements(ctor, b)
	if err != nil {
		return err
	}
	if count%2 != 0 {
		return errOddMap
	}
	f := Fields{b: b, left: count}
	for f.left > 0 && f.err == nil {
		key, value := f.Next(), f.Next()
		if f.err != nil || visit == nil {
			continue
		}
		switch ctor, name, _, _ := cut(key); ctor {
		case ctorString8, ctorString32, ctorSymbol8, ctorSymbol32:
			if err := visit(string(name), value); err != nil {
				return err
			}
		}
	}
	return f.err
}
