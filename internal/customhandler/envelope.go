package customhandler

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"time"
)

// Trigger is a function's trigger, in the words of function.json. Its methods
// build the envelopes that the host sends, including the host's faults.
type Trigger struct {
	Function string  // the function's folder, in its exact case
	Binding  string  // the trigger binding's name
	DataType string  // "" or "string"; "binary" sends the data as base64
	KeyID    string  // of an HTTP call's key: DefaultKey, MasterKey, or "" without one
	Person   *Person // who the platform has signed in; nil: nobody
}

// The ids of keys in an envelope.
const (
	DefaultKey = "default" // a function key or the host key
	MasterKey  = "master"
)

// HTTP builds the envelope of an HTTP call. Params are the route's values, nil
// for missing optional ones. HTTP reads the body only if r has a Content-Length
// above zero: like the host, it drops a chunked body.
func (t Trigger) HTTP(r *http.Request, params map[string]any) (Envelope, error) {
	path, err := RoutedPath(r)
	if err != nil {
		return Envelope{}, err
	}
	u := "http://" + r.Host + escapePath(path)
	if r.URL.RawQuery != "" {
		u += "?" + r.URL.RawQuery
	}
	_, query := hostQuery(r.URL.RawQuery)
	last := lastQuery(r.URL.RawQuery)
	headers := r.Header.Clone()
	headers.Set("Host", r.Host)
	for _, coding := range r.TransferEncoding {
		headers.Add("Transfer-Encoding", coding)
	}
	if params == nil {
		params = map[string]any{}
	}
	data := encode(struct {
		URL        string `json:"Url"`
		Method     string
		Query      map[string]string
		Headers    map[string][]string
		Params     map[string]any
		Identities []identity
	}{u, r.Method, query, headers, params, t.identities()})

	md := newTable()
	md.set("Query", encode(last))
	joined := make(map[string]string)
	for name, values := range headers {
		joined[name] = strings.Join(values, ",")
	}
	md.set("Headers", encode(joined))
	for name, value := range last {
		if !strings.EqualFold(name, "code") {
			md.set(name, encodeScalar(value))
		}
	}
	for name, value := range params {
		if value != nil {
			md.set(name, encodeScalar(fmt.Sprint(value)))
		}
	}
	if r.ContentLength > 0 {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return Envelope{}, fmt.Errorf("read the body for function %q: %w", t.Function, err)
		}
		contentType := r.Header.Get("Content-Type")
		if !isBinary(contentType) && strings.Contains(contentType, "json") {
			md.addPayload(body)
		}
		data = addBody(data, body, isBinary(contentType))
	}
	return t.envelope(data, md), nil
}

// addBody adds the member Body to the JSON of a call. It writes a long body once,
// because everyone may send one to a function whose level is anonymous.
func addBody(call json.RawMessage, body []byte, binary bool) json.RawMessage {
	const name = `,"Body":`
	head := call[:len(call)-1] // without the brace
	length := quotedLength(body)
	if binary {
		length = len(`""`) + base64.StdEncoding.EncodedLen(len(body))
	}
	data := make(json.RawMessage, 0, len(head)+len(name)+length+len("}"))
	data = append(append(data, head...), name...)
	if binary {
		data = append(base64.StdEncoding.AppendEncode(append(data, '"'), body), '"')
	} else {
		data = appendQuoted(data, body)
	}
	return append(data, '}')
}

// Queue builds the envelope of a queue message.
func (t Trigger) Queue(m QueueMessage) Envelope {
	md := newTable()
	md.set("DequeueCount", encodeScalar(m.DequeueCount))
	md.set("ExpirationTime", encodeOffset(m.Expires))
	md.set("Id", encodeScalar(m.ID))
	md.set("InsertionTime", encodeOffset(m.Inserted))
	md.set("NextVisibleTime", encodeOffset(m.NextVisible))
	md.set("PopReceipt", encodeScalar(m.PopReceipt))
	return t.message(m.Text, md)
}

// Timer builds the envelope of a timer's tick.
func (t Trigger) Timer(tick Tick) Envelope { return t.envelope(encodeTick(tick), newTable()) }

// AdminText builds the envelope for an administrator who runs a queue function
// (POST /admin/functions/<name> with {"input": text}). The metadata of a
// message from a queue are 0, absent, or .NET's latest time.
func (t Trigger) AdminText(input string) Envelope {
	md := newTable()
	md.set("DequeueCount", encodeScalar(0))
	for _, name := range []string{"ExpirationTime", "InsertionTime", "NextVisibleTime"} {
		md.set(name, encode("9999-12-31T23:59:59+00:00"))
	}
	md.set(t.Binding, encodeScalar(input))
	return t.message(input, md)
}

// AdminTimer builds the envelope for an administrator who runs a timer function.
func (t Trigger) AdminTimer(tick Tick, input string) Envelope {
	md := newTable()
	md.set(t.Binding, encodeScalar(input))
	return t.envelope(encodeTick(tick), md)
}

// WithRetry returns the envelope for an attempt under a retry policy: the first
// one, which is repeat 0, or the repeat of one that failed.
func (e Envelope) WithRetry(repeat, limit int, failure error) Envelope {
	type exception struct{ ClassName, Message string } // .NET has more members
	context := struct {
		RetryCount, MaxRetryCount int
		Exception                 *exception
	}{RetryCount: repeat, MaxRetryCount: limit}
	if failure != nil {
		context.Exception = &exception{"System.Exception", failure.Error()}
	}
	e.Metadata = maps.Clone(e.Metadata)
	e.Metadata["RetryContext"] = encode(context)
	return e
}

// message builds an envelope with a text. If the text is JSON, its properties
// replace metadata.
func (t Trigger) message(text string, md *table) Envelope {
	if t.DataType == "binary" {
		return t.envelope(encode([]byte(text)), md)
	}
	md.addPayload([]byte(text))
	return t.envelope(encodeScalar(text), md)
}

func (t Trigger) envelope(data json.RawMessage, md *table) Envelope {
	return Envelope{
		ID:       NewInvocationID(),
		Data:     map[string]json.RawMessage{t.Binding: data},
		Metadata: md.finish(t.Function, time.Now()),
	}
}

// encodeTick returns a TimerInfo as .NET serializes it.
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

// HeaderPrincipal is the header in which the platform names who it has signed
// in, in the canonical form of http.Header's keys.
const HeaderPrincipal = "X-Ms-Client-Principal"

// Person is who the platform has signed in, as the host reads it from
// HeaderPrincipal. Nothing in it is signed.
type Person struct {
	AuthType string  `json:"auth_typ"`
	NameType string  `json:"name_typ"`
	RoleType string  `json:"role_typ"`
	Claims   []claim `json:"claims"`
}

type claim struct {
	Type  string `json:"typ"`
	Value string `json:"val"`
}

// ParsePerson reads the values of HeaderPrincipal; without any the person is nil.
// After an error the host answers 500.
func ParsePerson(values []string) (*Person, error) {
	switch len(values) {
	case 0:
		return nil, nil
	case 1:
	default:
		return nil, errors.New("the request has two headers X-MS-CLIENT-PRINCIPAL")
	}
	text, err := base64.StdEncoding.DecodeString(values[0])
	if err != nil {
		return nil, errors.New("the header X-MS-CLIENT-PRINCIPAL is not base64")
	}
	p := &Person{}
	if err := json.Unmarshal(text, p); err != nil {
		return nil, fmt.Errorf("the header X-MS-CLIENT-PRINCIPAL has no JSON object: %w", err)
	}
	return p, nil
}

// authClaims begins the types of the host's own claims.
const authClaims = "http://schemas.microsoft.com/2017/07/functions/claims/"

// identity is a .NET ClaimsIdentity in an envelope.
type identity struct {
	AuthenticationType      *string
	IsAuthenticated         bool
	Actor, BootstrapContext any
	Claims                  []issuedClaim
	Label                   any
	Name                    *string
	NameClaimType           string
	RoleClaimType           string
}

type issuedClaim struct {
	Issuer, OriginalIssuer string
	Properties             struct{}
	Type, Value, ValueType string
}

// identities returns the identities of an HTTP call: those of the person and of
// the key, or one that is not authenticated.
func (t Trigger) identities() []identity {
	var all []identity
	if p := t.Person; p != nil {
		all = append(all, newIdentity(p.AuthType, p.NameType, p.RoleType, p.Claims))
	}
	if t.KeyID != "" {
		level := "Function"
		if t.KeyID == MasterKey {
			level = "Admin"
		}
		all = append(all, newIdentity("WebJobsAuthLevel", "", "",
			[]claim{{authClaims + "authlevel", level}, {authClaims + "invoke", "true"}, {authClaims + "keyid", t.KeyID}}))
	}
	if all == nil {
		all = append(all, newIdentity("", "", "", nil))
	}
	return all
}

func newIdentity(authType, nameType, roleType string, claims []claim) identity {
	i := identity{
		Claims:        make([]issuedClaim, 0, len(claims)),
		NameClaimType: cmp.Or(nameType, "http://schemas.xmlsoap.org/ws/2005/05/identity/claims/name"),
		RoleClaimType: cmp.Or(roleType, "http://schemas.microsoft.com/ws/2008/06/identity/claims/role"),
	}
	if authType != "" {
		i.AuthenticationType, i.IsAuthenticated = &authType, true
	}
	for _, c := range claims {
		const authority = "LOCAL AUTHORITY"
		i.Claims = append(i.Claims, issuedClaim{Issuer: authority, OriginalIssuer: authority,
			Type: c.Type, Value: c.Value, ValueType: "http://www.w3.org/2001/XMLSchema#string"})
		if i.Name == nil && c.Type == i.NameClaimType {
			i.Name = &c.Value
		}
	}
	return i
}
