package amqp

import (
	"bytes"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// performatives set every field.
var performatives = []Performative{
	&Open{Container: "c", MaxFrame: 512, ChannelMax: 7, Idle: time.Minute},
	&Begin{RemoteChannel: new(uint16(3)), NextOutgoing: 1, IncomingWindow: 2, OutgoingWindow: 3, HandleMax: 4},
	&Attach{
		Name: "l", Handle: 1, Receiver: true, SendMode: new(uint8(2)), SettleMode: new(uint8(1)),
		Source: &Source{Address: "q", Filter: Map{Symbol("f"), Described{uint64(1 << 40), "s"}}}, Target: &Target{Address: "t"},
		MaxSize: 1 << 33, Properties: Map{Symbol("k"), uint32(1)},
	},
	&Attach{Name: "to a coordinator", Source: &Source{}, Target: &Target{Coordinator: true}},
	&Attach{Name: "refused"},
	&Flow{IncomingWindow: 1, NextOutgoing: 2, OutgoingWindow: 3},
	&Flow{NextIncoming: 9, HasNextIncoming: true, Handle: 1, HasHandle: true, DeliveryCount: 4, Credit: 2, Drain: true, Echo: true},
	&Transfer{Handle: 1, DeliveryID: 2, HasID: true, Tag: []byte{1}, Format: 300, Settled: true},
	&Transfer{Handle: 1, More: true, Aborted: true},
	&Disposition{Receiver: true, First: 1, Last: 3, Settled: true, State: Rejected(&Error{"c", "d", Map{"DeadLetterReason", "r"}})},
	&Disposition{First: 1, Last: 1, State: Outcome{Code: CodeModified, UndeliverableHere: true, Annotations: Map{"a", int64(1)}}},
	&Disposition{State: Outcome{Code: CodeAccepted}},
	&Disposition{First: 1, Last: 1},
	&Detach{Handle: 1, Err: Errorf(CondNotFound, "x")},
	&End{},
	&Close{Errorf(CondInternal, "%d", 5)},
}

func TestPerformatives(t *testing.T) {
	var b []byte
	for _, p := range performatives {
		b = AppendFrame(b, KindAMQP, 1, p, []byte("payload"))
		b = AppendHeartbeat(b)
	}
	r := NewReader(bytes.NewReader(b))
	for _, want := range performatives {
		f, err := r.Next()
		if err != nil || f.Channel != 1 || string(f.Payload) != "payload" {
			t.Fatalf("got frame %+v, error %v", f, err)
		}
		got, err := f.Body()
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("error %v (-want +got):\n%s", err, diff)
		}
		if heartbeat, err := r.Next(); heartbeat.Code != 0 || err != nil {
			t.Errorf("got performative %#02x, error %v, want a heartbeat", heartbeat.Code, err)
		}
	}
	if _, err := r.Next(); err != io.EOF {
		t.Errorf("got error %v at the end, want EOF", err)
	}
}

// Only the sender of a link announces a delivery count.
func TestAttachHasInitialDeliveryCountOfSender(t *testing.T) {
	for _, receiver := range []bool{false, true} {
		v, _, _ := Decode(Attach{Receiver: receiver}.AppendTo(nil))
		if count := v.(Described).Value.([]any)[9]; (count == nil) != receiver {
			t.Errorf("receiver %v: initial-delivery-count is %v", receiver, count)
		}
	}
}

func TestBadFrames(t *testing.T) {
	for _, tt := range []struct{ name, bytes, condition string }{
		{"larger than the limit", "0002000002000000", CondFraming},
		{"smaller than its header", "0000000702000000", CondFraming},
		{"body begins after the end", "0000000809000000", CondFraming},
		{"unknown type", "0000000802020000", CondFraming},
		{"body of an unknown type", "0000000a02000000ffff", CondDecodeError},
		{"body without a descriptor", "000000090200000045", CondDecodeError},
		{"descriptor that is not a number", "0000000e02000000" + "00a3016145" + "40", CondDecodeError},
		{"body that is not a list", "0000000c02000000" + "00531841", CondDecodeError},
		{"unknown performative", "0000000c02000000" + "00533345", CondNotAllowed},
		{"field of the wrong type", "0000001002000000" + "005310" + "c0030141" + "40", CondDecodeError},
	} {
		f, err := NewReader(bytes.NewReader(unhex(t, tt.bytes))).Next()
		if err == nil {
			_, err = f.Body()
		}
		if e, ok := errors.AsType[*Error](err); !ok || e.Condition != tt.condition {
			t.Errorf("%s: got %v, want %s", tt.name, err, tt.condition)
		}
	}
}

// FuzzFrames checks that a decoded frame keeps its encoding when it is written
// and read again.
func FuzzFrames(f *testing.F) {
	for _, p := range performatives {
		f.Add(AppendFrame(nil, KindAMQP, 1, p, []byte("payload")))
	}
	f.Add(AppendHeartbeat(AppendHeartbeat(nil)))
	f.Fuzz(func(t *testing.T, b []byte) {
		r := NewReader(bytes.NewReader(b))
		for {
			fr, err := r.Next()
			if err != nil {
				return
			}
			p, err := fr.Body()
			if err != nil {
				continue
			}
			first := AppendFrame(nil, KindAMQP, 0, p, nil)
			if len(first) > MaxFrame {
				continue // the widest forms of its values take more space
			}
			again, err := NewReader(bytes.NewReader(first)).Next()
			if err == nil {
				p, err = again.Body()
			}
			if second := AppendFrame(nil, KindAMQP, 0, p, nil); err != nil || !bytes.Equal(first, second) {
				t.Errorf("written as %x, read and written as %x, error %v", first, second, err)
			}
		}
	})
}

// FuzzSections checks that the sections add up to the whole message.
func FuzzSections(f *testing.F) {
	data := appendBinary(AppendDescriptor(nil, SectionData), []byte("body"))
	f.Add(AppendValue(data, Described{uint64(SectionFooter), Map{Symbol("f"), "x", uint8(1), "reserved"}}))
	f.Add(AppendValue(nil, Described{uint64(SectionAnnotations), []any{"no map"}}))
	f.Add(AppendValue(nil, Described{uint64(SectionFooter + 1), nil}))
	f.Add([]byte("\x00\x53\x74\xc1\x02\x01\x40")) // a key without a value
	f.Fuzz(func(t *testing.T, b []byte) {
		var all []byte
		err := Sections(b, func(code uint64, value, whole []byte) error {
			all = append(all, whole...)
			content, err := DecodeBinary(value)
			if !bytes.HasSuffix(whole, value) || err == nil && !bytes.HasSuffix(value, content) {
				t.Errorf("section %x does not end with its value %x", whole, value)
			}
			err = Pairs(value, func(_ string, v []byte) error {
				_, err := skip(v)
				return err
			})
			if checked := Pairs(value, nil); (checked == nil) != (err == nil) {
				t.Errorf("checking the map: %v; visiting it: %v", checked, err)
			}
			return nil
		})
		if err == nil && !bytes.Equal(all, b) {
			t.Errorf("the sections add up to %x, want %x", all, b)
		}
	})
}
