package amqp

import "fmt"

// Error is an AMQP error: a condition for programs and a description for
// people.
type Error struct {
	Condition   string
	Description string
	Info        Map
}

// Conditions that AMQP defines.
const (
	CondNotFound       = "amqp:not-found"
	CondNotAllowed     = "amqp:not-allowed"
	CondNotImplemented = "amqp:not-implemented"
	CondDecodeError    = "amqp:decode-error"
	CondUnauthorized   = "amqp:unauthorized-access"
	CondResourceLimit  = "amqp:resource-limit-exceeded"
	CondInternal       = "amqp:internal-error"
	CondFraming        = "amqp:connection:framing-error"
	CondUnattached     = "amqp:session:unattached-handle"
	CondHandleInUse    = "amqp:session:handle-in-use"
	CondMessageSize    = "amqp:link:message-size-exceeded"
	CondDetachForced   = "amqp:link:detach-forced"
	CondForced         = "amqp:connection:forced"
)

// Errorf returns an error with a formatted description.
func Errorf(condition, format string, args ...any) *Error {
	return &Error{Condition: condition, Description: fmt.Sprintf(format, args...)}
}

// Error returns the condition and the description.
func (e *Error) Error() string { return e.Condition + ": " + e.Description }

// error reads the next element, an error or null.
func (f *Fields) error() *Error {
	_, inner, present := f.composite()
	if !present {
		return nil
	}
	e := &Error{inner.Text(), inner.Text(), inner.mapping()}
	f.inherit(&inner)
	return e
}

func (w *Writer) error(e *Error) {
	if e == nil {
		w.Null()
		return
	}
	inner := OpenList(w.b, codeError)
	inner.Symbol(e.Condition)
	inner.String(e.Description)
	if e.Info != nil {
		inner.Value(e.Info)
	}
	w.b = inner.Close()
	w.count++
}
