package customhandler

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestDecodeHTTP: every shape in which hosts have told about an HTTP call.
func TestDecodeHTTP(t *testing.T) {
	type request struct {
		Method, Path, Query, Host string
		Header                    http.Header
		Length                    int64
		Body                      string
	}
	const start = `"Method":"POST","Url":"http://localhost:7071/api/orders/42?a=1&a=2"`
	whole := request{Method: "POST", Path: "/api/orders/42", Query: "a=1&a=2", Host: "localhost:7071", Header: http.Header{}}
	with := func(change func(*request)) request {
		r := whole
		change(&r)
		return r
	}
	tests := []struct {
		name, data string
		want       request
	}{
		{"no body, as after a chunked upload", `{` + start + `}`, whole},
		{"null body", `{` + start + `,"Body":null}`, whole},
		{"text body", `{` + start + `,"Body":"{\"qty\":3}"}`, with(func(r *request) { r.Length, r.Body = 9, `{"qty":3}` })},
		{"body as JSON", `{` + start + `,"Body":{"qty":3}}`, with(func(r *request) { r.Length, r.Body = 9, `{"qty":3}` })},
		{"text that looks like base64", `{` + start + `,"Body":"abcd"}`, with(func(r *request) { r.Length, r.Body = 4, "abcd" })},
		{"octets", `{` + start + `,"Headers":{"content-TYPE":["application/octet-stream"]},"Body":"/wAB"}`, with(func(r *request) {
			r.Header = http.Header{"Content-Type": {"application/octet-stream"}}
			r.Length, r.Body = 3, "\xff\x00\x01"
		})},
		{"a form with files", `{` + start + `,"Headers":{"Content-Type":["Multipart/Form-Data; boundary=x"]},"Body":"LS14"}`, with(func(r *request) {
			r.Header = http.Header{"Content-Type": {"Multipart/Form-Data; boundary=x"}}
			r.Length, r.Body = 3, "--x"
		})},
		{"headers", `{` + start + `,"Headers":{"x-custom":["1","2"],"X-ONE":"3","X-None":null,"Host":["example.org"],"Transfer-Encoding":["chunked"]}}`, with(func(r *request) {
			r.Host = "example.org"
			r.Header = http.Header{"X-Custom": {"1", "2"}, "X-One": {"3"}}
		})},
		{"headers of another type", `{` + start + `,"Headers":"none"}`, whole},
		{"parameters null", `{` + start + `,"Params":null}`, whole},
		{"parameters as numbers", `{` + start + `,"Params":{"id":42,"rest":null}}`, whole},
		{"parameters of another type", `{` + start + `,"Params":7}`, whole},
		{"identities of any shape", `{` + start + `,"Identities":"[]","More":{"x":[]}}`, whole},
		{"query in the URL and beside it", `{` + start + `,"Query":{"a":"1,2"}}`, whole},
		{"query beside the URL", `{"Method":"GET","Url":"http://h/api/x","Query":{"a":"1,2"}}`, request{Method: "GET", Path: "/api/x", Query: "a=1%2C2", Host: "h", Header: http.Header{}}},
		{"query as text", `{"Method":"GET","Url":"http://h/api/x","Query":"{\"a\":\"1\"}"}`, request{Method: "GET", Path: "/api/x", Query: "a=1", Host: "h", Header: http.Header{}}},
		{"query of another type", `{"Method":"GET","Url":"http://h/api/x","Query":[1]}`, request{Method: "GET", Path: "/api/x", Host: "h", Header: http.Header{}}},
		{"names in another case", `{"method":"GET","url":"http://h/api/x"}`, request{Method: "GET", Path: "/api/x", Host: "h", Header: http.Header{}}},
		{"a decoded path", `{"Method":"GET","Url":"http://h/api/ü %zz/50%?q=%20"}`, request{Method: "GET", Path: "/api/ü %zz/50%", Query: "q=%20", Host: "h", Header: http.Header{}}},
		{"a URL without host", `{"Method":"GET","Url":"/api/x"}`, request{Method: "GET", Path: "/api/x", Header: http.Header{}}},
		{"a URL without path", `{"Method":"GET","Url":"http://h?a=1"}`, request{Method: "GET", Path: "/", Query: "a=1", Host: "h", Header: http.Header{}}},
		{"the request as text", `"{\"Method\":\"GET\",\"Url\":\"http://h/api/x\"}"`, request{Method: "GET", Path: "/api/x", Host: "h", Header: http.Header{}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e, err := decodeEnvelope([]byte(`{"Data":{"req":` + tt.data + `}}`))
			if err != nil {
				t.Fatal(err)
			}
			r, err := decodeHTTP(e, "req")
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(r.Body)
			if err != nil {
				t.Fatal(err)
			}
			got := request{r.Method, r.URL.Path, r.URL.RawQuery, r.Host, r.Header, r.ContentLength, string(body)}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("request (-want +got):\n%s", diff)
			}
		})
	}

	for _, data := range []string{`{}`, `{"Method":"GET"}`, `{"Url":"http://h/"}`, `"hello"`, `[]`, `null`, `7`,
		`{` + start + `,"Headers":{"Content-Type":["application/octet-stream"]},"Body":"not base64"}`} {
		e, err := decodeEnvelope([]byte(`{"Data":{"req":` + data + `}}`))
		if err != nil {
			t.Fatal(err)
		}
		if r, err := decodeHTTP(e, "req"); err == nil {
			t.Errorf("decodeHTTP(%s) = %v, want an error", data, r)
		}
	}
}

// TestHTTPInEnvelope: what a handler writes, and what of it Outputs.res says.
func TestHTTPInEnvelope(t *testing.T) {
	app := New(&Options{Log: slog.New(slog.DiscardHandler), MaxBody: 20})
	handle := func(name, pattern string, f HandlerFunc) { app.HTTP("Orders", "req", f, pattern+name) }
	handle("value/{id}", "GET /api/", func(w http.ResponseWriter, r *http.Request) error {
		_, err := fmt.Fprintf(w, "%s %s %s %s", r.PathValue("id"), r.Pattern, r.URL.Query()["a"], r.RequestURI)
		return err
	})
	handle("echo", "POST /api/", func(w http.ResponseWriter, r *http.Request) error {
		if err := RequireBody(r); err != nil {
			return err
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		w.WriteHeader(http.StatusTeapot) // the first counts
		w.Header().Set("X-Late", "1")
		_, err := io.Copy(w, r.Body)
		return err
	})
	handle("headers", "GET /api/", func(w http.ResponseWriter, r *http.Request) error {
		w.WriteHeader(http.StatusEarlyHints)
		w.Header()["X-Many"] = []string{"1", "2"}
		w.Header()["X-Nil"] = nil
		w.Header()["Set-Cookie"] = []string{"a=1", "b=2"}
		w.Header().Set("Content-Length", "5")
		w.Header().Set("Connection", "close")
		_, err := io.WriteString(w, "<p>hi")
		return err
	})
	handle("empty", "GET /api/", func(w http.ResponseWriter, r *http.Request) error { return nil })
	handle("nocontent", "GET /api/", func(w http.ResponseWriter, r *http.Request) error {
		w.WriteHeader(http.StatusNoContent)
		_, _ = io.WriteString(w, "x")
		return nil
	})
	handle("binary", "GET /api/", func(w http.ResponseWriter, r *http.Request) error {
		_, err := w.Write([]byte{0xff, 0xfe})
		return err
	})
	handle("refusal", "GET /api/", func(w http.ResponseWriter, r *http.Request) error {
		return &Error{http.StatusConflict, "taken", "choose another"}
	})
	app.HTTP("Other", "req", http.NotFoundHandler(), "GET /api/other")

	json500 := map[string]string{"Cache-Control": "no-store", "Content-Type": "application/json"}
	tests := []struct {
		name, req string
		want      response
	}{
		{"path values", `"Method":"GET","Url":"http://h/api/value/a b?a=1&a=2"`,
			response{200, map[string]string{"Content-Type": "text/plain; charset=utf-8"}, "a b GET /api/value/{id} [1 2] /api/value/a%20b?a=1&a=2"}},
		{"the host ignores case and a last slash", `"Method":"GET","Url":"http://h/API/Value/X/"`,
			response{200, map[string]string{"Content-Type": "text/plain; charset=utf-8"}, "X GET /api/value/{id} [] /API/Value/X/"}},
		{"body, status and header", `"Method":"POST","Url":"http://h/api/echo","Body":"{\"a\":\"<&>\"}"`,
			response{201, map[string]string{"Content-Type": "application/json"}, `{"a":"<&>"}`}},
		{"body missing, as after a chunked upload", `"Method":"POST","Url":"http://h/api/echo"`,
			response{411, json500, `{"error":{"code":"length_required","message":"this needs a body, sent with a Content-Length; a chunked one is lost on the way through the Functions host"}}`}},
		{"body too large", `"Method":"POST","Url":"http://h/api/echo","Body":"` + strings.Repeat("x", 21) + `"`,
			response{413, json500, `{"error":{"code":"body_too_large","message":"the body is larger than the 20 bytes allowed here"}}`}},
		{"headers with one value each", `"Method":"GET","Url":"http://h/api/headers"`,
			response{200, map[string]string{"Content-Type": "text/html; charset=utf-8", "X-Many": "1, 2", "Set-Cookie": "a=1"}, "<p>hi"}},
		{"head", `"Method":"HEAD","Url":"http://h/api/headers"`,
			response{200, map[string]string{"X-Many": "1, 2", "Set-Cookie": "a=1"}, ""}},
		{"nothing written", `"Method":"GET","Url":"http://h/api/empty"`, response{200, nil, ""}},
		{"no content", `"Method":"GET","Url":"http://h/api/nocontent"`, response{204, nil, ""}},
		{"binary", `"Method":"GET","Url":"http://h/api/binary"`,
			response{500, json500, `{"error":{"code":"binary_answer","message":"the answer is binary and cannot be passed on"}}`}},
		{"refusal", `"Method":"GET","Url":"http://h/api/refusal"`,
			response{409, json500, `{"error":{"code":"taken","message":"choose another"}}`}},
		{"unknown route", `"Method":"GET","Url":"http://h/api/nowhere"`,
			response{404, json500, `{"error":{"code":"not_found","message":"there is nothing at this address"}}`}},
		{"route of another function", `"Method":"GET","Url":"http://h/api/other"`,
			response{404, json500, `{"error":{"code":"not_found","message":"there is nothing at this address"}}`}},
		{"wrong method", `"Method":"DELETE","Url":"http://h/api/echo"`,
			response{405, map[string]string{"Cache-Control": "no-store", "Content-Type": "application/json", "Allow": "POST"},
				`{"error":{"code":"method_not_allowed","message":"\"DELETE\" is not a method of this address; the Allow header has those that are"}}`}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := post(app, "/Orders", `{"Data":{"req":{`+tt.req+`}}}`)
			got := wantResponse(t, w)
			delete(got.Headers, "Content-Length")
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("Outputs.res (-want +got):\n%s", diff)
			}
			if strings.Contains(w.Body.String(), `"status"`) {
				t.Errorf("answer = %s: the host ignores status and wants statusCode", w.Body)
			}
		})
	}
}

const badJSON = "400 bad_json: the body is not the JSON expected here: "

func TestRequestHelpers(t *testing.T) {
	type order struct {
		ID  string `json:"id"`
		Qty int    `json:"qty"`
	}
	tests := []struct {
		name, contentType, body string
		want                    string // the code and a part of the message, or "" for success
	}{
		{"good", "application/json", `{"id":"a","qty":3}`, ""},
		{"good with charset", "Application/JSON; charset=utf-8", `{"id":"a","qty":3} `, ""},
		{"no body", "application/json", ``, "411 length_required"},
		{"another type", "text/plain", `{"id":"a"}`, "415 unsupported_media_type"},
		{"no type", "", `{"id":"a"}`, "415 unsupported_media_type"},
		{"too large", "application/json", `{"id":"` + strings.Repeat("x", 100) + `"}`, "413 body_too_large"},
		{"too large after the value", "application/json", `{"id":"a"}` + strings.Repeat(" ", 100), "413 body_too_large"},
		{"not JSON", "application/json", `{"id":a}`, "400 bad_json: the body is not the JSON expected here: invalid character 'a' looking for beginning of value (near byte 7)"},
		{"wrong type", "application/json", `{"qty":"3"}`, `400 bad_json: the body is not the JSON expected here: field "qty" is of the wrong kind: string instead of number (near byte 10)`},
		{"no object", "application/json", `[]`, `400 bad_json: the body is not the JSON expected here: it is of the wrong kind: array instead of object (near byte 1)`},
		{"misspelt", "application/json", `{"quantity":3}`, `400 bad_json: the body is not the JSON expected here: unknown field "quantity"`},
		{"two values", "application/json", `{"id":"a"} {}`, "400 bad_json: the body is not the JSON expected here: there is more after the first JSON value"},
		{"cut off", "application/json", `{"id":`, badJSON + "it ends in the middle"},
		{"blank", "application/json", " ", badJSON + "it is blank"},
		{"wrong type of text", "application/json", `{"id":[]}`, badJSON + `field "id" is of the wrong kind: array instead of string`},
		{"charset in another spelling", "application/json;charset=\"UTF-8\"", `{"id":"a","qty":3}`, ""},
		{"latin1", "application/json;charset=latin1", `{"id":"a"}`, `415 unsupported_media_type: the body's charset is "latin1"; JSON is sent as UTF-8 alone`},
		{"UTF-16", "application/json; charset=utf-16", `{"id":"a"}`, "415 unsupported_media_type"},
		{"no UTF-8", "application/json", "{\"id\":\"a\xff\"}", badJSON + "it is not valid UTF-8 (at byte 8)"},
		{"a surrogate in UTF-8", "application/json", "{\"id\":\"\xed\xa0\x80\"}", badJSON + "it is not valid UTF-8 (at byte 7)"},
		{"cut off in a character", "application/json", "{\"id\":\"\xc3\"}", badJSON + "it is not valid UTF-8 (at byte 7)"},
		{"half a pair", "application/json", `{"id":"\ud83d"}`, badJSON + `the escape \ud83d is half a character, and its other half is missing (at byte 7)`},
		{"the other half", "application/json", `{"id":"\uDE00\ud83d"}`, badJSON + `the escape \uDE00 is half a character`},
		{"a half twice", "application/json", `{"id":"\ud83d\ud83d\ude00"}`, badJSON + `the escape \ud83d is half a character`},
		{"half a pair before its other half in UTF-8", "application/json", `{"id":"\ud83d😀"}`, badJSON + `the escape \ud83d is half a character`},
		{"half a pair as a name", "application/json", `{"id":"a","\udc00":1}`, badJSON + "unknown field"},
		{"a member twice", "application/json", `{"id":"b","id":"a","qty":3}`, badJSON + `field "id" is there twice`},
		{"a member in another case", "application/json", `{"ID":"a","qty":3}`, badJSON + `unknown field "ID": names count in this very case`},
		{"a member in two cases", "application/json", `{"qty":3,"id":"a","Id":"b"}`, badJSON + `unknown field "Id"`},
		{"a null member", "application/json", `{"id":null,"qty":3}`, badJSON + `field "id" is null: give it a value, or leave it out`},
		{"null", "application/json", ` null `, badJSON + "it is null, and not an object"},
		{"a long s", "application/json", `{"id":"a","qty":3,"ſ":1}`, badJSON + "unknown field"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := httptest.NewRequest("POST", "/", strings.NewReader(tt.body))
			r.Header.Set("Content-Type", tt.contentType)
			var got order
			err := ReadJSON(r, 60, &got)
			if tt.want == "" {
				if err != nil || got != (order{"a", 3}) {
					t.Errorf("ReadJSON = %+v, %v", got, err)
				}
				return
			}
			e := explain(err)
			if text := fmt.Sprintf("%d %s: %s", e.Status, e.Code, e.Message); !strings.HasPrefix(text, tt.want) {
				t.Errorf("ReadJSON = %q, want %q", text, tt.want)
			}
		})
	}

	// What looks like half a pair and is none arrives as it is.
	for body, want := range map[string]string{
		`"\ud83d\ude00"`:       "😀",
		`"\\ud83d"`:            `\ud83d`,
		`"\\\ud83d\uDE00"`:     `\😀`,
		`"\u00fc\ufffd\uffff"`: "ü\ufffd\uffff",
		"\"\ufffd\"":           "\ufffd",
		`"ud83d"`:              "ud83d",
	} {
		r := httptest.NewRequest("POST", "/", strings.NewReader(`{"id":`+body+`}`))
		r.Header.Set("Content-Type", "application/json")
		var got order
		if err := ReadJSON(r, 60, &got); err != nil || got.ID != want {
			t.Errorf("ReadJSON of %s = %q, %v, want %q", body, got.ID, err, want)
		}
	}

	r := httptest.NewRequest("GET", "/?Timeout=30s&timeout=&a=1&a=2", nil)
	for name, want := range map[string]string{"Timeout": "30s", "timeout": "", "A": "1", "none": ""} {
		if got := Query(r, name); got != want {
			t.Errorf("Query(%q) = %q, want %q", name, got, want)
		}
	}
}
