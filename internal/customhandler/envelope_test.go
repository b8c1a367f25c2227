package customhandler

import (
	"errors"
	"io"
	"maps"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var (
	utcNow   = regexp.MustCompile(`"UtcNow":"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{7}Z"`)
	randGUID = regexp.MustCompile(`"RandGuid":"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"`)
)

// wire returns an envelope as it is sent, with a fixed value of sys.
func wire(e Envelope) string {
	text := utcNow.ReplaceAllString(string(encode(e)), `"UtcNow":"now"`)
	text = randGUID.ReplaceAllString(text, `"RandGuid":"guid"`)
	return strings.Replace(text, `"sys":{"MethodName":"work","UtcNow":"now","RandGuid":"guid"}`, `"sys":…`, 1)
}

func TestEnvelopes(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 678900000, time.UTC)
	m := QueueMessage{Text: `{"id":7,"kind":"<mail>"}`, ID: "7f3c", PopReceipt: "AgAA", DequeueCount: 1,
		Inserted: at, Expires: at.Add(7 * 24 * time.Hour), NextVisible: at.Add(10 * time.Minute)}
	trigger := Trigger{Function: "work", Binding: "in"}
	const idle = `{"Schedule":{"AdjustForDST":false},"ScheduleStatus":null,"IsPastDue":false}`
	const times = `"ExpirationTime":"2026-01-09T03:04:05+00:00","Id":"\"7f3c\"","InsertionTime":"2026-01-02T03:04:05+00:00","NextVisibleTime":"2026-01-02T03:14:05+00:00"`
	const latest = `"ExpirationTime":"9999-12-31T23:59:59+00:00","InsertionTime":"9999-12-31T23:59:59+00:00","NextVisibleTime":"9999-12-31T23:59:59+00:00"`
	tests := []struct {
		name           string
		e              Envelope
		data, metadata string
	}{
		{"queue", trigger.Queue(m), `"\"{\\\"id\\\":7,\\\"kind\\\":\\\"<mail>\\\"}\""`,
			`{"DequeueCount":"1",` + strings.Replace(times, `"Id":"\"7f3c\"",`, "", 1) + `,"PopReceipt":"\"AgAA\"","id":"\"7\"","kind":"\"<mail>\"","sys":…}`},
		{"queue, binary", Trigger{Function: "work", Binding: "in", DataType: "binary"}.Queue(m), `"eyJpZCI6Nywia2luZCI6IjxtYWlsPiJ9"`,
			`{"DequeueCount":"1",` + times + `,"PopReceipt":"\"AgAA\"","sys":…}`},
		{"queue, run by an administrator", trigger.AdminText(`{"a":1}`), `"\"{\\\"a\\\":1}\""`, `{"DequeueCount":"0",` + latest + `,"a":"\"1\"","in":"\"{\\\"a\\\":1}\"","sys":…}`},
		{"timer", trigger.Timer(Tick{AdjustForDST: true, Schedule: &ScheduleStatus{Last: time.Date(2026, 1, 2, 3, 0, 0, 12345678, time.UTC),
			Next: time.Date(2026, 1, 2, 3, 5, 0, 0, time.FixedZone("", 3600)), LastUpdated: time.Date(2026, 1, 2, 3, 0, 0, 120000000, time.UTC)}}),
			`{"Schedule":{"AdjustForDST":true},"ScheduleStatus":{"Last":"2026-01-02T03:00:00.0123456+00:00","Next":"2026-01-02T03:05:00+01:00","LastUpdated":"2026-01-02T03:00:00.12+00:00"},"IsPastDue":false}`, `{"sys":…}`},
		{"timer, not monitored", trigger.Timer(Tick{PastDue: true}), strings.Replace(idle, `"IsPastDue":false`, `"IsPastDue":true`, 1), `{"sys":…}`},
		{"timer, never run", trigger.Timer(Tick{Schedule: &ScheduleStatus{}}),
			`{"Schedule":{"AdjustForDST":false},"ScheduleStatus":{"Last":"0001-01-01T00:00:00+00:00","Next":"0001-01-01T00:00:00+00:00","LastUpdated":"0001-01-01T00:00:00+00:00"},"IsPastDue":false}`, `{"sys":…}`},
		{"timer, first attempt", trigger.Timer(Tick{}).WithRetry(0, -1, nil), idle,
			`{"RetryContext":{"RetryCount":0,"MaxRetryCount":-1,"Exception":null},"sys":…}`},
		{"timer, repeated", trigger.Timer(Tick{}).WithRetry(1, 3, errors.New("no")), idle,
			`{"RetryContext":{"RetryCount":1,"MaxRetryCount":3,"Exception":{"ClassName":"System.Exception","Message":"no"}},"sys":…}`},
		{"timer, run by an administrator", trigger.AdminTimer(Tick{}, ""), idle, `{"in":"\"\"","sys":…}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			want := `{"Data":{"in":` + tt.data + `},"Metadata":` + tt.metadata + `}`
			if got := wire(tt.e); got != want {
				t.Errorf("envelope:\n got %s\nwant %s", got, want)
			}
		})
	}
	// The host removes every name that ends with "trigger".
	e := Trigger{Function: "work", Binding: "myTrigger"}.AdminText("x")
	if _, ok := e.Metadata["myTrigger"]; ok || e.Data["myTrigger"] == nil {
		t.Errorf("envelope = %s, want the data of the binding and no metadata", wire(e))
	}
}

// TestPayloadReplacesMetadata has a row for each rule.
func TestPayloadReplacesMetadata(t *testing.T) {
	const host = "the host's"
	tests := []struct {
		name, payload string
		want          map[string]string // changed metadata; sys is the host's unless given here
	}{
		{"plain text", `hello`, nil},
		{"not JSON", `{"a":1`, nil},
		{"two values", `{"a":1} {"b":2}`, nil},
		{"text", `{"a":"x"}`, map[string]string{"a": `"\"x\""`}},
		{"long number", `{"a":123456789012345678901234567890}`, map[string]string{"a": `"\"123456789012345678901234567890\""`}},
		{"fractions", `{"a":1.50,"b":1e999}`, map[string]string{"a": `"\"1.5\""`, "b": `"\"∞\""`}},
		{"exponents", `{"a":1e3,"b":1e15,"c":0.00001,"d":0.0001,"e":-0.0}`,
			map[string]string{"a": `"\"1000\""`, "b": `"\"1E+15\""`, "c": `"\"1E-05\""`, "d": `"\"0.0001\""`, "e": `"\"-0\""`}},
		{"booleans", `{"a":true,"b":false}`, map[string]string{"a": `"\"True\""`, "b": `"\"False\""`}},
		{"object", `{"a":{"b":[1]}}`, map[string]string{"a": `{"b":[1]}`}},
		{"array and null", `{"a":[1],"b":null}`, nil},
		{"date", `{"a":"2026-01-02T15:04:05Z","b":"2026-01-02"}`, map[string]string{"a": `"\"01/02/2026 15:04:05\""`, "b": `"\"2026-01-02\""`}},
		{"built-in name", `{"DequeueCount":99}`, map[string]string{"DequeueCount": `"\"99\""`}},
		{"built-in name in another case", `{"id":"x","popreceipt":"y"}`, map[string]string{"id": `"\"x\""`, "popreceipt": `"\"y\""`}},
		{"name in two cases", `{"a":1,"A":2}`, map[string]string{"A": `"\"2\""`}},
		{"trigger", `{"QueueTrigger":"q","mytrigger":1,"triggers":2}`, map[string]string{"triggers": `"\"2\""`}},
		{"sys", `{"sys":"mine"}`, map[string]string{"sys": `"\"mine\""`}},
		{"SYS", `{"SYS":"mine"}`, map[string]string{"SYS": `"\"mine\""`}},
	}
	trigger := Trigger{Function: "worker", Binding: "msg"}
	untouched := trigger.Queue(QueueMessage{}).Metadata
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := make(map[string]string)
			for name, raw := range trigger.Queue(QueueMessage{Text: tt.payload}).Metadata {
				if strings.Contains(string(raw), "MethodName") {
					got[name] = host
				} else if string(raw) != string(untouched[name]) {
					got[name] = string(raw)
				}
			}
			want := map[string]string{"sys": host}
			if strings.EqualFold(tt.name, "sys") {
				clear(want)
			}
			maps.Copy(want, tt.want)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("metadata (-want +got):\n%s", diff)
			}
		})
	}
}

func TestHTTPEnvelope(t *testing.T) {
	tests := []struct {
		name, method, target, contentType string
		body                              io.Reader
		params                            map[string]any
		req, metadata                     string // of req without Identities and Params, of metadata without sys
	}{
		{"everything at once", "POST", "/api/orders/42?verbose=1&tag=a&tag=b&code=s3cret", "application/json", strings.NewReader(`{"qty":3,"list":[1]}`), map[string]any{"id": "42", "rest": nil},
			`{"Url":"http://localhost:7071/api/orders/42?verbose=1&tag=a&tag=b&code=s3cret","Method":"POST","Query":{"code":"s3cret","tag":"a,b","verbose":"1"},` +
				`"Headers":{"Content-Type":["application/json"],"Host":["localhost:7071"],"X-Custom":["1","2"]},"Params":{"id":"42","rest":null},"Body":"{\"qty\":3,\"list\":[1]}"}`,
			`{"Headers":{"Content-Type":"application/json","Host":"localhost:7071","X-Custom":"1,2"},"Query":{"code":"s3cret","tag":"b","verbose":"1"},` +
				`"id":"\"42\"","qty":"\"3\"","sys":…,"tag":"\"b\"","verbose":"\"1\""}`},
		{"no body, no parameters, an escaped path", "GET", "/api/a%20b%3Fc?T=1&t=2", "", nil, nil,
			`{"Url":"http://localhost:7071/api/a%20b%3Fc?T=1&t=2","Method":"GET","Query":{"T":"1,2"},"Headers":{"Host":["localhost:7071"],"X-Custom":["1","2"]},"Params":{}}`,
			`{"Headers":{"Host":"localhost:7071","X-Custom":"1,2"},"Query":{"t":"2"},"sys":…,"t":"\"2\""}`},
		{"a chunked body, which is lost", "POST", "/api/x", "", io.MultiReader(strings.NewReader("body")), nil,
			`{"Url":"http://localhost:7071/api/x","Method":"POST","Query":{},"Headers":{"Host":["localhost:7071"],"Transfer-Encoding":["chunked"],"X-Custom":["1","2"]},"Params":{}}`,
			`{"Headers":{"Host":"localhost:7071","Transfer-Encoding":"chunked","X-Custom":"1,2"},"Query":{},"sys":…}`},
		{"octets, which become base64", "PUT", "/api/x", "application/octet-stream", strings.NewReader("\xff\x00\x01"), map[string]any{"n": 7},
			`{"Url":"http://localhost:7071/api/x","Method":"PUT","Query":{},"Headers":{"Content-Type":["application/octet-stream"],"Host":["localhost:7071"],"X-Custom":["1","2"]},"Params":{"n":7},"Body":"/wAB"}`,
			`{"Headers":{"Content-Type":"application/octet-stream","Host":"localhost:7071","X-Custom":"1,2"},"Query":{},"n":"\"7\"","sys":…}`},
		{"another binary type, which is damaged", "PUT", "/api/x", "image/png", strings.NewReader("\xff{"), nil,
			`{"Url":"http://localhost:7071/api/x","Method":"PUT","Query":{},"Headers":{"Content-Type":["image/png"],"Host":["localhost:7071"],"X-Custom":["1","2"]},"Params":{},"Body":"\ufffd{"}`,
			`{"Headers":{"Content-Type":"image/png","Host":"localhost:7071","X-Custom":"1,2"},"Query":{},"sys":…}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := httptest.NewRequest(tt.method, tt.target, tt.body)
			r.Host = "localhost:7071"
			r.Header["X-Custom"] = []string{"1", "2"}
			if tt.contentType != "" {
				r.Header.Set("Content-Type", tt.contentType)
			}
			if r.ContentLength < 0 {
				r.TransferEncoding = []string{"chunked"}
			}
			e, err := Trigger{Function: "work", Binding: "req"}.HTTP(r, tt.params)
			if err != nil {
				t.Fatal(err)
			}
			want := `{"Data":{"req":` + tt.req + `},"Metadata":` + tt.metadata + `}`
			if got := strings.Replace(wire(e), `,"Identities":`+nobody, "", 1); got != want {
				t.Errorf("envelope:\n got %s\nwant %s", got, want)
			}
		})
	}
}

// nobody is the identity of a caller without a key, as the host writes it.
const nobody = `[{"AuthenticationType":null,"IsAuthenticated":false,"Actor":null,"BootstrapContext":null,` +
	`"Claims":[],"Label":null,"Name":null,` +
	`"NameClaimType":"http://schemas.xmlsoap.org/ws/2005/05/identity/claims/name",` +
	`"RoleClaimType":"http://schemas.microsoft.com/ws/2008/06/identity/claims/role"}]`
