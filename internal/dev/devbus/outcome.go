package devbus

// outcome is what became of a delivery: said by a client that settles a
// message, or by the broker that took one in.
type outcome struct {
	code uint64 // codeAccepted … codeModified; 0 if the client named none
	err  *amqpError

	undeliverableHere bool       // of a modified outcome: defer the message
	properties        []property // to be set on the message
}

// property is an application property.
type property struct {
	name  string
	value any
}

var (
	accepted = outcome{code: codeAccepted}
	released = outcome{code: codeReleased}
)

func rejected(err *amqpError) outcome { return outcome{code: codeRejected, err: err} }

func (o *outcome) read(f *fields) {
	code, list, present := f.composite()
	if !present {
		return
	}
	o.code = code
	switch code {
	case codeRejected:
		if _, e, present := list.composite(); present {
			o.err = &amqpError{e.text(), e.text()}
			o.properties = properties(e.mapping())
			list.inherit(&e)
		}
	case codeModified:
		list.next() // delivery-failed: an abandoned message counts either way
		o.undeliverableHere = list.boolean()
		o.properties = properties(list.mapping())
	}
	f.inherit(&list)
}

func properties(m mapping) []property {
	var out []property
	for _, p := range m {
		if name := text(p.key); name != "" {
			out = append(out, property{name, p.value})
		}
	}
	return out
}

func (o outcome) appendTo(b []byte) []byte {
	w := openBody(b, o.code)
	if o.code == codeRejected && o.err != nil {
		w.error(o.err)
	}
	return w.close()
}
