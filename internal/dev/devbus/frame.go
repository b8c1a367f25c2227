package devbus

import (
	"bufio"
	"io"
)

// Frames are the units of the wire: a size, where the body begins, a kind, a
// channel, and the body: a performative and, after a transfer, a part of a
// message.
const (
	frameAMQP = 0
	frameSASL = 1

	frameHeader = 8
	// maxFrame is what the broker announces and all it will read. The real
	// service announces the same.
	maxFrame = 65536
	// minMaxFrame is the least a client may announce.
	minMaxFrame = 512
)

// frame is a frame taken apart. Its fields and payload share the memory of the
// reader, and are valid only until the next read.
type frame struct {
	kind    byte
	channel uint16
	code    uint64 // 0 in an empty frame, sent only to show signs of life
	fields  fields
	payload []byte
}

// protocolHeader is what each side sends before the first frame: which
// protocol, which version.
type protocolHeader [8]byte

var (
	headerAMQP = protocolHeader{'A', 'M', 'Q', 'P', 0, 1, 0, 0}
	headerSASL = protocolHeader{'A', 'M', 'Q', 'P', 3, 1, 0, 0}
)

// frameReader reads one side's bytes.
type frameReader struct {
	r   *bufio.Reader
	buf []byte // reused from frame to frame
}

func newFrameReader(r io.Reader) *frameReader {
	return &frameReader{r: bufio.NewReaderSize(r, 32<<10)}
}

func (r *frameReader) header() (h protocolHeader, err error) {
	_, err = io.ReadFull(r.r, h[:])
	return h, err
}

// next returns the next frame. An *amqpError says that the client broke the
// rules, any other error that the connection is gone.
func (r *frameReader) next() (frame, error) {
	var head [frameHeader]byte
	if _, err := io.ReadFull(r.r, head[:]); err != nil {
		return frame{}, err
	}
	size, offset := int64(be.Uint32(head[:])), int64(head[4])*4
	if size > maxFrame {
		return frame{}, refusal(condFraming, "a frame of %d bytes is larger than %d, the size agreed on", size, maxFrame)
	}
	if offset < frameHeader || size < offset {
		return frame{}, refusal(condFraming, "a frame of %d bytes cannot begin its body at %d", size, offset)
	}
	if int64(cap(r.buf)) < size {
		r.buf = make([]byte, maxFrame)
	}
	b := r.buf[:size-frameHeader]
	if _, err := io.ReadFull(r.r, b); err != nil {
		return frame{}, err
	}
	f := frame{kind: head[5], channel: be.Uint16(head[6:])}
	if f.kind > frameSASL {
		return frame{}, refusal(condFraming, "frame type %#02x is unknown", f.kind)
	}
	b = b[offset-frameHeader:]
	if len(b) == 0 {
		return f, nil
	}
	var err error
	if f.code, b, err = descriptor(b); err == nil {
		f.fields, f.payload, err = readFields(b)
	}
	if err != nil {
		return frame{}, refusal(condDecodeError, "frame body: %v", err)
	}
	return f, nil
}

// appendFrame appends a frame that carries body and payload.
func appendFrame[B body](b []byte, kind byte, channel uint16, body B, payload []byte) []byte {
	start := len(b)
	b = append(b, 0, 0, 0, 0, frameHeader/4, kind, byte(channel>>8), byte(channel))
	b = body.appendTo(b)
	b = append(b, payload...)
	be.PutUint32(b[start:], uint32(len(b)-start))
	return b
}

// emptyFrame shows signs of life and says nothing.
var emptyFrame = []byte{0, 0, 0, frameHeader, frameHeader / 4, frameAMQP, 0, 0}

// readBody reads a performative into p.
func readBody(f *frame, p interface{ read(*fields) }, name string) error {
	p.read(&f.fields)
	if f.fields.err != nil {
		return refusal(condDecodeError, "%s: %v", name, f.fields.err)
	}
	return nil
}
