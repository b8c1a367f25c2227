package servicebus

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"testing"
	"time"
)

// frameOf returns a frame with an extended header of so many words.
func frameOf(words int, body ...byte) []byte {
	frame := make([]byte, 4*words, 4*words+len(body))
	frame[4] = byte(words)
	frame = append(frame, body...)
	binary.BigEndian.PutUint32(frame, uint32(len(frame)))
	return frame
}

// dispositionOf returns the body of a disposition, for a role and a state.
func dispositionOf(role byte, state ...byte) []byte {
	items := append([]byte{role, 0x52, 7, 0x40, 0x41}, state...)
	return described(dispositionFrame, sequence(0xc0, 5, items))
}

// longDispositionOf is dispositionOf with a list that has its length in four
// bytes.
func longDispositionOf(state ...byte) []byte {
	items := append([]byte{0x41, 0x70, 0, 0, 0, 7, 0x70, 0, 0, 0, 9, 0x41}, state...)
	list := binary.BigEndian.AppendUint32([]byte{0xd0}, uint32(len(items)+4))
	list = binary.BigEndian.AppendUint32(list, 5)
	return described(dispositionFrame, append(list, items...))
}

// TestOutcomes shows the outcomes released and modified of sent messages as
// rejections, in each encoding, and leaves all other frames as they are.
func TestOutcomes(t *testing.T) {
	const sent, received = 0x41, 0x42 // whose disposition it is: the bus received what we sent
	released, modified := []byte{0, 0x53, 0x26, 0x45}, []byte{0, 0x53, 0x27, 0xc0, 4, 3, 0x41, 0x41, 0x40}
	wide := []byte{0, 0x80, 0, 0, 0, 0, 0, 0, 0, 0x26, 0x45}
	for _, tt := range []struct {
		name    string
		frame   []byte
		changed bool
	}{
		{"released", frameOf(2, dispositionOf(sent, released...)...), true},
		{"modified", frameOf(2, dispositionOf(sent, modified...)...), true},
		{"a code of eight bytes", frameOf(2, dispositionOf(sent, wide...)...), true},
		{"an extended header", frameOf(3, dispositionOf(sent, released...)...), true},
		{"a long list", frameOf(2, longDispositionOf(released...)...), true},
		{"accepted", frameOf(2, dispositionOf(sent, 0, 0x53, 0x24, 0x45)...), false},
		{"rejected", frameOf(2, dispositionOf(sent, 0, 0x53, 0x25, 0x45)...), false},
		{"of what we received", frameOf(2, dispositionOf(received, released...)...), false},
		{"without a state", frameOf(2, described(dispositionFrame, sequence(0xc0, 3, []byte{sent, 0x52, 7, 0x40}))...), false},
		{"another performative", frameOf(2, described(0x14, sequence(0xc0, 5, append([]byte{sent, 0x52, 7, 0x40, 0x41}, released...)))...), false},
		{"empty", frameOf(2), false},
		{"cut off", frameOf(2, dispositionOf(sent, released...)[:9]...), false},
	} {
		got := rejectReleased(bytes.Clone(tt.frame))
		if changed := !bytes.Equal(got, tt.frame); changed != tt.changed {
			t.Errorf("%s: changed %t, want %t: % x", tt.name, changed, tt.changed, got)
		}
		if tt.changed && (!bytes.Contains(got, []byte(releasedText)) || binary.BigEndian.Uint32(got) != uint32(len(got))) {
			t.Errorf("%s: % x, want a whole frame with the reason", tt.name, got)
		}
	}
}

// TestOutcomeReader reads frames that arrive in pieces, after the header of the
// protocol, and ends with what ends the connection.
func TestOutcomeReader(t *testing.T) {
	frame := frameOf(2, dispositionOf(0x41, 0, 0x53, 0x24, 0x45)...)
	stream := append([]byte("AMQP\x00\x01\x00\x00"), append(bytes.Clone(frame), frame...)...)
	for size := 1; size <= len(stream); size++ {
		ours, theirs := net.Pipe()
		go func() {
			for part := range chunks(stream, size) {
				theirs.Write(part)
			}
			theirs.Close()
		}()
		ours.SetDeadline(time.Now().Add(time.Minute))
		got, err := io.ReadAll(&outcomeReader{Conn: ours})
		if err != nil || !bytes.Equal(got, stream) {
			t.Errorf("in pieces of %d: %v, % x", size, err, got)
		}
	}
	ours, theirs := net.Pipe()
	go func() {
		theirs.Write(stream[:len(stream)-3])
		theirs.Close()
	}()
	if _, err := io.ReadAll(&outcomeReader{Conn: ours}); err == nil {
		t.Error("a frame that is cut off is no error")
	}
}

func chunks(b []byte, size int) func(func([]byte) bool) {
	return func(yield func([]byte) bool) {
		for len(b) > 0 {
			n := min(size, len(b))
			if !yield(b[:n]) {
				return
			}
			b = b[n:]
		}
	}
}

// FuzzOutcomes checks that no frame makes the reader panic, and that a frame
// which it changes is whole.
func FuzzOutcomes(f *testing.F) {
	f.Add(frameOf(2, dispositionOf(0x41, 0, 0x53, 0x26, 0x45)...))
	f.Add(frameOf(3, longDispositionOf(0, 0x53, 0x27, 0x45)...))
	f.Add(frameOf(2))
	f.Fuzz(func(t *testing.T, frame []byte) {
		if len(frame) < headerSize {
			return
		}
		before := bytes.Clone(frame)
		got := rejectReleased(frame)
		if !bytes.Equal(got, before) && binary.BigEndian.Uint32(got) != uint32(len(got)) {
			t.Errorf("% x became % x", before, got)
		}
	})
}
