package servicebus

import (
	"encoding/binary"
	"errors"
	"io"
	"net"

	"github.com/Azure/go-amqp"
)

// The SDK reports a send as successful unless its outcome is "rejected". With
// the outcomes "released" and "modified" the bus did not store the message
// either, so an outcomeReader shows them to the SDK as a rejection.

// releasedText is the description of such a rejection. Its condition is one that
// the SDK returns as it is; with most others it would close the connection.
const (
	releasedText = "kennel: the outcome was not accepted"
	condCanceled = amqp.ErrCond("com.microsoft:operation-cancelled")
)

// errReleased takes the place of such a rejection.
var errReleased = errors.New("the message was released by Service Bus, and is not stored")

// isReleased reports whether the bus answered a send with "released" or
// "modified".
func isReleased(err error) bool {
	condition, ok := errors.AsType[*amqp.Error](err)
	return ok && condition.Condition == condCanceled && condition.Description == releasedText
}

// Descriptors of AMQP's performatives.
const (
	attachFrame      = 0x12
	transferFrame    = 0x14
	dispositionFrame = 0x15
)

const (
	headerSize   = 8       // of a frame, and of a protocol header
	maxFrameSize = 1 << 20 // the SDK allows its peer 64 KiB
)

// outcomeReader reads from a connection of AMQP, one frame after the other.
type outcomeReader struct {
	net.Conn
	rest []byte // of the frame that is being read
	raw  bool   // not AMQP; the SDK reports it
}

func (r *outcomeReader) Read(p []byte) (int, error) {
	if len(r.rest) == 0 && r.raw {
		return r.Conn.Read(p)
	}
	if len(r.rest) == 0 {
		if err := r.next(); err != nil {
			return 0, err
		}
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

// next reads a frame or a protocol header.
func (r *outcomeReader) next() error {
	frame := make([]byte, headerSize)
	if n, err := io.ReadFull(r.Conn, frame); err != nil {
		if n == 0 {
			return err
		}
		return io.ErrUnexpectedEOF
	}
	if string(frame[:4]) != "AMQP" {
		size := binary.BigEndian.Uint32(frame)
		if size < headerSize || size > maxFrameSize {
			r.raw = true
		} else {
			frame = append(frame, make([]byte, size-headerSize)...)
			if _, err := io.ReadFull(r.Conn, frame[headerSize:]); err != nil {
				return err
			}
			frame = rejectReleased(frame)
		}
	}
	r.rest = frame
	return nil
}

// rejectReleased returns the frame, or a rejection if it reports the outcome
// "released" or "modified" of messages that the SDK sent.
func rejectReleased(frame []byte) []byte {
	if performative(frame) != dispositionFrame {
		return frame
	}
	body := frame[4*int(frame[4]):]
	fields, ok := listItems(body[3:])
	if !ok {
		return frame
	}
	rest := fields
	for range 4 { // role, first, last, settled; then comes the state
		size := valueSize(rest)
		if size == 0 {
			return frame
		}
		rest = rest[size:]
	}
	if !isTrue(fields) || !isReleasedState(rest) { // true: the bus received the message
		return frame
	}
	n := len(fields) - len(rest)
	fields = fields[:n:n]
	reason := described(0x1d, sequence(0xc0, 2, append(shortText(0xa3, string(condCanceled)), shortText(0xa1, releasedText)...)))
	state := described(0x25, sequence(0xc0, 1, reason))
	changed := append([]byte(nil), frame[:headerSize]...)
	changed[4] = headerSize / 4
	changed = append(changed, described(dispositionFrame, sequence(0xc0, 5, append(fields, state...)))...)
	binary.BigEndian.PutUint32(changed, uint32(len(changed)))
	return changed
}

// performative returns the descriptor of a frame's body, or 0.
func performative(frame []byte) byte {
	if len(frame) < 8 || frame[5] != 0 { // not of AMQP, but of SASL or of the protocol's header
		return 0
	}
	body := frame[min(len(frame), 4*int(frame[4])):]
	if len(body) < 3 || body[0] != 0 || body[1] != 0x53 {
		return 0
	}
	return body[2]
}

// isTrue reports whether a value is the boolean true.
func isTrue(v []byte) bool { return v[0] == 0x41 || len(v) > 1 && v[0] == 0x56 && v[1] == 1 }

// isReleasedState reports whether a value is the outcome released or modified.
func isReleasedState(v []byte) bool {
	switch {
	case len(v) > 2 && v[0] == 0 && v[1] == 0x53: // a code of one byte
		return v[2] == 0x26 || v[2] == 0x27
	case len(v) > 9 && v[0] == 0 && v[1] == 0x80: // … of eight
		code := binary.BigEndian.Uint64(v[2:])
		return code == 0x26 || code == 0x27
	}
	return false
}

// listItems returns the encoded items of a list.
func listItems(list []byte) (items []byte, ok bool) {
	head := 0
	switch {
	case len(list) > 3 && list[0] == 0xc0:
		head = 3
	case len(list) > 9 && list[0] == 0xd0:
		head = 9
	}
	return list[head:], head > 0
}

// valueSize returns the size of a value without descriptor that begins here, or
// 0 if it is incomplete or has an unknown type.
func valueSize(v []byte) int {
	if len(v) == 0 {
		return 0
	}
	size := 0
	switch v[0] >> 4 {
	case 4:
		size = 1
	case 5:
		size = 2
	case 6:
		size = 3
	case 7:
		size = 5
	case 8:
		size = 9
	}
	if size > len(v) {
		return 0
	}
	return size
}

func described(code byte, value []byte) []byte { return append([]byte{0, 0x53, code}, value...) }

// sequence encodes a list of up to 254 bytes.
func sequence(kind, count byte, items []byte) []byte {
	return append([]byte{kind, byte(len(items) + 1), count}, items...)
}

func shortText(kind byte, s string) []byte { return append([]byte{kind, byte(len(s))}, s...) }
