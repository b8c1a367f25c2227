package customhandler

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// wire is an envelope as it travels, with what differs each time replaced.
func wire(e Envelope) string {
	text := string(encode(e))
	text = regexp.MustCompile(`"UtcNow":"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{7}Z"`).ReplaceAllString(text, `"UtcNow":"now"`)
	return regexp.MustCompile(`"RandGuid":"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"`).ReplaceAllString(text, `"RandGuid":"guid"`)
}

func TestQueueEnvelope(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 678900000, time.UTC)
	m := QueueMessage{Text: `{"id":7,"kind":"<mail>"}`, ID: "7f3c", PopReceipt: "AgAA", DequeueCount: 1,
		Inserted: at, Expires: at.Add(7 * 24 * time.Hour), NextVisible: at.Add(10 * time.Minute)}
	got := wire(Trigger{Function: "worker", Binding: "msg"}.Queue(m))
	want := `{"Data":{"msg":"\"{\\\"id\\\":7,\\\"kind\\\":\\\"<mail>\\\"}\""},"Metadata":{` +
		`"DequeueCount":"1","ExpirationTime":"2026-01-09T03:04:05+00:00","Id":"\"7\"","InsertionTime":"2026-01-02T03:04:05+00:00",` +
		`"NextVisibleTime":"2026-01-02T03:14:05+00:00","PopReceipt":"\"AgAA\"","kind":"\"<mail>\"",` +
		`"sys":{"MethodName":"worker","UtcNow":"now","RandGuid":"guid"}}}`
	if got != want {
		t.Errorf("envelope:\n got %s\nwant %s", got, want)
	}

	binary := Trigger{Function: "worker", Binding: "msg", DataType: "binary"}.Queue(m)
	if got, want := string(binary.Data["msg"]), `"eyJpZCI6Nywia2luZCI6IjxtYWlsPiJ9"`; got != want {
		t.Errorf("binary data = %s, want %s", got, want)
	}
}

// TestShadowing: what a payload does to the metadata (one row per rule).
func TestShadowing(t *testing.T) {
	tests := []struct {
		name, payload string
		want          map[string]string // metadata, without those of the host that are untouched
	}{
		{"plain text", `hello`, nil},
		{"an array", `[{"a":1}]`, nil},
		{"not JSON", `{"a":1`, nil},
		{"two values", `{"a":1} {"b":2}`, nil},
		{"text", `{"a":"x"}`, map[string]string{"a": `"\"x\""`}},
		{"number", `{"a":7}`, map[string]string{"a": `"\"7\""`}},
		{"long number", `{"a":123456789012345678901234567890}`, map[string]string{"a": `"\"123456789012345678901234567890\""`}},
		{"fraction", `{"a":1.50}`, map[string]string{"a": `"\"1.5\""`}},
		{"exponents", `{"a":1e3,"b":1e15,"c":0.00001,"d":0.0001,"e":-0.0}`,
			map[string]string{"a": `"\"1000\""`, "b": `"\"1E+15\""`, "c": `"\"1E-05\""`, "d": `"\"0.0001\""`, "e": `"\"-0\""`}},
		{"boolean", `{"a":true,"b":false}`, map[string]string{"a": `"\"True\""`, "b": `"\"False\""`}},
		{"object", `{"a":{"b":[1]}}`, map[string]string{"a": `{"b":[1]}`}},
		{"array and null stay out", `{"a":[1],"b":null}`, nil},
		{"date", `{"a":"2026-01-02T15:04:05Z","b":"2026-01-02"}`, map[string]string{"a": `"\"1/2/2026 3:04:05 PM\""`, "b": `"\"2026-01-02\""`}},
		{"built-in name", `{"DequeueCount":99}`, map[string]string{"DequeueCount": `"\"99\""`}},
		{"built-in name in another case", `{"id":"x","popreceipt":"y"}`, map[string]string{"Id": `"\"x\""`, "PopReceipt": `"\"y\""`}},
		{"own names in two cases", `{"a":1,"A":2}`, map[string]string{"a": `"\"2\""`}},
		{"trigger", `{"QueueTrigger":"q","mytrigger":1,"triggers":2}`, map[string]string{"triggers": `"\"2\""`}},
		{"sys", `{"sys":"mine"}`, map[string]string{"sys": `"\"mine\""`, "$sys": "the host's"}},
		{"SYS", `{"SYS":"mine"}`, map[string]string{"SYS": `"\"mine\""`, "$sys": "the host's"}},
	}
	trigger := Trigger{Function: "worker", Binding: "msg"}
	untouched := trigger.Queue(QueueMessage{}).Metadata
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e := trigger.Queue(QueueMessage{Text: tt.payload})
			got := make(map[string]string)
			for name, raw := range e.Metadata {
				switch {
				case name == "$sys" || name == "sys" && isObject(raw):
					got[name] = "the host's"
				case string(raw) != string(untouched[name]):
					got[name] = string(raw)
				}
			}
			want := map[string]string{"sys": "the host's"}
			for name, value := range tt.want {
				want[name] = value
			}
			if tt.want["$sys"] != "" && tt.want["sys"] == "" {
				delete(want, "sys")
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("metadata (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTimerEnvelope(t *testing.T) {
	zone := time.FixedZone("", 3600)
	tests := []struct {
		name string
		tick Tick
		want string
	}{
		{"monitored", Tick{AdjustForDST: true, Schedule: &ScheduleStatus{
			Last: time.Date(2026, 1, 2, 3, 0, 0, 12345678, time.UTC), Next: time.Date(2026, 1, 2, 3, 5, 0, 0, zone), LastUpdated: time.Date(2026, 1, 2, 3, 0, 0, 120000000, time.UTC)}},
			`{"Schedule":{"AdjustForDST":true},"ScheduleStatus":{"Last":"2026-01-02T03:00:00.0123456+00:00","Next":"2026-01-02T03:05:00+01:00","LastUpdated":"2026-01-02T03:00:00.12+00:00"},"IsPastDue":false}`},
		{"not monitored", Tick{PastDue: true}, `{"Schedule":{"AdjustForDST":false},"ScheduleStatus":null,"IsPastDue":true}`},
		{"never run", Tick{Schedule: &ScheduleStatus{}},
			`{"Schedule":{"AdjustForDST":false},"ScheduleStatus":{"Last":"0001-01-01T00:00:00+00:00","Next":"0001-01-01T00:00:00+00:00","LastUpdated":"0001-01-01T00:00:00+00:00"},"IsPastDue":false}`},
	}
	const sys = `"sys":{"MethodName":"nightly","UtcNow":"now","RandGuid":"guid"}`
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			want := `{"Data":{"tick":` + tt.want + `},"Metadata":{` + sys + `}}`
			if got := wire(Trigger{Function: "nightly", Binding: "tick"}.Timer(tt.tick)); got != want {
				t.Errorf("envelope:\n got %s\nwant %s", got, want)
			}
		})
	}
	got := wire(Trigger{Function: "nightly", Binding: "tick"}.AdminTimer(Tick{}, ""))
	want := `{"Data":{"tick":{"Schedule":{"AdjustForDST":false},"ScheduleStatus":null,"IsPastDue":false}},"Metadata":{` + sys + `,"tick":"\"\""}}`
	if got != want {
		t.Errorf("administrator's run:\n got %s\nwant %s", got, want)
	}
}

func TestAdminEnvelope(t *testing.T) {
	got := wire(Trigger{Function: "worker", Binding: "msg"}.AdminText(`{"a":1}`))
	want := `{"Data":{"msg":"\"{\\\"a\\\":1}\""},"Metadata":{"a":"\"1\"","msg":"\"{\\\"a\\\":1}\"","sys":{"MethodName":"worker","UtcNow":"now","RandGuid":"guid"}}}`
	if got != want {
		t.Errorf("envelope:\n got %s\nwant %s", got, want)
	}
	// A binding's name that ends with "trigger" is dropped like any other such name.
	e := Trigger{Function: "worker", Binding: "myTrigger"}.AdminText("x")
	if _, ok := e.Metadata["myTrigger"]; ok || e.Data["myTrigger"] == nil {
		t.Errorf("envelope = %s, want the data and no metadata of the binding", wire(e))
	}
}

func TestHTTPEnvelope(t *testing.T) {
	request := func(method, target, contentType string, body io.Reader) *http.Request {
		r := httptest.NewRequest(method, target, body)
		r.Host = "localhost:7071"
		if contentType != "" {
			r.Header.Set("Content-Type", contentType)
		}
		return r
	}
	const sys = `"sys":{"MethodName":"orders","UtcNow":"now","RandGuid":"guid"}`
	tests := []struct {
		name     string
		r        *http.Request
		params   map[string]any
		req      string // Data.req without Identities
		metadata string
	}{
		{"everything at once", func() *http.Request {
			r := request("POST", "/api/orders/42?verbose=1&tag=a&tag=b&code=s3cret", "application/json", strings.NewReader(`{"qty":3,"list":[1]}`))
			r.Header["X-Custom"] = []string{"1", "2"}
			return r
		}(), map[string]any{"id": "42", "rest": nil},
			`{"Url":"http://localhost:7071/api/orders/42?verbose=1&tag=a&tag=b&code=s3cret","Method":"POST","Query":{"code":"s3cret","tag":"a,b","verbose":"1"},` +
				`"Headers":{"Content-Type":["application/json"],"Host":["localhost:7071"],"X-Custom":["1","2"]},"Params":{"id":"42","rest":null},"Body":"{\"qty\":3,\"list\":[1]}"}`,
			`{"Headers":{"Content-Type":"application/json","Host":"localhost:7071","X-Custom":"1,2"},"Query":{"code":"s3cret","tag":"a,b","verbose":"1"},` +
				`"id":"\"42\"","qty":"\"3\"",` + sys + `,"tag":"\"a,b\"","verbose":"\"1\""}`},
		{"no body, no parameters, a decoded path", request("GET", "/api/a%20b%3Fc?T=1&t=2", "", nil), nil,
			`{"Url":"http://localhost:7071/api/a b?c?T=1&t=2","Method":"GET","Query":{"T":"1,2"},"Headers":{"Host":["localhost:7071"]},"Params":{}}`,
			`{"Headers":{"Host":"localhost:7071"},"Query":{"T":"1,2"},"T":"\"1,2\"",` + sys + `}`},
		{"a chunked body is lost", func() *http.Request {
			r := request("POST", "/api/orders", "", io.MultiReader(strings.NewReader("body")))
			r.TransferEncoding = []string{"chunked"}
			return r
		}(), nil,
			`{"Url":"http://localhost:7071/api/orders","Method":"POST","Query":{},"Headers":{"Host":["localhost:7071"],"Transfer-Encoding":["chunked"]},"Params":{}}`,
			`{"Headers":{"Host":"localhost:7071","Transfer-Encoding":"chunked"},"Query":{},` + sys + `}`},
		{"octets are base64", request("PUT", "/api/orders", "application/octet-stream", strings.NewReader("\xff\x00\x01")), map[string]any{"n": 7},
			`{"Url":"http://localhost:7071/api/orders","Method":"PUT","Query":{},"Headers":{"Content-Type":["application/octet-stream"],"Host":["localhost:7071"]},"Params":{"n":7},"Body":"/wAB"}`,
			`{"Headers":{"Content-Type":"application/octet-stream","Host":"localhost:7071"},"Query":{},"n":"\"7\"",` + sys + `}`},
		{"other binary types are damaged", request("PUT", "/api/orders", "image/png", strings.NewReader("\xff{")), nil,
			`{"Url":"http://localhost:7071/api/orders","Method":"PUT","Query":{},"Headers":{"Content-Type":["image/png"],"Host":["localhost:7071"]},"Params":{},"Body":"\ufffd{"}`,
			`{"Headers":{"Content-Type":"image/png","Host":"localhost:7071"},"Query":{},` + sys + `}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e, err := Trigger{Function: "orders", Binding: "req"}.HTTP(tt.r, tt.params)
			if err != nil {
				t.Fatal(err)
			}
			want := `{"Data":{"req":` + tt.req + `},"Metadata":` + tt.metadata + `}`
			got := strings.Replace(wire(e), `"Identities":`+string(identities)+`,`, "", 1)
			got = strings.Replace(got, `,"Identities":`+string(identities), "", 1)
			if got != want {
				t.Errorf("envelope:\n got %s\nwant %s", got, want)
			}
		})
	}
	if !json.Valid(identities) {
		t.Error("identities are not JSON")
	}
}

func TestServiceBusEnvelope(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	m := ServiceBusMessage{Text: `{"orderId":7,"messageId":"mine"}`, MessageID: "m-1", SequenceNumber: 12, DeliveryCount: 1, LockToken: "lock",
		Subject: "s", Enqueued: at, Expires: at, Properties: map[string]any{"k": "v"}}
	got := wire(Trigger{Function: "orders", Binding: "msg"}.ServiceBus(m))
	want := `{"Data":{"msg":"\"{\\\"orderId\\\":7,\\\"messageId\\\":\\\"mine\\\"}\""},"Metadata":{"ApplicationProperties":{"k":"v"},` +
		`"Client":{"FullyQualifiedNamespace":"localhost","IsClosed":false,"TransportType":0,"Identifier":"localhost"},"DeliveryCount":"1",` +
		`"EnqueuedTime":"2026-01-02T03:04:05+00:00","EnqueuedTimeUtc":"2026-01-02T03:04:05","ExpiresAt":"2026-01-02T03:04:05+00:00","ExpiresAtUtc":"2026-01-02T03:04:05",` +
		`"Label":"\"s\"","LockToken":"\"lock\"","MessageActions":{},"MessageId":"\"mine\"","MessageReceiver":{},"MessageSession":{},"ReceiveActions":{},` +
		`"SequenceNumber":"12","SessionActions":{},"Subject":"\"s\"","UserProperties":{"k":"v"},"orderId":"\"7\"",` +
		`"sys":{"MethodName":"orders","UtcNow":"now","RandGuid":"guid"}}}`
	if got != want {
		t.Errorf("envelope:\n got %s\nwant %s", got, want)
	}

	many := []ServiceBusMessage{{Text: `{"a": 1}`, MessageID: "x"}, {Text: "hello"}}
	batch := Trigger{Function: "orders", Binding: "msgs"}
	if _, err := batch.ServiceBusBatch(many); err == nil || !strings.Contains(err.Error(), "dataType") {
		t.Errorf("batch with a text that is no JSON: %v, want an error that names dataType", err)
	}
	for dataType, want := range map[string]string{"": `"[{\"a\":1}]"`, "string": `"[\"{\\\"a\\\": 1}\"]"`, "binary": `"[\"eyJhIjogMX0=\"]"`} {
		batch.DataType = dataType
		e, err := batch.ServiceBusBatch(many[:1])
		if err != nil {
			t.Fatal(err)
		}
		if got := string(e.Data["msgs"]); got != want {
			t.Errorf("batch with dataType %q = %s, want %s", dataType, got, want)
		}
		if got, want := string(e.Metadata["MessageIdArray"]), `"[\"x\"]"`; got != want {
			t.Errorf("MessageIdArray = %s, want %s", got, want)
		}
	}
}
