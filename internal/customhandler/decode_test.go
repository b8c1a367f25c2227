package customhandler

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// envelope reads an envelope for a test.
func envelope(t *testing.T, text string) Envelope {
	t.Helper()
	e, err := decodeEnvelope([]byte(text), true)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestDecodeQueueText(t *testing.T) {
	tests := []struct{ name, data, want string }{
		// The host's form: JSON in a JSON string.
		{"object", `"\"{\\\"id\\\":7}\""`, `{"id":7}`},
		{"plain text", `"\"hello\""`, "hello"},
		{"empty", `"\"\""`, ""},
		{"quoted", `"\"\\\"quoted\\\"\""`, `"quoted"`},
		{"unicode, signs and newlines", `"\"\\u00fc \\ud83d\\ude00 <&>\\r\\n\\t\""`, "ü 😀 <&>\r\n\t"},
		{"array", `"\"[1,2]\""`, "[1,2]"},
		{"number", `"\"7\""`, "7"},
		{"looks like JSON but is not", `"\"{oops\""`, "{oops"},
		{"blanks around quotes", `"\" \\\"a\\\" \""`, ` "a" `},
		// The forms of other hosts and clients.
		{"encoded once", `"hello"`, "hello"},
		{"object encoded once", `"{\"id\":7}"`, `{"id":7}`},
		{"object not encoded", `{"id":7}`, `{"id":7}`},
		{"one quote", `"\""`, `"`},
		{"quotes that do not match", `"\"a\"b\""`, `"a"b"`},
		{"null", `null`, ""},
		{"binary stays base64", `"aGVsbG8="`, "aGVsbG8="},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, binding := range []string{"msg", "MSG"} { // the host ignores case
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
		{"from the host", `{"DequeueCount":"1","ExpirationTime":"2026-01-02T03:04:05+00:00","Id":"\"id\"","InsertionTime":"2026-01-02T05:04:05+02:00",
			"NextVisibleTime":"2026-01-02T03:04:05+00:00","PopReceipt":"\"AgAA==\"","sys":{"MethodName":"worker"}}`,
			QueueMessage{ID: "id", PopReceipt: "AgAA==", DequeueCount: 1, Expires: at, Inserted: at, NextVisible: at}},
		{"from the documentation", `{"DequeueCount":1,"ExpirationTime":"2026-01-02T03:04:05","Id":"id","InsertionTime":"2026-01-02T03:04:05Z","PopReceipt":"AgAA=="}`,
			QueueMessage{ID: "id", PopReceipt: "AgAA==", DequeueCount: 1, Expires: at, Inserted: at}},
		{"encoded once more", `{"DequeueCount":"\"3\""}`, QueueMessage{DequeueCount: 3}},
		{"names in another case", `{"dequeuecount":"2","ID":"\"id\""}`, QueueMessage{DequeueCount: 2, ID: "id"}},
		{"never", `{"InsertionTime":"0001-01-01T00:00:00+00:00","ExpirationTime":"0001-01-01T00:00:00","NextVisibleTime":"0001-01-01T00:00:00+01:00"}`, QueueMessage{}},
		{"values of other types", `{"DequeueCount":"often","ExpirationTime":"soon","Id":null,"InsertionTime":7,"PopReceipt":null}`, QueueMessage{}},
		{"numbers too large", `{"DequeueCount":1e40}`, QueueMessage{}},
		{"unknown objects", `{"Client":{"a":{"b":[1,{"c":null}]}},"RetryContext":{"RetryCount":1},"x":[[]],"Id":"\"id\""}`, QueueMessage{ID: "id"}},
		{"replaced by the payload", `{"DequeueCount":"\"99\"","Id":"\"7\"","sys":"\"mine\"","$sys":{}}`, QueueMessage{DequeueCount: 99, ID: "7"}},
		{"run by an administrator", `{"msg":"\"hello\"","sys":{}}`, QueueMessage{}},
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
}

func TestDecodeTimer(t *testing.T) {
	last := time.Date(2026, 1, 2, 3, 0, 0, 12345600, time.UTC)
	next := time.Date(2026, 1, 2, 3, 5, 0, 0, time.UTC)
	tests := []struct {
		name, data string
		want       Tick
	}{
		{"from the host", `{"Schedule":{"AdjustForDST":true},"ScheduleStatus":{"Last":"2026-01-02T03:00:00.0123456+00:00","Next":"2026-01-02T04:05:00+01:00","LastUpdated":"2026-01-02T03:00:00.0123456+00:00"},"IsPastDue":false}`,
			Tick{AdjustForDST: true, Schedule: &ScheduleStatus{last, next, last}}},
		{"past due, not monitored", `{"Schedule":{"AdjustForDST":true},"ScheduleStatus":null,"IsPastDue":true}`, Tick{PastDue: true, AdjustForDST: true}},
		{"never run", `{"ScheduleStatus":{"Last":"0001-01-01T00:00:00+01:00","Next":"2026-01-02T03:05:00+00:00","LastUpdated":"0001-01-01T00:00:00-01:00"}}`,
			Tick{Schedule: &ScheduleStatus{Next: next}}},
		{"times of other types", `{"ScheduleStatus":{"Last":7,"Next":"soon","LastUpdated":null},"IsPastDue":true}`, Tick{PastDue: true, Schedule: &ScheduleStatus{}}},
		{"parts of other types", `{"Schedule":"daily","ScheduleStatus":[],"IsPastDue":true}`, Tick{PastDue: true}},
		{"a boolean as text", `{"IsPastDue":"True"}`, Tick{PastDue: true}},
		{"names in another case", `{"isPastDue":true}`, Tick{PastDue: true}},
		{"as text", `"{\"IsPastDue\":true}"`, Tick{PastDue: true}},
		{"text of an administrator", `"\"\""`, Tick{}},
		{"null", `null`, Tick{}},
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
