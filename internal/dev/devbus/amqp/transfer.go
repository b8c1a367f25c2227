package amqp

// Flow announces how much the peer may send: frames in a session and, if it
// names a handle, messages on a link.
type Flow struct {
	NextIncoming    uint32
	HasNextIncoming bool // false before the peer's Begin has arrived
	IncomingWindow  uint32
	NextOutgoing    uint32
	OutgoingWindow  uint32

	Handle        uint32
	HasHandle     bool // the following fields are those of a link
	DeliveryCount uint32
	Credit        uint32
	Drain         bool // use up the credit, even without messages
	Echo          bool // answer with a Flow
}

func (p *Flow) read(f *Fields) {
	p.NextIncoming, p.HasNextIncoming = f.maybeUint()
	p.IncomingWindow, p.NextOutgoing, p.OutgoingWindow = f.uint(), f.uint(), f.uint()
	p.Handle, p.HasHandle = f.maybeUint()
	p.DeliveryCount, p.Credit = f.uint(), f.uint()
	f.Skip(1) // available
	p.Drain, p.Echo = f.Bool(), f.Bool()
}

// AppendTo appends the encoded performative.
func (p Flow) AppendTo(b []byte) []byte {
	w := OpenList(b, CodeFlow)
	w.uintOrNull(p.HasNextIncoming, p.NextIncoming)
	w.Uint(p.IncomingWindow)
	w.Uint(p.NextOutgoing)
	w.Uint(p.OutgoingWindow)
	w.uintOrNull(p.HasHandle, p.Handle)
	w.uintOrNull(p.HasHandle, p.DeliveryCount)
	w.uintOrNull(p.HasHandle, p.Credit)
	w.Null() // available
	w.Bool(p.Drain)
	w.Bool(p.Echo)
	return w.Close()
}

func (w *Writer) uintOrNull(present bool, v uint32) {
	if present {
		w.Uint(v)
	} else {
		w.Null()
	}
}

// Transfer carries a message, or a part of one, as the payload of its frame.
type Transfer struct {
	Handle     uint32
	DeliveryID uint32
	HasID      bool // the first frame of a delivery has an id, a tag and a format
	Tag        []byte
	Format     uint32
	Settled    bool
	More       bool // another part follows
	Aborted    bool
}

func (p *Transfer) read(f *Fields) {
	p.Handle = f.uint()
	p.DeliveryID, p.HasID = f.maybeUint()
	p.Tag = f.binary()
	p.Format = f.uint()
	p.Settled, p.More = f.Bool(), f.Bool()
	f.Skip(3) // rcv-settle-mode, state, resume
	p.Aborted = f.Bool()
}

// AppendTo appends the encoded performative.
func (p Transfer) AppendTo(b []byte) []byte {
	w := OpenList(b, CodeTransfer)
	w.Uint(p.Handle)
	if p.HasID {
		w.Uint(p.DeliveryID)
		w.Binary(p.Tag)
		w.Uint(p.Format)
	} else {
		w.Nulls(3)
	}
	w.Bool(p.Settled)
	w.Bool(p.More)
	if p.Aborted {
		w.Nulls(3) // rcv-settle-mode, state, resume
		w.Bool(true)
	}
	return w.Close()
}

// Disposition reports the outcome of deliveries.
type Disposition struct {
	Receiver    bool // the role of the side that writes the frame
	First, Last uint32
	Settled     bool
	State       Outcome
}

func (p *Disposition) read(f *Fields) {
	p.Receiver, p.First = f.Bool(), f.uint()
	var present bool
	if p.Last, present = f.maybeUint(); !present {
		p.Last = p.First
	}
	p.Settled = f.Bool()
	if code, inner, present := f.composite(); present {
		p.State.read(code, &inner)
		f.inherit(&inner)
	}
}

// AppendTo appends the encoded performative.
func (p Disposition) AppendTo(b []byte) []byte {
	w := OpenList(b, CodeDisposition)
	w.Bool(p.Receiver)
	w.Uint(p.First)
	w.Uint(p.Last)
	w.Bool(p.Settled)
	if p.State.Code == 0 {
		w.Null()
	} else {
		w.b = p.State.appendTo(w.b)
		w.count++
	}
	return w.Close()
}
