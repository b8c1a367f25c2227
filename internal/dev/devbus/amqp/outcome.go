package amqp

// Outcome reports how a delivery ended.
type Outcome struct {
	Code uint64 // CodeReceived to CodeModified; 0: none yet

	Err *Error // of CodeRejected

	// Of CodeModified: do not deliver the message here again, and set these
	// annotations on it.
	UndeliverableHere bool
	Annotations       Map
}

// Codes of outcomes.
const (
	CodeReceived = 0x23 // interim: some of the delivery has arrived
	CodeAccepted = 0x24
	CodeRejected = 0x25
	CodeReleased = 0x26
	CodeModified = 0x27
)

// Rejected returns the outcome of a delivery that was rejected.
func Rejected(err *Error) Outcome { return Outcome{Code: CodeRejected, Err: err} }

func (o *Outcome) read(code uint64, f *Fields) {
	o.Code = code
	switch code {
	case CodeRejected:
		o.Err = f.error()
	case CodeModified:
		f.Skip(1) // delivery-failed
		o.UndeliverableHere, o.Annotations = f.Bool(), f.mapping()
	}
}

func (o *Outcome) appendTo(b []byte) []byte {
	w := OpenList(b, o.Code)
	switch {
	case o.Code == CodeRejected && o.Err != nil:
		w.error(o.Err)
	case o.Code == CodeModified && (o.UndeliverableHere || o.Annotations != nil):
		w.Null() // delivery-failed
		w.Bool(o.UndeliverableHere)
		w.OrNull(o.Annotations != nil, func() { w.Value(o.Annotations) })
	}
	return w.Close()
}
