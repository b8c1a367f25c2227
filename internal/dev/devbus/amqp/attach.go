package amqp

// Attach begins a link, or answers the peer's Attach. An answer that omits the
// requested Source or Target refuses the link. A Detach with the reason follows
// it.
type Attach struct {
	Name       string
	Handle     uint32
	Receiver   bool   // the role of the side that writes the frame
	SendMode   *uint8 // 1: the sender settles every delivery
	SettleMode *uint8
	Source     *Source
	Target     *Target
	MaxSize    uint64 // of a message; 0: no limit
	Properties Map
}

// Source is the origin of the messages of a link.
type Source struct {
	Address string
	Filter  Map
}

// Target is the destination of the messages of a link.
type Target struct {
	Address     string
	Coordinator bool // of transactions; it has no address
}

func (p *Attach) read(f *Fields) {
	p.Name, p.Handle, p.Receiver = f.Text(), f.uint(), f.Bool()
	p.SendMode, p.SettleMode = f.Ubyte(), f.Ubyte()
	if _, inner, present := f.composite(); present {
		p.Source = &Source{Address: inner.Text()}
		inner.Skip(6) // durable … distribution-mode
		p.Source.Filter = inner.mapping()
		f.inherit(&inner)
	}
	if code, inner, present := f.composite(); present {
		p.Target = &Target{Coordinator: code == codeCoordinator}
		if !p.Target.Coordinator {
			p.Target.Address = inner.Text()
			f.inherit(&inner)
		}
	}
	f.Skip(3) // unsettled, incomplete-unsettled, initial-delivery-count
	p.MaxSize = f.ulong()
	f.Skip(2) // offered-capabilities, desired-capabilities
	p.Properties = f.mapping()
}

// AppendTo appends the encoded performative.
func (p Attach) AppendTo(b []byte) []byte {
	w := OpenList(b, CodeAttach)
	w.String(p.Name)
	w.Uint(p.Handle)
	w.Bool(p.Receiver)
	w.OrNull(p.SendMode != nil, func() { w.Ubyte(*p.SendMode) })
	w.OrNull(p.SettleMode != nil, func() { w.Ubyte(*p.SettleMode) })
	w.OrNull(p.Source != nil, func() { w.Encoded(p.Source.append(nil)) })
	w.OrNull(p.Target != nil, func() { w.Encoded(p.Target.append(nil)) })
	w.Nulls(2)                                  // unsettled, incomplete-unsettled
	w.OrNull(!p.Receiver, func() { w.Uint(0) }) // initial-delivery-count: senders must set it
	w.Ulong(p.MaxSize)
	w.Nulls(2) // offered-capabilities, desired-capabilities
	w.OrNull(p.Properties != nil, func() { w.Value(p.Properties) })
	return w.Close()
}

func (s *Source) append(b []byte) []byte {
	w := OpenList(b, codeSource)
	w.String(s.Address)
	if s.Filter != nil {
		w.Nulls(6) // durable … distribution-mode
		w.Value(s.Filter)
	}
	return w.Close()
}

func (t *Target) append(b []byte) []byte {
	if t.Coordinator {
		w := OpenList(b, codeCoordinator)
		return w.Close()
	}
	w := OpenList(b, codeTarget)
	w.String(t.Address)
	return w.Close()
}
