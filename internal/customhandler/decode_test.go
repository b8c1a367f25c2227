package customhandler

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// envelope reads an envelope for a test.
func envelope(t *testing.T, text string) Envelope {
	t.Helper()
	e, err := decodeEnvelope([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestDecodeQueueText(t *testing.T) {
	tests := []struct{ name, data, want string }{
		// The host's own form: JSON in a JSON string.
		{"object", `"\"{\\\"id\\\":7}\""`, `{"id":7}`},
		{"plain text", `"\"hello\""`, "hello"},
		{"empty", `"\"\""`, ""},
		{"quoted", `"\"\\\"quoted\\\"\""`, `"quoted"`},
		{"unicode, signs and newlines", `"\"\\u00fc \\ud83d\\ude00 <&>\\r\\n\\t\""`, "ü 😀 <&>\r\n\t"},
		{"array", `"\"[1,2]\""`, "[1,2]"},
		{"number", `"\"7\""`, "7"},
		{"looks like JSON, is not", `"\"{oops\""`, "{oops"},
		{"blanks around", `"\" \\\"a\\\" \""`, ` "a" `},
		// Other hosts and clients.
		{"encoded once", `"hello"`, "hello"},
		{"object encoded once", `"{\"id\":7}"`, `{"id":7}`},
		{"object as it is", `{"id":7}`, `{"id":7}`},
		{"array as it is", `[1,2]`, `[1,2]`},
		{"number as it is", `7`, `7`},
		{"one quote", `"\""`, `"`},
		{"quotes that do not match", `"\"a\"b\""`, `"a"b"`},
		{"empty string", `""`, ""},
		{"null", `null`, ""},
		{"binary stays base64", `"aGVsbG8="`, "aGVsbG8="},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, binding := range []string{"msg", "MSG"} { // the host's tables ignore case
				m, err := decodeQueue(envelope(t, `{"Data":{"`+binding+`":`+tt.data+`}}`), "msg")
				if err != nil || m.Text != tt.want {
					t.Errorf("Text = %q, %v, want %q", m.Text, err, tt.want)
				}
			}
		})
	}
}

func TestDecodeQueueMetadata(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	tests := []struct {
		name, metadata string
		want           QueueMessage
	}{
		{"as the host sends it", `{"DequeueCount":"1","ExpirationTime":"2026-01-02T03:04:05+00:00","Id":"\"id\"","InsertionTime":"2026-01-02T05:04:05+02:00",
			"NextVisibleTime":"2026-01-02T03:04:05+00:00","PopReceipt":"\"AgAA==\"","sys":{"MethodName":"worker"}}`,
			QueueMessage{ID: "id", PopReceipt: "AgAA==", DequeueCount: 1, Expires: at, Inserted: at, NextVisible: at}},
		{"as the documentation prints it", `{"DequeueCount":1,"ExpirationTime":"2026-01-02T03:04:05","Id":"id","InsertionTime":"2026-01-02T03:04:05Z","PopReceipt":"AgAA=="}`,
			QueueMessage{ID: "id", PopReceipt: "AgAA==", DequeueCount: 1, Expires: at, Inserted: at}},
		{"encoded once more", `{"DequeueCount":"\"3\""}`, QueueMessage{DequeueCount: 3}},
		{"names in another case", `{"dequeuecount":"2","ID":"\"id\""}`, QueueMessage{DequeueCount: 2, ID: "id"}},
		{"never", `{"InsertionTime":"0001-01-01T00:00:00+00:00","ExpirationTime":"0001-01-01T00:00:00","NextVisibleTime":"0001-01-01T00:00:00+01:00"}`, QueueMessage{}},
		{"senseless", `{"DequeueCount":"often","ExpirationTime":"soon","Id":null,"InsertionTime":7,"PopReceipt":null}`, QueueMessage{}},
		{"numbers too large", `{"DequeueCount":1e40}`, QueueMessage{}},
		{"unknown objects", `{"Client":{"a":{"b":[1,{"c":null}]}},"RetryContext":{"RetryCount":1},"x":[[]],"Id":"\"id\""}`, QueueMessage{ID: "id"}},
		{"shadowed by the payload", `{"DequeueCount":"\"99\"","Id":"\"7\"","sys":"\"mine\"","$sys":{}}`, QueueMessage{DequeueCount: 99, ID: "7"}},
		{"an administrator's run", `{"msg":"\"hello\"","sys":{}}`, QueueMessage{}},
		{"empty", `{}`, QueueMessage{}},
		{"null", `null`, QueueMessage{}},
		{"of another type", `"none"`, QueueMessage{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := decodeQueue(envelope(t, `{"Data":{"msg":"\"hello\""},"Metadata":`+tt.metadata+`}`), "msg")
			if err != nil {
				t.Fatal(err)
			}
			tt.want.Text = "hello"
			if diff := cmp.Diff(tt.want, got, cmpopts.IgnoreFields(QueueMessage{}, "Metadata")); diff != "" {
				t.Errorf("message (-want +got):\n%s", diff)
			}
		})
	}
	t.Run("missing", func(t *testing.T) {
		if got, err := decodeQueue(envelope(t, `{"Data":{"msg":"\"hello\""},"More":[1]}`), "msg"); err != nil || got.Text != "hello" {
			t.Errorf("message without metadata = %+v, %v", got, err)
		}
	})
}

func TestMetadataText(t *testing.T) {
	md := Metadata{"a": json.RawMessage(`"\"x\""`), "A": json.RawMessage(`"y"`), "o": json.RawMessage(`{"k":1}`), "n": json.RawMessage(`null`)}
	for name, want := range map[string]string{"a": "x", "A": "y", "o": `{"k":1}`, "O": `{"k":1}`, "n": "", "none": ""} {
		if got := md.Text(name); got != want {
			t.Errorf("Text(%q) = %q, want %q", name, got, want)
		}
	}
}

func TestDecodeTimer(t *testing.T) {
	last := time.Date(2026, 1, 2, 3, 0, 0, 12345600, time.UTC)
	next := time.Date(2026, 1, 2, 3, 5, 0, 0, time.UTC)
	tests := []struct {
		name, data string
		want       Tick
	}{
		{"as the host sends it", `{"Schedule":{"AdjustForDST":true},"ScheduleStatus":{"Last":"2026-01-02T03:00:00.0123456+00:00","Next":"2026-01-02T04:05:00+01:00","LastUpdated":"2026-01-02T03:00:00.0123456+00:00"},"IsPastDue":false}`,
			Tick{AdjustForDST: true, Schedule: &ScheduleStatus{last, next, last}}},
		{"not monitored", `{"Schedule":{"AdjustForDST":false},"ScheduleStatus":null,"IsPastDue":false}`, Tick{}},
		{"past due", `{"Schedule":{"AdjustForDST":true},"ScheduleStatus":null,"IsPastDue":true}`, Tick{PastDue: true, AdjustForDST: true}},
		{"never run", `{"ScheduleStatus":{"Last":"0001-01-01T00:00:00+00:00","Next":"2026-01-02T03:05:00+00:00","LastUpdated":"0001-01-01T00:00:00"}}`,
			Tick{Schedule: &ScheduleStatus{Next: next}}},
		{"never run, by a clock east of Greenwich", `{"ScheduleStatus":{"Last":"0001-01-01T00:00:00+01:00"}}`, Tick{Schedule: &ScheduleStatus{}}},
		{"never run, by a clock west of Greenwich", `{"ScheduleStatus":{"Last":"0001-01-01T00:00:00-01:00"}}`, Tick{Schedule: &ScheduleStatus{}}},
		{"senseless times", `{"ScheduleStatus":{"Last":7,"Next":"soon","LastUpdated":null},"IsPastDue":true}`, Tick{PastDue: true, Schedule: &ScheduleStatus{}}},
		{"senseless parts", `{"Schedule":"daily","ScheduleStatus":[],"IsPastDue":true}`, Tick{PastDue: true}},
		{"words for booleans", `{"IsPastDue":"True"}`, Tick{PastDue: true}},
		{"names in another case", `{"isPastDue":true}`, Tick{PastDue: true}},
		{"as text", `"{\"IsPastDue\":true}"`, Tick{PastDue: true}},
		{"an administrator's text", `"\"\""`, Tick{}},
		{"null", `null`, Tick{}},
		{"empty", `{}`, Tick{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := decodeTimer(envelope(t, `{"Data":{"tick":`+tt.data+`},"Metadata":{"tick":"\"\"","sys":{}}}`), "tick")
			if diff := cmp.Diff(tt.want, got, cmpopts.IgnoreFields(Tick{}, "Metadata")); diff != "" {
				t.Errorf("tick (-want +got):\n%s", diff)
			}
			if got.Metadata == nil {
				t.Error("metadata is lost")
			}
		})
	}
}

func TestDecodeServiceBus(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	e := envelope(t, `{"Data":{"msg":"\"{\\\"orderId\\\":7}\""},"Metadata":{
		"MessageReceiver":{},"MessageActions":"{\"x\":1}","Client":{"FullyQualifiedNamespace":"n","deep":[[{}]]},
		"DeliveryCount":"2","SequenceNumber":"9007199254740993","LockToken":"\"lock\"","MessageId":"\"m-1\"",
		"ExpiresAtUtc":"2026-01-02T03:04:05","EnqueuedTime":"2026-01-02T04:04:05+01:00","EnqueuedTimeUtc":"2026-01-02T03:04:05",
		"ContentType":"\"application/json\"","CorrelationId":"\"c\"","Label":"\"s\"","To":"\"t\"","ReplyTo":"\"r\"","SessionId":"\"se\"",
		"ReplyToSessionId":"\"rs\"","PartitionKey":"\"p\"","DeadLetterSource":"\"d\"",
		"ApplicationProperties":{"k":"v","n":9007199254740993},"UserProperties":{"k":"v"},"orderId":"\"7\"","sys":{}}}`)
	want := ServiceBusMessage{Text: `{"orderId":7}`, MessageID: "m-1", SequenceNumber: 9007199254740993, DeliveryCount: 2, LockToken: "lock",
		ContentType: "application/json", CorrelationID: "c", Subject: "s", To: "t", ReplyTo: "r", ReplyToSessionID: "rs", SessionID: "se",
		PartitionKey: "p", DeadLetterSource: "d", Enqueued: at, Expires: at,
		Properties: map[string]any{"k": "v", "n": json.Number("9007199254740993")}, Metadata: e.Metadata}
	got, err := decodeServiceBus(e, "msg")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("message (-want +got):\n%s", diff)
	}
}

func TestDecodeServiceBusBatch(t *testing.T) {
	tests := []struct {
		name, data string
		want       []string // nil: an error
	}{
		{"objects", `"[{\"orderId\":7},{\"orderId\":8}]"`, []string{`{"orderId":7}`, `{"orderId":8}`}},
		{"texts", `"[\"hello\",\"{\\\"a\\\":1}\",\"\"]"`, []string{"hello", `{"a":1}`, ""}},
		{"an array as it is", `[{"a":1},"b",null,7]`, []string{`{"a":1}`, "b", "", "7"}},
		{"encoded once more", `"\"[1,2]\""`, []string{"1", "2"}},
		{"none", `"[]"`, []string{}},
		{"one message instead", `"\"hello\""`, nil},
		{"an object instead", `{"a":1}`, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			ms, err := decodeServiceBusBatch(envelope(t, `{"Data":{"msgs":`+tt.data+`}}`), "msgs")
			if (err != nil) != (tt.want == nil) {
				t.Fatalf("error = %v, want texts %q", err, tt.want)
			}
			if tt.want == nil {
				return
			}
			got := []string{}
			for _, m := range ms {
				got = append(got, m.Text)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("texts (-want +got):\n%s", diff)
			}
		})
	}

	e := envelope(t, `{"Data":{"msgs":"[1,2]"},"Metadata":{"MessageIdArray":"[\"a\",\"b\"]","DeliveryCountArray":"[1,2]","SubjectArray":["x",null],
		"EnqueuedTimeUtcArray":"[\"2026-01-02T03:04:05Z\",\"2026-01-02T03:04:06Z\"]","ApplicationPropertiesArray":[{"k":"v"},{}],
		"SessionIdArray":"[\"of three\",\"\",\"\"]","LockTokenArray":"none","sys":{}}}`)
	got, err := decodeServiceBusBatch(e, "msgs")
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	want := []ServiceBusMessage{
		{Text: "1", MessageID: "a", DeliveryCount: 1, Subject: "x", Enqueued: at, Properties: map[string]any{"k": "v"}, Metadata: e.Metadata},
		{Text: "2", MessageID: "b", DeliveryCount: 2, Enqueued: at.Add(time.Second), Metadata: e.Metadata},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("messages (-want +got):\n%s", diff)
	}
}
