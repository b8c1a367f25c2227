package amqp

import (
	"bytes"
	"testing"
)

// FuzzSections checks that sections are the whole of a message, and that the
// pairs of a map are the map.
func FuzzSections(f *testing.F) {
	data := AppendBinary(AppendDescriptor(nil, SectionData), []byte("body"))
	f.Add(AppendValue(data, Described{uint64(SectionFooter), Map{Symbol("f"), "x", uint8(1), "reserved"}}))
	f.Add(AppendValue(nil, Described{uint64(SectionApplication), Map{"a", int64(1), "a", "twice"}}))
	f.Add(AppendValue(nil, Described{uint64(SectionAnnotations), []any{"no map"}}))
	f.Add(AppendValue(nil, Described{uint64(SectionFooter + 1), nil}))
	f.Add([]byte("\x00\x53\x74\xc1\x02\x01\x40")) // a key without a value
	f.Fuzz(func(t *testing.T, b []byte) {
		var all []byte
		err := Sections(b, func(code uint64, value, whole []byte) error {
			all = append(all, whole...)
			if !bytes.HasSuffix(whole, value) {
				t.Errorf("section %#02x does not end with its value", code)
			}
			if content, err := DecodeBinary(value); err == nil && !bytes.HasSuffix(value, content) {
				t.Errorf("binary %x does not end with its content", value)
			}
			var texts Map
			if Pairs(value, func(key string, v []byte) error { texts = append(texts, key, v); return nil }) != nil {
				return nil
			}
			if err := Pairs(value, nil); err != nil {
				t.Errorf("a map is good only if its pairs are visited: %v", err)
			}
			decoded, _, err := Decode(value)
			m, isMap := decoded.(Map)
			if err != nil || !isMap {
				return nil // null, or nested too deeply
			}
			i := 0
			for k, v := range m.All() {
				switch k.(type) {
				case string, Symbol:
					if got, _, err := Decode(texts[i+1].([]byte)); texts[i] != Text(k) || err != nil || !bytes.Equal(AppendValue(nil, got), AppendValue(nil, v)) {
						t.Errorf("pair %v: %v differs from %v: %v", texts[i], got, k, v)
					}
					i += 2
				}
			}
			return nil
		})
		if err == nil && !bytes.Equal(all, b) {
			t.Errorf("the sections are %x, want %x", all, b)
		}
	})
}
