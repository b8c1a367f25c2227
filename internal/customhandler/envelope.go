package customhandler

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// Trigger says for which trigger of which function an envelope is built, in the words of function.json.
// Its methods build what the real host sends: nothing is friendlier here.
type Trigger struct {
	Function string // the function's folder, exact case
	Binding  string // the trigger binding's name
	DataType string // "" or "string"; "binary" sends the data as base64
}

// HTTP builds the envelope of an HTTP call. Params are the route's values: strings, numbers for constrained
// parameters, nil for optional ones that are missing. The body is read only when r has a Content-Length above zero,
// as the host does: a chunked body is lost.
func (t Trigger) HTTP(r *http.Request, params map[string]any) (Envelope, error) {
	u := "http://" + r.Host + r.URL.Path // decoded: what is no URL any more is sent like that, too
	if r.URL.RawQuery != "" {
		u += "?" + r.URL.RawQuery
	}
	names, query := hostQuery(r.URL.RawQuery)
	headers := r.Header.Clone()
	headers.Set("Host", r.Host)
	for _, coding := range r.TransferEncoding {
		headers.Add("Transfer-Encoding", coding)
	}
	if params == nil {
		params = map[string]any{}
	}
	req := struct {
		URL        string `json:"Url"`
		Method     string
		Query      map[string]string
		Headers    map[string][]string
		Params     map[string]any
		Identities json.RawMessage
		Body       *string `json:",omitempty"`
	}{u, r.Method, query, headers, params, identities, nil}

	md := newTable()
	md.set("Query", encode(query))
	joined := make(map[string]string)
	for name, values := range headers {
		joined[name] = strings.Join(values, ",")
	}
	md.set("Headers", encode(joined))
	for _, name := range names {
		if !strings.EqualFold(name, "code") {
			md.set(name, encodeText(query[name]))
		}
	}
	for name, value := range params {
		if value != nil {
			md.set(name, encodeText(fmt.Sprint(value)))
		}
	}
	if r.ContentLength > 0 {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return Envelope{}, fmt.Errorf("read the body for function %q: %w", t.Function, err)
		}
		contentType := r.Header.Get("Content-Type")
		text := string(body)
		if isBinary(contentType) {
			text = base64.StdEncoding.EncodeToString(body)
		} else if strings.Contains(contentType, "json") {
			md.leak(text)
		}
		req.Body = &text
	}
	return t.envelope(encode(req), md), nil
}

// identities are those of a caller without a key on a developer's machine, where every key check is off.
var identities = json.RawMessage(`[{"AuthenticationType":"WebJobsAuthLevel","IsAuthenticated":true,"Actor":null,"BootstrapContext":null,` +
	`"Claims":[{"Issuer":"LOCAL AUTHORITY","OriginalIssuer":"LOCAL AUTHORITY","Properties":{},` +
	`"Type":"http://schemas.microsoft.com/2017/07/functions/claims/authlevel","Value":"Admin",` +
	`"ValueType":"http://www.w3.org/2001/XMLSchema#string"}],"Label":null,"Name":null,` +
	`"NameClaimType":"http://schemas.xmlsoap.org/ws/2005/05/identity/claims/name",` +
	`"RoleClaimType":"http://schemas.microsoft.com/ws/2008/06/identity/claims/role"}]`)

// Queue builds the envelope of a queue message.
func (t Trigger) Queue(m QueueMessage) Envelope {
	md := newTable()
	md.set("DequeueCount", encodeScalar(m.DequeueCount))
	md.set("ExpirationTime", encodeOffset(m.Expires))
	md.set("Id", encodeText(m.ID))
	md.set("InsertionTime", encodeOffset(m.Inserted))
	md.set("NextVisibleTime", encodeOffset(m.NextVisible))
	md.set("PopReceipt", encodeText(m.PopReceipt))
	return t.message(m.Text, md)
}

// Timer builds the envelope of a timer's tick.
func (t Trigger) Timer(tick Tick) Envelope { return t.envelope(encodeTick(tick), newTable()) }

// ServiceBus builds the envelope of one Service Bus message.
func (t Trigger) ServiceBus(m ServiceBusMessage) Envelope {
	md := newTable()
	for _, name := range []string{"MessageReceiver", "MessageSession", "MessageActions", "SessionActions", "ReceiveActions"} {
		md.set(name, json.RawMessage("{}")) // .NET objects with nothing in them that can be serialised
	}
	md.set("Client", json.RawMessage(`{"FullyQualifiedNamespace":"localhost","IsClosed":false,"TransportType":0,"Identifier":"localhost"}`))
	for _, p := range describe(m) {
		if p.value != nil {
			md.set(p.name, p.encoded())
		}
	}
	return t.message(m.Text, md)
}

// ServiceBusBatch builds the envelope for a trigger whose cardinality is "many". Without DataType "string" each text
// must be JSON, and one that is not fails the batch, as in the host.
func (t Trigger) ServiceBusBatch(ms []ServiceBusMessage) (Envelope, error) {
	bodies := make([]json.RawMessage, len(ms))
	columns := make(map[string][]any)
	for i, m := range ms {
		switch {
		case t.DataType == "string":
			bodies[i] = encode(m.Text)
		case t.DataType == "binary":
			bodies[i] = encode([]byte(m.Text))
		case json.Valid([]byte(m.Text)):
			bodies[i] = json.RawMessage(m.Text)
		default:
			return Envelope{}, fmt.Errorf("message %q of a batch for function %q is not JSON: the host fails the whole batch; "+
				`"dataType": "string" in function.json lets it through`, m.MessageID, t.Function)
		}
		for _, p := range describe(m) {
			columns[p.name+"Array"] = append(columns[p.name+"Array"], p.element())
		}
	}
	md := newTable()
	for name, values := range columns {
		md.set(name, encodeScalar(values))
	}
	return t.envelope(encodeScalar(bodies), md), nil
}

// AdminText builds the envelope of an administrator's run of a queue or Service Bus function
// (POST /admin/functions/<name> with {"input": text}).
func (t Trigger) AdminText(input string) Envelope {
	md := newTable()
	md.set(t.Binding, encodeText(input))
	return t.message(input, md)
}

// AdminTimer builds the envelope of an administrator's run of a timer function.
func (t Trigger) AdminTimer(tick Tick, input string) Envelope {
	md := newTable()
	md.set(t.Binding, encodeText(input))
	return t.envelope(encodeTick(tick), md)
}

// message is an envelope whose data is a text, which leaks its properties into the metadata when it is JSON.
func (t Trigger) message(text string, md *table) Envelope {
	if t.DataType == "binary" {
		return t.envelope(encode([]byte(text)), md)
	}
	md.leak(text)
	return t.envelope(encodeText(text), md)
}

func (t Trigger) envelope(data json.RawMessage, md *table) Envelope {
	return Envelope{
		ID:       NewInvocationID(),
		Data:     map[string]json.RawMessage{t.Binding: data},
		Metadata: md.finish(t.Function, time.Now()),
	}
}

// property is one of a Service Bus message's; its value is nil when the message has none.
type property struct {
	name  string
	value any // string, number, time.Time or a map of what JSON can hold
}

// element is the property's value in the array of a batch.
func (p property) element() any {
	if at, ok := p.value.(time.Time); ok {
		return at.UTC().Format("2006-01-02T15:04:05Z")
	}
	return p.value
}

// encoded is the property's value for a single message.
func (p property) encoded() json.RawMessage {
	switch v := p.value.(type) {
	case map[string]any:
		return encode(v)
	case time.Time:
		if strings.HasSuffix(p.name, "Utc") {
			return encode(v.UTC().Format("2006-01-02T15:04:05")) // a DateTime: without a zone
		}
		return encodeOffset(v)
	}
	return encodeScalar(p.value)
}

func describe(m ServiceBusMessage) []property {
	text := func(s string) any {
		if s == "" {
			return nil
		}
		return s
	}
	at := func(t time.Time) any {
		if t.IsZero() {
			return nil
		}
		return t
	}
	props := m.Properties
	if props == nil {
		props = map[string]any{}
	}
	return []property{
		{"DeliveryCount", m.DeliveryCount}, {"SequenceNumber", m.SequenceNumber},
		{"LockToken", text(m.LockToken)}, {"MessageId", text(m.MessageID)},
		{"ExpiresAtUtc", at(m.Expires)}, {"ExpiresAt", at(m.Expires)},
		{"EnqueuedTimeUtc", at(m.Enqueued)}, {"EnqueuedTime", at(m.Enqueued)},
		{"ContentType", text(m.ContentType)}, {"CorrelationId", text(m.CorrelationID)},
		{"Subject", text(m.Subject)}, {"Label", text(m.Subject)},
		{"To", text(m.To)}, {"ReplyTo", text(m.ReplyTo)},
		{"SessionId", text(m.SessionID)}, {"ReplyToSessionId", text(m.ReplyToSessionID)},
		{"PartitionKey", text(m.PartitionKey)}, {"DeadLetterSource", text(m.DeadLetterSource)},
		{"ApplicationProperties", props}, {"UserProperties", props},
	}
}

// encodeTick is a TimerInfo as .NET serialises it.
func encodeTick(tick Tick) json.RawMessage {
	type status struct{ Last, Next, LastUpdated string }
	wire := struct {
		Schedule       struct{ AdjustForDST bool }
		ScheduleStatus *status
		IsPastDue      bool
	}{IsPastDue: tick.PastDue}
	wire.Schedule.AdjustForDST = tick.AdjustForDST
	if s := tick.Schedule; s != nil {
		const layout = "2006-01-02T15:04:05.9999999-07:00" // .NET counts in 100 ns
		wire.ScheduleStatus = &status{s.Last.Format(layout), s.Next.Format(layout), s.LastUpdated.Format(layout)}
	}
	return encode(wire)
}
