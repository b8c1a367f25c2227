package otlp

import (
	"encoding/binary"
	"math"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/instrumentation"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// encode returns the request that sends spans: an ExportTraceServiceRequest of
// OTLP, as protobuf. The numbers of its fields are those of
// opentelemetry/proto/{collector/trace,trace,resource,common}/v1.
func encode(spans []sdk.ReadOnlySpan) []byte {
	type origin struct {
		resource attribute.Distinct
		scope    instrumentation.Scope
	}
	var origins []origin // in the order of their first spans
	groups := make(map[origin][]sdk.ReadOnlySpan)
	for _, s := range spans {
		of := origin{s.Resource().Equivalent(), s.InstrumentationScope()}
		if groups[of] == nil {
			origins = append(origins, of)
		}
		groups[of] = append(groups[of], s)
	}
	var m message
	for _, of := range origins {
		group := groups[of]
		m.nested(1, func() { // ResourceSpans
			resource := group[0].Resource()
			m.nested(1, func() { m.attributes(1, resource.Attributes()) })
			m.nested(2, func() { // ScopeSpans
				m.nested(1, func() {
					m.text(1, of.scope.Name)
					m.text(2, of.scope.Version)
					m.attributes(3, of.scope.Attributes.ToSlice())
				})
				for _, s := range group {
					m.nested(2, func() { m.span(s) })
				}
				m.text(3, of.scope.SchemaURL)
			})
			m.text(3, resource.SchemaURL())
		})
	}
	return m
}

func (m *message) span(s sdk.ReadOnlySpan) {
	is, parent := s.SpanContext(), s.Parent()
	m.ids(1, 2, is)
	m.text(3, is.TraceState().String())
	if id := parent.SpanID(); id.IsValid() {
		m.bytes(4, id[:])
	}
	m.text(5, s.Name())
	m.varint(6, kind(s.SpanKind()))
	m.time(7, s.StartTime())
	m.time(8, s.EndTime())
	m.attributes(9, s.Attributes())
	m.count(10, s.DroppedAttributes())
	for _, event := range s.Events() {
		m.nested(11, func() {
			m.time(1, event.Time)
			m.text(2, event.Name)
			m.attributes(3, event.Attributes)
			m.count(4, event.DroppedAttributeCount)
		})
	}
	m.count(12, s.DroppedEvents())
	for _, link := range s.Links() {
		m.nested(13, func() {
			m.ids(1, 2, link.SpanContext)
			m.text(3, link.SpanContext.TraceState().String())
			m.attributes(4, link.Attributes)
			m.count(5, link.DroppedAttributeCount)
			m.fixed32(6, flags(link.SpanContext, link.SpanContext))
		})
	}
	m.count(14, s.DroppedLinks())
	m.nested(15, func() {
		m.text(2, s.Status().Description)
		m.varint(3, status(s.Status().Code))
	})
	m.fixed32(16, flags(is, parent))
}

// flags returns those of a span or a link, and whether its parent, or the linked
// span, is in another process.
func flags(of, from trace.SpanContext) uint32 {
	const hasRemote, isRemote = 1 << 8, 1 << 9
	flags := uint32(of.TraceFlags()) | hasRemote
	if from.IsRemote() {
		flags |= isRemote
	}
	return flags
}

// kind returns the number that a kind has in the protocol, 0 if it has none.
func kind(k trace.SpanKind) uint64 {
	kinds := [...]trace.SpanKind{1: trace.SpanKindInternal, trace.SpanKindServer, trace.SpanKindClient, trace.SpanKindProducer, trace.SpanKindConsumer}
	return uint64(max(0, slices.Index(kinds[:], k)))
}

func status(c codes.Code) uint64 {
	switch c {
	case codes.Ok:
		return 1
	case codes.Error:
		return 2
	}
	return 0
}

func (m *message) attributes(field int, all []attribute.KeyValue) {
	for _, a := range all {
		m.nested(field, func() {
			m.text(1, string(a.Key))
			m.nested(2, func() { m.value(a.Value) })
		})
	}
}

// value appends the one field of an AnyValue, also if it is empty or 0, because
// its number is the type.
func (m *message) value(v attribute.Value) {
	switch v.Type() {
	case attribute.EMPTY: // no field
	case attribute.STRING:
		m.text(1, v.AsString())
	case attribute.BOOL:
		m.flag(v.AsBool())
	case attribute.INT64:
		m.varint(3, uint64(v.AsInt64()))
	case attribute.FLOAT64:
		m.fixed64(4, math.Float64bits(v.AsFloat64()))
	case attribute.BYTESLICE:
		m.bytes(7, v.AsByteSlice())
	case attribute.MAP:
		m.nested(6, func() { m.attributes(1, v.AsMap()) })
	case attribute.SLICE:
		array(m, v.AsSlice(), m.value)
	case attribute.STRINGSLICE:
		array(m, v.AsStringSlice(), func(s string) { m.text(1, s) })
	case attribute.BOOLSLICE:
		array(m, v.AsBoolSlice(), m.flag)
	case attribute.INT64SLICE:
		array(m, v.AsInt64Slice(), func(n int64) { m.varint(3, uint64(n)) })
	case attribute.FLOAT64SLICE:
		array(m, v.AsFloat64Slice(), func(f float64) { m.fixed64(4, math.Float64bits(f)) })
	default: // a type of a later version
		m.text(1, v.String())
	}
}

func (m *message) flag(is bool) {
	if is {
		m.varint(2, 1)
	} else {
		m.varint(2, 0)
	}
}

// array appends an ArrayValue whose values add their own fields.
func array[T any](m *message, all []T, add func(T)) {
	m.nested(5, func() {
		for _, v := range all {
			m.nested(1, func() { add(v) })
		}
	})
}

// message is a message of protobuf that fields are appended to.
type message []byte

// The types of fields. A reader skips fields of all of them.
const (
	varintType  = 0
	fixed64Type = 1
	lengthType  = 2 // bytes, text and messages, after their length
	fixed32Type = 5
)

func (m *message) tag(field, wireType int) {
	*m = binary.AppendUvarint(*m, uint64(field<<3|wireType))
}

func (m *message) varint(field int, v uint64) {
	m.tag(field, varintType)
	*m = binary.AppendUvarint(*m, v)
}

// count appends a number of things that were dropped.
func (m *message) count(field, n int) {
	if n > 0 {
		m.varint(field, min(uint64(n), math.MaxUint32))
	}
}

func (m *message) fixed32(field int, v uint32) {
	m.tag(field, fixed32Type)
	*m = binary.LittleEndian.AppendUint32(*m, v)
}

func (m *message) fixed64(field int, v uint64) {
	m.tag(field, fixed64Type)
	*m = binary.LittleEndian.AppendUint64(*m, v)
}

// time appends nanoseconds since 1970.
func (m *message) time(field int, t time.Time) { m.fixed64(field, uint64(max(0, t.UnixNano()))) }

func (m *message) bytes(field int, b []byte) {
	m.tag(field, lengthType)
	*m = binary.AppendUvarint(*m, uint64(len(b)))
	*m = append(*m, b...)
}

// text appends a string, which has to be UTF-8: a collector rejects a whole
// request for one that is not.
func (m *message) text(field int, s string) {
	s = strings.ToValidUTF8(s, "\uFFFD")
	m.tag(field, lengthType)
	*m = binary.AppendUvarint(*m, uint64(len(s)))
	*m = append(*m, s...)
}

// ids appends the identity of a span.
func (m *message) ids(traceField, spanField int, of trace.SpanContext) {
	t, s := of.TraceID(), of.SpanID()
	m.bytes(traceField, t[:])
	m.bytes(spanField, s[:])
}

// nested appends a message that add appends fields to. Its length is inserted
// before it when it is known.
func (m *message) nested(field int, add func()) {
	m.tag(field, lengthType)
	begin := len(*m)
	add()
	var length [binary.MaxVarintLen64]byte
	n := binary.PutUvarint(length[:], uint64(len(*m)-begin))
	*m = slices.Insert(*m, begin, length[:n]...)
}
