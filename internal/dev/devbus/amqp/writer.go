package amqp

import "time"

// Writer appends a list, map or array. Close fills in its size and count. The
// elements of a map are keys and values alternately.
type Writer struct {
	b     []byte
	start int // of size and count
	count int
}

// OpenList begins a described list at the end of b.
func OpenList(b []byte, code uint64) Writer {
	return openContent(append(AppendDescriptor(b, code), ctorList32))
}

// OpenMap begins a described map at the end of b.
func OpenMap(b []byte, code uint64) Writer {
	return openContent(append(AppendDescriptor(b, code), ctorMap32))
}

func openContent(b []byte) Writer {
	return Writer{b: append(b, 0, 0, 0, 0, 0, 0, 0, 0), start: len(b)}
}

// Close fills in size and count, and returns the buffer.
func (w *Writer) Close() []byte {
	be.PutUint32(w.b[w.start:], uint32(len(w.b)-w.start-4))
	be.PutUint32(w.b[w.start+4:], uint32(w.count))
	return w.b
}

// Each of the following methods appends one element of the type in its name.

func (w *Writer) Null()            { w.b = append(w.b, ctorNull); w.count++ }
func (w *Writer) Bool(v bool)      { w.b = appendBool(w.b, v); w.count++ }
func (w *Writer) Ubyte(v uint8)    { w.b = append(w.b, ctorUbyte, v); w.count++ }
func (w *Writer) Ushort(v uint16)  { w.b = be.AppendUint16(append(w.b, ctorUshort), v); w.count++ }
func (w *Writer) Uint(v uint32)    { w.b = appendUint(w.b, v); w.count++ }
func (w *Writer) Ulong(v uint64)   { w.b = be.AppendUint64(append(w.b, ctorUlong), v); w.count++ }
func (w *Writer) Int(v int32)      { w.b = be.AppendUint32(append(w.b, ctorInt), uint32(v)); w.count++ }
func (w *Writer) Long(v int64)     { w.b = be.AppendUint64(append(w.b, ctorLong), uint64(v)); w.count++ }
func (w *Writer) Time(t time.Time) { w.b = appendTime(w.b, t); w.count++ }
func (w *Writer) UUID(u UUID)      { w.b = append(append(w.b, ctorUUID), u[:]...); w.count++ }
func (w *Writer) Binary(v []byte)  { w.b = appendBinary(w.b, v); w.count++ }
func (w *Writer) String(s string)  { w.b = appendSized(w.b, ctorString8, s); w.count++ }
func (w *Writer) Symbol(s string)  { w.b = appendSized(w.b, ctorSymbol8, s); w.count++ }

// Value appends an element as AppendValue does.
func (w *Writer) Value(v any) { w.b = AppendValue(w.b, v); w.count++ }

// Encoded appends an element that is already encoded.
func (w *Writer) Encoded(v []byte) { w.b = append(w.b, v...); w.count++ }

// Nulls appends n nulls.
func (w *Writer) Nulls(n int) {
	for range n {
		w.Null()
	}
}

// OrNull calls field, which must append one element, or appends null.
func (w *Writer) OrNull(present bool, field func()) {
	if present {
		field()
	} else {
		w.Null()
	}
}
