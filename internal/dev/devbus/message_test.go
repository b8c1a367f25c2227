package devbus

import (
	"bytes"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func FuzzMessage(f *testing.F) {
	f.Add(uint32(0), dataMessage(3))
	f.Add(uint32(0), appendValue(dataMessage(3), described{uint64(sectionFooter), mapping{{symbol("f"), "x"}}}))
	f.Add(uint32(0), appendValue(nil, described{uint64(sectionApplication), mapping{{"a", int64(1)}, {"a", "twice"}}}))
	f.Add(uint32(0), appendValue(nil, described{uint64(sectionProperties), []any{"id", nil, nil, nil, nil, nil, nil, nil, nil, nil, "group"}}))
	f.Add(uint32(0), appendValue(nil, described{uint64(sectionAnnotations), mapping{{symbol(noteScheduled), time.Unix(1, 0)}, {symbol(noteState), "odd"}}}))
	f.Add(uint32(formatBatch), appendBinary(appendDescriptor(nil, sectionData), dataMessage(3)))
	f.Fuzz(func(t *testing.T, format uint32, b []byte) {
		batch, err := parseTransfer(format, b)
		if err != nil {
			return
		}
		for _, c := range batch {
			m := &message{content: c.with([]property{{"added", int32(1)}, {"a", "changed"}}), state: stateLocked}
			m.show()
			again, err := parseMessage(m.render(nil, &m.token))
			if err != nil {
				t.Fatalf("what was rendered cannot be parsed: %v", err)
			}
			if !bytes.Equal(again.properties, c.properties) || !bytes.Equal(again.body, c.body) || !cmp.Equal(again.id, c.id, sameValues) {
				t.Errorf("the message changed on its way: got %+v, want %+v", again, c)
			}
			got := (&message{content: again}).show().Properties
			if got["added"] != int32(1) || got["a"] != "changed" {
				t.Errorf("the properties are %v, want added and changed ones in them", got)
			}
		}
	})
}
