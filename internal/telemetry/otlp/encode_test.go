package otlp

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/instrumentation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	about "go.opentelemetry.io/proto/otlp/resource/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
)

// TestEncode encodes random spans.
func TestEncode(t *testing.T) {
	for seed := range uint64(200) {
		checkEncode(t, seed, random{Rand: rand.New(rand.NewPCG(seed, 0)), number: 300, float: 1.5})
	}
}

// FuzzEncode encodes random spans with a text and numbers of the fuzzer.
func FuzzEncode(f *testing.F) {
	f.Add(uint64(0), "", int64(0), 0.0)
	f.Add(uint64(1), "a\xffb\xc3", int64(-1), -0.5)
	f.Fuzz(func(t *testing.T, seed uint64, text string, number int64, float float64) {
		checkEncode(t, seed, random{rand.New(rand.NewPCG(seed, 0)), text, number, float})
	})
}

// checkEncode compares what the protocol's authors decode of encoded spans with
// what they would have encoded.
func checkEncode(t *testing.T, seed uint64, r random) {
	var spans []sdk.ReadOnlySpan
	want := &otlp.TracesData{}
	for range r.IntN(3) { // processes
		process := resource.NewWithAttributes(r.text(), r.attributes(0)...)
		for i := range 1 + r.IntN(2) {
			scope := instrumentation.Scope{Name: fmt.Sprint(i, r.text()), Version: r.text(), SchemaURL: r.text(), Attributes: attribute.NewSet(r.attributes(0)...)}
			group := &otlp.ScopeSpans{
				Scope:     &common.InstrumentationScope{Name: valid(scope.Name), Version: valid(scope.Version), Attributes: pairs(scope.Attributes.ToSlice())},
				SchemaUrl: valid(scope.SchemaURL),
			}
			for range 1 + r.IntN(4) {
				stub := r.span()
				stub.Resource, stub.InstrumentationScope = process, scope
				spans = append(spans, stub.Snapshot())
				group.Spans = append(group.Spans, decoded(stub))
			}
			want.ResourceSpans = append(want.ResourceSpans, &otlp.ResourceSpans{
				Resource: &about.Resource{Attributes: pairs(process.Attributes())}, SchemaUrl: valid(process.SchemaURL()), ScopeSpans: []*otlp.ScopeSpans{group},
			})
		}
	}
	got := &otlp.TracesData{}
	if err := proto.Unmarshal(encode(spans), got); err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
	if !proto.Equal(want, got) { // which takes NaN for equal
		t.Fatalf("seed %d: %s", seed, cmp.Diff(want, got, protocmp.Transform()))
	}
}

// TestEncodeGroups: spans of one process and scope are together, in whatever
// order they ended.
func TestEncodeGroups(t *testing.T) {
	var spans []sdk.ReadOnlySpan
	for i := range 6 {
		stub := tracetest.SpanStub{Name: fmt.Sprint(i), Resource: resource.NewSchemaless(attribute.Int("process", i%2)), InstrumentationScope: instrumentation.Scope{Name: "kennel"}}
		spans = append(spans, stub.Snapshot())
	}
	got := &otlp.TracesData{}
	if err := proto.Unmarshal(encode(spans), got); err != nil {
		t.Fatal(err)
	}
	var order []string
	for _, of := range got.ResourceSpans {
		for _, s := range of.ScopeSpans[0].Spans {
			order = append(order, s.Name)
		}
	}
	if is := strings.Join(order, " "); len(got.ResourceSpans) != 2 || is != "0 2 4 1 3 5" {
		t.Errorf("%d processes with the spans %s", len(got.ResourceSpans), is)
	}
}

// random draws the parts of spans. Some have the text or a number of the fuzzer.
type random struct {
	*rand.Rand
	own    string
	number int64
	float  float64
}

func (r random) text() string {
	parts := []string{"", "a", "kennel.batch", "é", "\xff", "a\xc3\x28b", "日本", strings.Repeat("x", r.IntN(300)), "\x00", r.own}
	return parts[r.IntN(len(parts))] + parts[r.IntN(len(parts))]
}

func (r random) time() time.Time {
	times := []time.Time{time.Unix(0, 0), time.Unix(-5, 0), time.Unix(0, r.Int64()), time.Unix(1_800_000_000, r.Int64N(1e9))}
	return times[r.IntN(len(times))]
}

func (r random) context() trace.SpanContext {
	c := trace.SpanContextConfig{TraceFlags: trace.TraceFlags(r.IntN(256)), Remote: r.IntN(2) == 0}
	if r.IntN(4) > 0 {
		c.TraceID, c.SpanID = trace.TraceID{byte(r.Int()), 15: 1}, trace.SpanID{byte(r.Int()), 7: 1}
	}
	if r.IntN(2) == 0 {
		c.TraceState, _ = trace.ParseTraceState("a=1,b=x")
	}
	return trace.NewSpanContext(c)
}

// dropped draws a number of what was dropped, also one that does not fit.
func (r random) dropped() int { return []int{0, 0, 1, 300, math.MaxUint32 + 7, -1}[r.IntN(6)] }

func (r random) attributes(depth int) (all []attribute.KeyValue) {
	for i := range r.IntN(6) {
		all = append(all, attribute.KeyValue{Key: attribute.Key(fmt.Sprint(i, r.text())), Value: r.value(depth)})
	}
	return all
}

func (r random) value(depth int) attribute.Value {
	some := r.IntN(4)
	ints := []int64{0, 1, -1, math.MaxInt64, math.MinInt64, r.number}
	floats := []float64{0, math.Copysign(0, -1), r.float, math.Inf(-1), math.NaN(), math.SmallestNonzeroFloat64}
	texts := []string{r.text(), "", r.text(), "z"}
	types := attribute.MAP + 1
	if depth > 2 {
		types = attribute.SLICE
	}
	switch attribute.Type(r.IntN(int(types))) {
	case attribute.BOOL:
		return attribute.BoolValue(some > 1)
	case attribute.INT64:
		return attribute.Int64Value(ints[r.IntN(len(ints))])
	case attribute.FLOAT64:
		return attribute.Float64Value(floats[r.IntN(len(floats))])
	case attribute.STRING:
		return attribute.StringValue(r.text())
	case attribute.BOOLSLICE:
		return attribute.BoolSliceValue([]bool{true, false, true}[:some%3])
	case attribute.INT64SLICE:
		return attribute.Int64SliceValue(ints[:some])
	case attribute.FLOAT64SLICE:
		return attribute.Float64SliceValue(floats[:some])
	case attribute.STRINGSLICE:
		return attribute.StringSliceValue(texts[:some])
	case attribute.BYTESLICE:
		return attribute.ByteSliceValue([]byte{0, 0xff, 7}[:some%3])
	case attribute.SLICE:
		var all []attribute.Value
		for range some {
			all = append(all, r.value(depth+1))
		}
		return attribute.SliceValue(all...)
	case attribute.MAP:
		return attribute.MapValue(r.attributes(depth + 1)...)
	}
	return attribute.Value{}
}

func (r random) span() tracetest.SpanStub {
	s := tracetest.SpanStub{
		Name: r.text(), SpanContext: r.context(), Parent: r.context(), SpanKind: trace.SpanKind(r.IntN(7)),
		StartTime: r.time(), EndTime: r.time(), Attributes: r.attributes(0),
		Status:            sdk.Status{Code: codes.Code(r.IntN(3)), Description: r.text()},
		DroppedAttributes: r.dropped(), DroppedEvents: r.dropped(), DroppedLinks: r.dropped(),
	}
	for range r.IntN(3) {
		s.Events = append(s.Events, sdk.Event{Name: r.text(), Attributes: r.attributes(0), DroppedAttributeCount: r.dropped(), Time: r.time()})
		s.Links = append(s.Links, sdk.Link{SpanContext: r.context(), Attributes: r.attributes(0), DroppedAttributeCount: r.dropped()})
	}
	return s
}

// The messages that spans have to be decoded to.

func valid(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

func nanoseconds(t time.Time) uint64 { return uint64(max(0, t.UnixNano())) }

func clamped(n int) uint32 { return uint32(min(max(0, n), math.MaxUint32)) }

func decoded(s tracetest.SpanStub) *otlp.Span {
	traceID, id, parent := s.SpanContext.TraceID(), s.SpanContext.SpanID(), s.Parent.SpanID()
	kinds := map[trace.SpanKind]otlp.Span_SpanKind{
		trace.SpanKindInternal: otlp.Span_SPAN_KIND_INTERNAL, trace.SpanKindServer: otlp.Span_SPAN_KIND_SERVER, trace.SpanKindClient: otlp.Span_SPAN_KIND_CLIENT,
		trace.SpanKindProducer: otlp.Span_SPAN_KIND_PRODUCER, trace.SpanKindConsumer: otlp.Span_SPAN_KIND_CONSUMER,
	}
	statuses := map[codes.Code]otlp.Status_StatusCode{codes.Ok: otlp.Status_STATUS_CODE_OK, codes.Error: otlp.Status_STATUS_CODE_ERROR}
	span := &otlp.Span{
		TraceId: traceID[:], SpanId: id[:], TraceState: s.SpanContext.TraceState().String(), Flags: flagsOf(s.SpanContext, s.Parent),
		Name: valid(s.Name), Kind: kinds[s.SpanKind], StartTimeUnixNano: nanoseconds(s.StartTime), EndTimeUnixNano: nanoseconds(s.EndTime),
		Attributes: pairs(s.Attributes), DroppedAttributesCount: clamped(s.DroppedAttributes),
		DroppedEventsCount: clamped(s.DroppedEvents), DroppedLinksCount: clamped(s.DroppedLinks),
		Status: &otlp.Status{Code: statuses[s.Status.Code], Message: valid(s.Status.Description)},
	}
	if parent.IsValid() {
		span.ParentSpanId = parent[:]
	}
	for _, e := range s.Events {
		span.Events = append(span.Events, &otlp.Span_Event{
			TimeUnixNano: nanoseconds(e.Time), Name: valid(e.Name), Attributes: pairs(e.Attributes), DroppedAttributesCount: clamped(e.DroppedAttributeCount),
		})
	}
	for _, l := range s.Links {
		traceID, id := l.SpanContext.TraceID(), l.SpanContext.SpanID()
		span.Links = append(span.Links, &otlp.Span_Link{
			TraceId: traceID[:], SpanId: id[:], TraceState: l.SpanContext.TraceState().String(), Flags: flagsOf(l.SpanContext, l.SpanContext),
			Attributes: pairs(l.Attributes), DroppedAttributesCount: clamped(l.DroppedAttributeCount),
		})
	}
	return span
}

func flagsOf(is, from trace.SpanContext) uint32 {
	flags := uint32(is.TraceFlags()) | uint32(otlp.SpanFlags_SPAN_FLAGS_CONTEXT_HAS_IS_REMOTE_MASK)
	if from.IsRemote() {
		flags |= uint32(otlp.SpanFlags_SPAN_FLAGS_CONTEXT_IS_REMOTE_MASK)
	}
	return flags
}

func pairs(all []attribute.KeyValue) (list []*common.KeyValue) {
	for _, a := range all {
		list = append(list, &common.KeyValue{Key: valid(string(a.Key)), Value: anyValue(a.Value.AsInterface())})
	}
	return list
}

// anyValue is what a value of Go has to be decoded to.
func anyValue(value any) *common.AnyValue {
	switch v := value.(type) {
	case nil:
		return &common.AnyValue{}
	case bool:
		return &common.AnyValue{Value: &common.AnyValue_BoolValue{BoolValue: v}}
	case int64:
		return &common.AnyValue{Value: &common.AnyValue_IntValue{IntValue: v}}
	case float64:
		return &common.AnyValue{Value: &common.AnyValue_DoubleValue{DoubleValue: v}}
	case string:
		return &common.AnyValue{Value: &common.AnyValue_StringValue{StringValue: valid(v)}}
	case []byte:
		return &common.AnyValue{Value: &common.AnyValue_BytesValue{BytesValue: v}}
	case []bool:
		return arrayOf(v)
	case []int64:
		return arrayOf(v)
	case []float64:
		return arrayOf(v)
	case []string:
		return arrayOf(v)
	case attribute.Value:
		return anyValue(v.AsInterface())
	case []attribute.Value:
		return arrayOf(v)
	case []attribute.KeyValue:
		return &common.AnyValue{Value: &common.AnyValue_KvlistValue{KvlistValue: &common.KeyValueList{Values: pairs(v)}}}
	}
	panic(fmt.Sprintf("a value of type %T", value))
}

func arrayOf[T any](all []T) *common.AnyValue {
	array := &common.ArrayValue{}
	for _, v := range all {
		array.Values = append(array.Values, anyValue(v))
	}
	return &common.AnyValue{Value: &common.AnyValue_ArrayValue{ArrayValue: array}}
}
