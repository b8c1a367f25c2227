package customhandler

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestJudge states how the host judges an answer.
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
		{"unknown names", 200, typed, `{"x":[1]}`, nil},
		{"nulls", 200, typed, `{"Outputs":null,"Logs":null,"ReturnValue":null}`, nil},

		{"not found", 404, typed, `{}`, ErrStatus},
		{"server error without a body", 500, "", ``, ErrStatus},
		{"redirect", 302, typed, `{}`, ErrStatus},
		{"below 200", 199, typed, `{}`, ErrStatus},

		{"no type", 200, "", `{}`, ErrContentType},
		{"sniffed type", 200, "text/plain; charset=utf-8", `{}`, ErrContentType},
		{"kind of JSON", 200, "application/problem+json", `{}`, ErrContentType},
		{"invalid type", 200, "garbage/", `{}`, ErrContentType},
		{"undeclared null", 200, "text/plain", `null`, ErrContentType},

		{"cut off", 200, typed, `{"Outputs":`, ErrMalformed},
		{"text", 200, typed, `hello`, ErrMalformed},
		{"array", 200, typed, `[]`, ErrMalformed},
		{"string", 200, typed, `"{}"`, ErrMalformed},
		{"object in Logs", 200, typed, `{"Logs":["a",{"b":1}]}`, ErrMalformed},
		{"array in Logs", 200, typed, `{"Logs":[[]]}`, ErrMalformed},
		{"Logs of another type", 200, typed, `{"Logs":"a"}`, ErrMalformed},
		{"Outputs of another type", 200, typed, `{"Outputs":["a"]}`, ErrMalformed},
		{"ReturnValue, which is not supported", 200, typed, `{"ReturnValue":"a"}`, ErrMalformed},

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
			if rejected, ok := errors.AsType[*AnswerError](err); ok != (tt.want != nil) || ok && (rejected.Function != "worker" || rejected.Status != tt.status || rejected.Body != tt.body) {
				t.Errorf("error = %+v, want the function, the status and the body", rejected)
			}
			if tt.want == ErrHang && !strings.Contains(err.Error(), "functionTimeout") {
				t.Errorf("error = %q, want what the real host would do", err)
			}
		})
	}

	got, err := judge("worker", 200, typed, []byte(`{"outputs":{"res":1},"LOGS":["a",1,true,null]}`))
	want := Answer{Outputs: map[string]json.RawMessage{"res": json.RawMessage("1")}, Logs: []string{"a", "1", "true", ""}}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("answer (-want +got): %v\n%s", err, diff)
	}
}

func TestAnswerHTTP(t *testing.T) {
	const plain = "text/plain; charset=utf-8"
	tests := []struct {
		name, outputs string
		status        int    // 0: an error, which the host answers with 500
		header        string // Content-Type, X-N and X-B
		body          string
	}{
		{"everything", `{"res":{"statusCode":201,"headers":{"Content-Type":"application/json","X-N":7,"X-B":true},"body":"{}"}}`, 201, "application/json; charset=utf-8 7 True", "{}"},
		{"text by default", `{"res":{"body":"hi"}}`, 200, plain, "hi"},
		{"as a string", `{"res":"{\"statusCode\":\"404\",\"body\":\"no\"}"}`, 404, plain, "no"},
		{"names in another case", `{"res":{"STATUSCODE":201,"Headers":{"content-type":"a/b"},"Body":"x"}}`, 201, "a/b; charset=utf-8", "x"},
		{"status is ignored", `{"res":{"status":404,"body":"x"}}`, 200, plain, "x"},
		{"statusCode is not a number", `{"res":{"statusCode":"created"}}`, 200, plain, ""},
		{"statusCode null", `{"res":{"statusCode":null}}`, 200, plain, ""},
		{"statusCode out of range", `{"res":{"statusCode":42}}`, 0, "", ""},
		{"base64 is not decoded", `{"res":{"body":"aGVsbG8="}}`, 200, plain, "aGVsbG8="},
		{"object body", `{"res":{"body":{"a":[1,{}]}}}`, 200, plain, "{\n  \"a\": [\n    1,\n    {}\n  ]\n}"},
		{"number body", `{"res":{"body":1.50}}`, 200, plain, "1.5"},
		{"null body", `{"res":{"statusCode":204,"body":null}}`, 204, plain, ""},
		{"no body", `{"res":{"statusCode":202}}`, 202, plain, ""},
		{"null header", `{"res":{"headers":{"X-A":null}}}`, 0, "", ""},
		{"array header", `{"res":{"headers":{"X-A":["1","2"]}}}`, 0, "", ""},
		{"headers null", `{"res":{"headers":null,"body":"x"}}`, 200, plain, "x"},
		{"headers of another type", `{"res":{"headers":["X"]}}`, 0, "", ""},
		{"null", `{"res":null}`, 0, "", ""},
		{"number", `{"res":7}`, 0, "", ""},
		{"plain text", `{"res":"hello"}`, 0, "", ""},
		{"array", `{"res":[]}`, 0, "", ""},
		{"name in another case", `{"Res":{"body":"x"}}`, 200, plain, "{}"},
		{"outputs null", `null`, 204, "", ""},
		{"no output", `{}`, 200, plain, "{}"},
		{"another charset", `{"res":{"headers":{"Content-Type":"text/html; charset=latin1"},"body":"x"}}`, 200, "text/html; charset=utf-8", "x"},
		{"a header in two spellings", `{"res":{"headers":{"x-n":1,"X-N":2,"X-n":3}}}`, 200, plain + " 1", ""},
		{"statusCode 201.0", `{"res":{"statusCode":201.0}}`, 200, plain, ""},
		{"statusCode in an array", `{"res":{"statusCode":[201]}}`, 0, "", ""},
		{"statusCode in an object", `{"res":{"statusCode":{}}}`, 0, "", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a, err := judge("f", 200, "application/json", []byte(`{"Outputs":`+tt.outputs+`}`))
			if err != nil {
				t.Fatal(err)
			}
			got, err := a.HTTP("res")
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
