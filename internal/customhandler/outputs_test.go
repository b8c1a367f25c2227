package customhandler

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestJudge is the table of how the host judges an answer.
func TestJudge(t *testing.T) {
	const typed = "application/json"
	tests := []struct {
		name        string
		status      int
		contentType string
		body        string
		want        error
	}{
		{"object", 200, typed, `{}`, nil},
		{"object with charset", 200, "application/json; charset=utf-8", `{"Outputs":{}}`, nil},
		{"type in another case", 200, "Application/JSON", `{}`, nil},
		{"text/json", 202, "text/json", `{}`, nil},
		{"blanks around", 299, typed, " {} \n", nil},
		{"names in another case", 200, typed, `{"outputs":{},"LOGS":["a"],"returnvalue":1}`, nil},
		{"unknown names", 200, typed, `{"x":[1]}`, nil},
		{"nulls", 200, typed, `{"Outputs":null,"Logs":null,"ReturnValue":null}`, nil},
		{"scalars in Logs", 200, typed, `{"Logs":["a",1,true,null]}`, nil},

		{"not found", 404, typed, `{}`, ErrStatus},
		{"server error without a body", 500, "", ``, ErrStatus},
		{"redirect", 302, typed, `{}`, ErrStatus},
		{"below 200", 199, typed, `{}`, ErrStatus},

		{"no type", 200, "", `{}`, ErrContentType},
		{"sniffed type", 200, "text/plain; charset=utf-8", `{}`, ErrContentType},
		{"kind of JSON", 200, "application/problem+json", `{}`, ErrContentType},
		{"no type at all", 200, "garbage/", `{}`, ErrContentType},
		{"null that is not declared", 200, "text/plain", `null`, ErrContentType},

		{"cut off", 200, typed, `{"Outputs":`, ErrMalformed},
		{"text", 200, typed, `hello`, ErrMalformed},
		{"array", 200, typed, `[]`, ErrMalformed},
		{"string", 200, typed, `"{}"`, ErrMalformed},
		{"number", 200, typed, `1`, ErrMalformed},
		{"object in Logs", 200, typed, `{"Logs":["a",{"b":1}]}`, ErrMalformed},
		{"array in Logs", 200, typed, `{"Logs":[[]]}`, ErrMalformed},
		{"Logs of another type", 200, typed, `{"Logs":"a"}`, ErrMalformed},
		{"Outputs of another type", 200, typed, `{"Outputs":["a"]}`, ErrMalformed},

		{"empty", 200, typed, ``, ErrHang},
		{"empty without a type", 200, "", ``, ErrHang},
		{"empty with another type", 204, "text/plain", ``, ErrHang},
		{"blanks", 200, typed, " \r\n\t", ErrHang},
		{"null", 200, typed, ` null `, ErrHang},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := judge("worker", tt.status, tt.contentType, []byte(tt.body))
			if !errors.Is(err, tt.want) {
				t.Errorf("judge = %v, want %v", err, tt.want)
			}
			if refused, ok := errors.AsType[*AnswerError](err); ok != (tt.want != nil) || ok && (refused.Function != "worker" || refused.Status != tt.status || refused.Body != tt.body) {
				t.Errorf("error = %+v, want what was judged", refused)
			}
			if tt.want == ErrHang && !strings.Contains(err.Error(), "functionTimeout") {
				t.Errorf("error = %q, want what the real host would do", err)
			}
		})
	}

	got, err := judge("worker", 200, typed, []byte(`{"outputs":{"res":1},"logs":["a",1,null],"ReturnValue":"x"}`))
	want := Answer{Outputs: map[string]json.RawMessage{"res": json.RawMessage("1")}, Logs: []string{"a", "1", ""}, ReturnValue: json.RawMessage(`"x"`)}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("answer (-want +got): %v\n%s", err, diff)
	}
}

// answer reads an answer for a test.
func answer(t *testing.T, text string) Answer {
	t.Helper()
	a, err := judge("f", 200, "application/json", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestAnswerHTTP(t *testing.T) {
	tests := []struct {
		name, answer, binding string
		status                int // 0: an error, which is 500 with an empty body
		header                string
		body                  string
	}{
		{"whole", `{"Outputs":{"res":{"statusCode":201,"headers":{"Content-Type":"application/json","X-N":7,"X-B":true},"body":"{}"}}}`, "res", 201, "application/json 7 True", "{}"},
		{"text by default", `{"Outputs":{"res":{"body":"hi"}}}`, "res", 200, "text/plain; charset=utf-8", "hi"},
		{"as a string", `{"Outputs":{"res":"{\"statusCode\":\"404\",\"body\":\"no\"}"}}`, "res", 404, "text/plain; charset=utf-8", "no"},
		{"names in another case", `{"Outputs":{"res":{"STATUSCODE":201,"Headers":{"content-type":"a/b"},"Body":"x"}}}`, "res", 201, "a/b", "x"},
		{"status is ignored", `{"Outputs":{"res":{"status":404,"body":"x"}}}`, "res", 200, "text/plain; charset=utf-8", "x"},
		{"statusCode that is no number", `{"Outputs":{"res":{"statusCode":"created"}}}`, "res", 200, "text/plain; charset=utf-8", ""},
		{"statusCode null", `{"Outputs":{"res":{"statusCode":null}}}`, "res", 200, "text/plain; charset=utf-8", ""},
		{"statusCode out of range", `{"Outputs":{"res":{"statusCode":42}}}`, "res", 0, "", ""},
		{"base64 is not decoded", `{"Outputs":{"res":{"body":"aGVsbG8="}}}`, "res", 200, "text/plain; charset=utf-8", "aGVsbG8="},
		{"object body", `{"Outputs":{"res":{"body":{"a":[1,{}]}}}}`, "res", 200, "text/plain; charset=utf-8", "{\n  \"a\": [\n    1,\n    {}\n  ]\n}"},
		{"number body", `{"Outputs":{"res":{"body":1.50}}}`, "res", 200, "text/plain; charset=utf-8", "1.5"},
		{"boolean body", `{"Outputs":{"res":{"body":true}}}`, "res", 200, "text/plain; charset=utf-8", "True"},
		{"null body", `{"Outputs":{"res":{"statusCode":204,"body":null}}}`, "res", 204, "text/plain; charset=utf-8", ""},
		{"no body", `{"Outputs":{"res":{"statusCode":202}}}`, "res", 202, "text/plain; charset=utf-8", ""},
		{"null header", `{"Outputs":{"res":{"headers":{"X-A":null}}}}`, "res", 0, "", ""},
		{"array header", `{"Outputs":{"res":{"headers":{"X-A":["1","2"]}}}}`, "res", 0, "", ""},
		{"headers null", `{"Outputs":{"res":{"headers":null,"body":"x"}}}`, "res", 200, "text/plain; charset=utf-8", "x"},
		{"headers of another type", `{"Outputs":{"res":{"headers":["X"]}}}`, "res", 0, "", ""},
		{"null", `{"Outputs":{"res":null}}`, "res", 0, "", ""},
		{"number", `{"Outputs":{"res":7}}`, "res", 0, "", ""},
		{"plain text", `{"Outputs":{"res":"hello"}}`, "res", 0, "", ""},
		{"array", `{"Outputs":{"res":[]}}`, "res", 0, "", ""},
		{"without this output", `{"Outputs":{"Res":{"body":"exact case"}}}`, "res", 200, "text/plain; charset=utf-8", "{}"},
		{"without outputs", `{}`, "res", 200, "text/plain; charset=utf-8", ""},
		{"outputs null", `{"Outputs":null}`, "res", 200, "text/plain; charset=utf-8", ""},
		{"a returned object is merged", `{"ReturnValue":{"res":{"body":"x"}}}`, "res", 200, "text/plain; charset=utf-8", "x"},

		{"$return: object with a body", `{"ReturnValue":{"status":404,"body":"x"}}`, "$return", 404, "text/plain; charset=utf-8", "x"},
		{"$return: object without a body", `{"ReturnValue":{"a":1}}`, "$return", 200, "text/plain; charset=utf-8", "{\n  \"a\": 1\n}"},
		{"$return: text", `{"ReturnValue":"hello"}`, "$return", 200, "text/plain; charset=utf-8", "hello"},
		{"$return: text that looks like base64", `{"ReturnValue":"test"}`, "$return", 200, "text/plain; charset=utf-8", "\xb5\xeb-"},
		{"$return: nothing", `{}`, "$return", 200, "text/plain; charset=utf-8", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := answer(t, tt.answer).HTTP(tt.binding)
			if (err != nil) != (tt.status == 0) {
				t.Fatalf("HTTP = %+v, %v", got, err)
			}
			header := strings.Join([]string{got.Header.Get("Content-Type"), got.Header.Get("X-N"), got.Header.Get("X-B")}, " ")
			if got.Status != tt.status || strings.TrimSpace(header) != tt.header || string(got.Body) != tt.body {
				t.Errorf("HTTP = %d %q %q, want %d %q %q", got.Status, header, got.Body, tt.status, tt.header, tt.body)
			}
		})
	}
}

func TestMessages(t *testing.T) {
	tests := []struct {
		name, value string
		out         Output
		want        []string // nil: nothing is sent
		fails       bool
	}{
		{"null", `null`, Output{}, nil, false},
		{"base64 is decoded", `"aGVsbG8="`, Output{}, []string{"hello"}, false},
		{"base64 by accident", `"test"`, Output{}, []string{"\xb5\xeb-"}, false},
		{"base64 by accident, with blanks", `"test data here"`, Output{}, []string{"\xb5\xeb-u\xabZ\x85\xea\xde"}, false},
		{"base64 by accident, on Service Bus", `"test"`, Output{Type: "serviceBus"}, []string{"System.Byte[]"}, false},
		{"empty text is base64", `""`, Output{}, []string{""}, false},
		{"binary is left alone", `"test"`, Output{DataType: "binary"}, []string{"test"}, false},
		{"not base64", `"hello"`, Output{}, []string{"hello"}, false},
		{"wrong padding", `"a=bc"`, Output{}, []string{"a=bc"}, false},
		{"object as text is indented", `"{\"a\":1}"`, Output{}, []string{"{\n  \"a\": 1\n}"}, false},
		{"array as text is split", `" [\"x\",{\"a\":1}] "`, Output{}, []string{"x", "{\n  \"a\": 1\n}"}, false},
		{"looks like an object and is not", `"{oops}"`, Output{}, nil, true},
		{"looks like an array and is not", `"[oops]"`, Output{}, nil, true},
		{"only begins like one", `"{oops"`, Output{}, []string{"{oops"}, false},
		{"object", `{"a":1}`, Output{}, []string{"{\n  \"a\": 1\n}"}, false},
		{"number", `1.0`, Output{}, []string{"1"}, false},
		{"boolean", `true`, Output{}, []string{"True"}, false},
		{"array of texts is exact", `["test","abcd1234","{\"a\":1}","[1]","{\"at\":\"2026-01-02T03:04:05Z\"}","","null"]`, Output{},
			[]string{"test", "abcd1234", `{"a":1}`, "[1]", `{"at":"2026-01-02T03:04:05Z"}`, "", "null"}, false},
		{"array of texts on Service Bus is exact", `["test"]`, Output{Type: "serviceBus"}, []string{"test"}, false},
		{"array of others", `[null,7,false,{"a":1},[1]]`, Output{}, []string{"", "7", "False", "{\n  \"a\": 1\n}", "[\n  1\n]"}, false},
		{"empty array", `[]`, Output{}, nil, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.out.Name = "outq"
			messages, err := answer(t, `{"Outputs":{"outq":`+tt.value+`,"other":"x"}}`).Messages(tt.out)
			if (err != nil) != tt.fails {
				t.Fatalf("Messages = %q, %v", messages, err)
			}
			var got []string
			for _, m := range messages {
				got = append(got, string(m))
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("messages (-want +got):\n%s", diff)
			}
		})
	}
	for text, out := range map[string]string{`{}`: "outq", `{"Outputs":{"OUTQ":["x"]}}`: "outq", `{"Outputs":null}`: "outq"} {
		if got, err := answer(t, text).Messages(Output{Name: out}); err != nil || got != nil {
			t.Errorf("Messages of %s = %q, %v, want none", text, got, err)
		}
	}
	if got, err := answer(t, `{"ReturnValue":["x"]}`).Messages(Output{Name: "$return"}); err != nil || len(got) != 1 || string(got[0]) != "x" {
		t.Errorf("Messages of $return = %q, %v, want x", got, err)
	}
}
