package amqp

import (
	"bufio"
	"io"
)

// A frame is a size, the offset of the body, a kind, a channel, and the body:
// a performative and, after a transfer, a part of a message.
const (
	KindAMQP = 0
	KindSASL = 1

	frameHeader = 8

	// MaxFrame is the largest frame that Reader accepts. The real service
	// announces the same.
	MaxFrame = 65536

	// MinMaxFrame is the smallest limit that a peer may announce.
	MinMaxFrame = 512
)

// Frame is a frame that was read. Its payload shares the memory of the Reader
// and is valid until the next read, as are binaries in its body.
type Frame struct {
	Kind    byte
	Channel uint16
	Code    uint64 // of the performative; 0 in an empty frame, a heartbeat
	Payload []byte

	fields Fields
}

// ProtocolHeader is sent by each side before its first frame.
type ProtocolHeader string

// The headers of AMQP 1.0 and of the SASL layer before it.
const (
	HeaderAMQP ProtocolHeader = "AMQP\x00\x01\x00\x00"
	HeaderSASL ProtocolHeader = "AMQP\x03\x01\x00\x00"
)

// Reader reads the frames that one side of a connection sends.
type Reader struct {
	r   *bufio.Reader
	buf []byte // reused from frame to frame
}

// NewReader returns a Reader that reads from r.
func NewReader(r io.Reader) *Reader {
	return &Reader{r: bufio.NewReaderSize(r, 32<<10)}
}

// Header reads a protocol header.
func (r *Reader) Header() (ProtocolHeader, error) {
	var h [len(HeaderAMQP)]byte
	_, err := io.ReadFull(r.r, h[:])
	return ProtocolHeader(h[:]), err
}

// Next reads a frame. The error is an *Error if the peer violated the protocol.
// Any other error means that the connection ended.
func (r *Reader) Next() (Frame, error) {
	var head [frameHeader]byte
	if _, err := io.ReadFull(r.r, head[:]); err != nil {
		return Frame{}, err
	}
	size, offset := int64(be.Uint32(head[:])), int64(head[4])*4
	if size > MaxFrame {
		return Frame{}, Errorf(CondFraming, "a frame of %d bytes is larger than the agreed maximum of %d", size, MaxFrame)
	}
	if offset < frameHeader || size < offset {
		return Frame{}, Errorf(CondFraming, "body offset %d is invalid in a frame of %d bytes", offset, size)
	}
	if int64(cap(r.buf)) < size {
		r.buf = make([]byte, MaxFrame)
	}
	b := r.buf[:size-frameHeader]
	if _, err := io.ReadFull(r.r, b); err != nil {
		return Frame{}, err
	}
	f := Frame{Kind: head[5], Channel: be.Uint16(head[6:])}
	if f.Kind > KindSASL {
		return Frame{}, Errorf(CondFraming, "frame type %#02x is unknown", f.Kind)
	}
	b = b[offset-frameHeader:]
	if len(b) == 0 {
		return f, nil
	}
	var err error
	if f.Code, b, err = DecodeDescriptor(b); err == nil {
		f.fields, f.Payload, err = ReadFields(b)
	}
	if err != nil {
		return Frame{}, Errorf(CondDecodeError, "frame body: %v", err)
	}
	return f, nil
}

// bodies creates the performatives that frames can be decoded into.
var bodies = map[uint64]func() readable{
	CodeOpen:        func() readable { return &Open{} },
	CodeBegin:       func() readable { return &Begin{} },
	CodeAttach:      func() readable { return &Attach{} },
	CodeFlow:        func() readable { return &Flow{} },
	CodeTransfer:    func() readable { return &Transfer{} },
	CodeDisposition: func() readable { return &Disposition{} },
	CodeDetach:      func() readable { return &Detach{} },
	CodeEnd:         func() readable { return &End{} },
	CodeClose:       func() readable { return &Close{} },
}

type readable interface {
	Performative
	read(*Fields)
}

// Body decodes the performative into a pointer to its type. Call it at most
// once. The error is an *Error.
func (f *Frame) Body() (Performative, error) {
	create := bodies[f.Code]
	if create == nil {
		return nil, Errorf(CondNotAllowed, "performative %#02x is not supported", f.Code)
	}
	p := create()
	p.read(&f.fields)
	if f.fields.err != nil {
		return nil, Errorf(CondDecodeError, "%T: %v", p, f.fields.err)
	}
	return p, nil
}

// AppendFrame appends a frame with a body and a payload.
func AppendFrame[P Performative](b []byte, kind byte, channel uint16, body P, payload []byte) []byte {
	start := len(b)
	b = append(b, 0, 0, 0, 0, frameHeader/4, kind, byte(channel>>8), byte(channel))
	b = body.AppendTo(b)
	b = append(b, payload...)
	be.PutUint32(b[start:], uint32(len(b)-start))
	return b
}

// AppendHeartbeat appends an empty frame, which only shows that the
// connection is alive.
func AppendHeartbeat(b []byte) []byte {
	return append(b, 0, 0, 0, frameHeader, frameHeader/4, KindAMQP, 0, 0)
}
