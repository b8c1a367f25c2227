package amqp

import "time"

// Performative is the body of a frame.
type Performative interface{ AppendTo(b []byte) []byte }

// Codes of performatives.
const (
	CodeOpen           = 0x10
	CodeBegin          = 0x11
	CodeAttach         = 0x12
	CodeFlow           = 0x13
	CodeTransfer       = 0x14
	CodeDisposition    = 0x15
	CodeDetach         = 0x16
	CodeEnd            = 0x17
	CodeClose          = 0x18
	CodeSASLMechanisms = 0x40
	CodeSASLInit       = 0x41
	CodeSASLOutcome    = 0x44
)

// Codes of the composite values in performatives.
const (
	codeError       = 0x1d
	codeSource      = 0x28
	codeTarget      = 0x29
	codeCoordinator = 0x30
)

// Open begins a connection.
type Open struct {
	Container  string
	MaxFrame   uint32 // 0: no limit
	ChannelMax uint16
	Idle       time.Duration // how long the peer may be silent; 0: no limit
}

func (p *Open) read(f *Fields) {
	p.Container = f.Text()
	f.Skip(1) // hostname
	p.MaxFrame = f.uint()
	if n := f.ushort(); n != nil {
		p.ChannelMax = *n
	}
	p.Idle = f.Duration()
}

// AppendTo appends the encoded performative.
func (p Open) AppendTo(b []byte) []byte {
	w := OpenList(b, CodeOpen)
	w.String(p.Container)
	w.Null() // hostname
	w.Uint(p.MaxFrame)
	w.Ushort(p.ChannelMax)
	w.Uint(uint32(p.Idle.Milliseconds()))
	return w.Close()
}

// Begin begins a session, or answers the peer's Begin.
type Begin struct {
	RemoteChannel  *uint16 // of the Begin that this one answers
	NextOutgoing   uint32
	IncomingWindow uint32
	OutgoingWindow uint32
	HandleMax      uint32
}

func (p *Begin) read(f *Fields) {
	p.RemoteChannel = f.ushort()
	p.NextOutgoing, p.IncomingWindow, p.OutgoingWindow, p.HandleMax = f.uint(), f.uint(), f.uint(), f.uint()
}

// AppendTo appends the encoded performative.
func (p Begin) AppendTo(b []byte) []byte {
	w := OpenList(b, CodeBegin)
	w.OrNull(p.RemoteChannel != nil, func() { w.Ushort(*p.RemoteChannel) })
	w.Uint(p.NextOutgoing)
	w.Uint(p.IncomingWindow)
	w.Uint(p.OutgoingWindow)
	w.Uint(p.HandleMax)
	return w.Close()
}

// Detach, End and Close end a link, a session and a connection. Err is nil if
// there was no error. A Detach always closes the link; resuming links is not
// supported.
type (
	Detach struct {
		Handle uint32
		Err    *Error
	}
	End   struct{ Err *Error }
	Close struct{ Err *Error }
)

func (p *Detach) read(f *Fields) {
	p.Handle = f.uint()
	f.Skip(1) // closed
	p.Err = f.error()
}

func (p *End) read(f *Fields)   { p.Err = f.error() }
func (p *Close) read(f *Fields) { p.Err = f.error() }

// AppendTo appends the encoded performative.
func (p Detach) AppendTo(b []byte) []byte {
	w := OpenList(b, CodeDetach)
	w.Uint(p.Handle)
	w.Bool(true) // closed
	w.error(p.Err)
	return w.Close()
}

// AppendTo appends the encoded performative.
func (p End) AppendTo(b []byte) []byte {
	w := OpenList(b, CodeEnd)
	w.error(p.Err)
	return w.Close()
}

// AppendTo appends the encoded performative.
func (p Close) AppendTo(b []byte) []byte {
	w := OpenList(b, CodeClose)
	w.error(p.Err)
	return w.Close()
}

// SASLMechanisms offers mechanisms to a client. SASLOutcome reports the result
// of its choice; 0 means success. The package writes them but does not read
// them.
type (
	SASLMechanisms []Symbol
	SASLOutcome    struct{ Code uint8 }
)

// AppendTo appends the encoded performative.
func (p SASLMechanisms) AppendTo(b []byte) []byte {
	w := OpenList(b, CodeSASLMechanisms)
	w.Value([]Symbol(p))
	return w.Close()
}

// AppendTo appends the encoded performative.
func (p SASLOutcome) AppendTo(b []byte) []byte {
	w := OpenList(b, CodeSASLOutcome)
	w.Ubyte(p.Code)
	return w.Close()
}
