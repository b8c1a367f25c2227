package customhandler

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
)

// serveCalls is the HTTP function of TestHTTPCalls.
func serveCalls(w http.ResponseWriter, r *http.Request) {
	how, halfway := strings.CutSuffix(r.PathValue("how"), "-halfway")
	if halfway {
		_, _ = io.WriteString(w, strings.Repeat("x", 100))
	}
	switch how {
	case "show":
		body, err := io.ReadAll(r.Body)
		if err != nil {
			WriteError(w, r, err)
			return
		}
		fmt.Fprintf(w, "%s %s %s %s %s %d %s", r.Method, r.PathValue("id"), r.URL.Query()["a"], r.Host, r.Header["X-Custom"], r.ContentLength, body)
		_ = http.NewResponseController(w).Flush()
	case "need-body":
		WriteError(w, r, RequireBody(r))
	case "headers":
		w.WriteHeader(http.StatusEarlyHints)
		w.Header()["X-Many"] = []string{"1", "2"}
		w.Header()["X-Nil"] = nil
		w.Header()["Set-Cookie"] = []string{"a=1", "b=2"}
		w.Header().Set("Connection", "close")
		w.WriteHeader(http.StatusCreated)
		w.WriteHeader(http.StatusTeapot) // only the first counts
		w.Header().Set("X-Late", "1")
		_, _ = io.WriteString(w, "<p>hi")
	case "nocontent":
		w.WriteHeader(http.StatusNoContent)
		_, _ = io.WriteString(w, "x")
	case "binary":
		_, _ = w.Write([]byte{0xff, 0xfe})
	case "panic":
		w.Header().Set("Content-Encoding", "gzip")
		panic("oh")
	case "no-status":
		w.WriteHeader(0)
	case "abort":
		panic(http.ErrAbortHandler)
	case "conflict":
		WriteError(w, r, fmt.Errorf("read it: %w", &Error{http.StatusConflict, "taken", "The name is taken. Choose another."}))
	case "error":
		WriteError(w, r, errors.New("password=s3cret"))
	case "canceled":
		WriteError(w, r, context.Canceled)
	}
}

// TestHTTPCalls sends each call twice, forwarded and in an envelope. The caller
// must get the same answer, except where an envelope cannot carry it.
func TestHTTPCalls(t *testing.T) {
	app := newApp(t, Options{MaxBody: 10})
	app.HTTP("Calls", "req", http.HandlerFunc(serveCalls), "POST /api/calls/{how}/{id}", "GET /api/calls/{how}/{id}")
	app.HTTP("Other", "req", http.NotFoundHandler(), "GET /api/other")
	server, client := serve(t, app)
	forward := func(r *http.Request) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		if _, err := client.Forward(t.Context(), w, r, "inv-1"); err != nil {
			w.Code = 0
		}
		return w
	}
	envelop := func(r *http.Request) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		e, err := Trigger{Function: "Calls", Binding: "req"}.HTTP(r, nil)
		var a Answer
		if err == nil {
			a, err = client.Invoke(t.Context(), "Calls", e)
		}
		if err != nil {
			w.Code = 0
			return w
		}
		res, err := a.HTTP("res")
		if err != nil {
			t.Error(err)
		}
		w.Code = res.Status
		maps.Copy(w.Header(), res.Header)
		w.Body.Write(res.Body)
		return w
	}

	const failed = "0 " // a broken connection, or a failed invocation
	tests := []struct {
		name, method, path, body string
		want                     string // status and the beginning of the body
		enveloped                string // if it differs
	}{
		{"as it came", "POST", "show/42?a=1", "body", "200 POST 42 [1] front:7071 [x] 4 body", ""},
		{"escaped path value", "GET", "show/a%2Fb%20c", "", "200 GET a/b c [] front:7071 [x] 0 ", ""},
		{"another case", "GET", "../CALLS/show/Ab", "", "200 GET Ab [] front:7071 [x] 0 ", ""},
		{"another case, with escapes", "GET", "../CALLS/show/a%2FB", "", "200 GET a/B [] front:7071 [x] 0 ", ""},
		{"a slash at the end", "GET", "show/42/?a=1", "", "200 GET 42 [1] front:7071 [x] 0 ", ""},
		{"unknown route", "GET", "show", "", `404 {"error":{"code":"not_found",`, ""},
		{"route of another function", "GET", "../other", "", "404 404 page", `404 {"error":{"code":"not_found",`},
		{"wrong method", "DELETE", "show/42", "", `405 {"error":{"code":"method_not_allowed",`, ""},
		{"wrong method in another case", "DELETE", "../CALLS/show/42", "", `405 {"error":{"code":"method_not_allowed",`, ""},
		{"invalid query, which the host repairs", "GET", "show/42?a=%zz", "", "200 GET 42 [%zz] front:7071 [x] 0 ", `400 {"error":{"code":"bad_query",`},
		{"body too large", "POST", "show/42", "eleven byte", `413 {"error":{"code":"body_too_large",`, ""},
		{"body missing", "POST", "need-body/1", "", `411 {"error":{"code":"length_required",`, ""},
		{"headers", "GET", "headers/1", "", "201 <p>hi", ""},
		{"headers only", "HEAD", "headers/1", "", "201 ", ""},
		{"nothing written", "GET", "nothing/1", "", "200 ", ""},
		{"no content", "GET", "nocontent/1", "", "204 ", ""},
		{"binary", "GET", "binary/1", "", "200 \xff\xfe", `500 {"error":{"code":"binary_answer",`},
		{"panic", "GET", "panic/1", "", `500 {"error":{"code":"internal",`, ""},
		{"panic after half an answer", "GET", "panic-halfway/1", "", failed, `500 {"error":{"code":"internal",`},
		{"invalid status", "GET", "no-status/1", "", `500 {"error":{"code":"internal",`, ""},
		{"answer broken off", "GET", "abort/1", "", failed, `500 {"error":{"code":"internal",`},
		{"error for the caller", "GET", "conflict/1", "", `409 {"error":{"code":"taken","message":"The name is taken. Choose another."}}`, ""},
		{"error with a cause for the log", "GET", "error/1", "", `500 {"error":{"code":"internal","message":"The function failed. The cause is in its log."}}`, ""},
		{"error of a stop", "GET", "canceled/1", "", `503 {"error":{"code":"stopped",`, ""},
		{"error after half an answer", "GET", "error-halfway/1", "", failed, `500 {"error":{"code":"internal",`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, shape := range []string{"forwarded", "enveloped"} {
				path := strings.Replace("/api/calls/"+tt.path, "calls/../", "", 1)
				r := httptest.NewRequestWithContext(t.Context(), tt.method, path, strings.NewReader(tt.body))
				r.Host = "front:7071"
				if tt.body == "" {
					r.Body = http.NoBody
				}
				r.Header.Set("X-Custom", "x")
				send, want, cookies := forward, tt.want, 2
				if shape == "enveloped" {
					send, want, cookies = envelop, cmp.Or(tt.enveloped, tt.want), 1
				}
				w := send(r)
				got := fmt.Sprintf("%d %s", w.Code, w.Body)
				if !strings.HasPrefix(got, want) || strings.HasSuffix(want, " ") && got != want {
					t.Errorf("%s: answer = %q, want %q", shape, got, want)
				}
				header := w.Header()
				if id := header.Get(headerRequestID); w.Code != 0 && shape == "forwarded" && id != "inv-1" {
					t.Errorf("%s: request id = %q, want that of the host", shape, id)
				}
				if strings.Contains(want, `"error"`) && (strings.TrimSuffix(header.Get("Content-Type"), "; charset=utf-8") != "application/json" || header.Get("Content-Encoding") != "" || header.Get("Cache-Control") != "no-store") {
					t.Errorf("%s: headers of an error = %v, want plain JSON that no cache keeps", shape, header)
				}
				if got := header.Get("Allow"); w.Code == 405 && got != "GET, HEAD, POST" {
					t.Errorf("%s: Allow = %q, want GET, HEAD, POST", shape, got)
				}
				if w.Code != 201 {
					continue
				}
				if got := len(header["Set-Cookie"]); got != cookies || header.Get("Set-Cookie") != "a=1" || strings.Join(header["X-Many"], ", ") != "1, 2" || header.Get("X-Late") != "" || header["X-Nil"] != nil {
					t.Errorf("%s: headers = %v, want %d cookies and both values of X-Many", shape, header, cookies)
				}
				if got := header.Get("Content-Type"); tt.method == "GET" && got != "text/html; charset=utf-8" {
					t.Errorf("%s: Content-Type = %q, want that of net/http", shape, got)
				}
			}
		})
	}

	// The host drops a chunked body, but another client may send one.
	if resp, body, err := call(t, server, "POST", "/api/calls/show/1", io.MultiReader(strings.NewReader("eleven byte"))); err != nil || resp.StatusCode != 413 {
		t.Errorf("answer to a large chunked body = %v %q (%v), want 413", resp, body, err)
	}
}

// TestCallersCannotFailInvocations: a caller whose request is too long or has too
// many headers receives an answer also in an envelope. A failed invocation would
// be an empty 500 and an error in the log, and everyone may call an anonymous
// function.
func TestCallersCannotFailInvocations(t *testing.T) {
	book := &logBook{}
	app := newApp(t, Options{Log: book.logger(), MaxBody: 10})
	app.HTTP("Calls", "req", http.HandlerFunc(serveCalls), "POST /api/calls/{how}/{id}")
	_, client := serve(t, app)
	for _, tt := range []struct {
		name            string
		length, headers int
		want            string
	}{
		{"as long as allowed", 10, maxHeaderLines - 1, "200 POST 1"},
		{"a chunked body, which the host drops", -1, 0, `411 {"error":{"code":"length_required"`},
		{"a long body", 11, 0, `413 {"error":{"code":"body_too_large","message":"The body is larger than the limit of 10 bytes."}}`},
		{"a long envelope", 2 << 20, 0, `413 {"error":{"code":"body_too_large","message":"The body is larger than the limit of 10 bytes."}}`},
		{"too many headers", 1, maxHeaderLines + 1, `431 {"error":{"code":"too_many_headers"`},
	} {
		r := httptest.NewRequestWithContext(t.Context(), "POST", "/api/calls/show/1", strings.NewReader(strings.Repeat("a", max(tt.length, 1))))
		if tt.length < 0 {
			r.ContentLength, r.TransferEncoding = -1, []string{"chunked"}
		}
		for i := range tt.headers {
			r.Header.Add("X-Many", fmt.Sprint(i))
		}
		e, err := Trigger{Function: "Calls", Binding: "req"}.HTTP(r, nil)
		if err != nil {
			t.Fatal(err)
		}
		a, err := client.Invoke(t.Context(), "Calls", e)
		if err != nil {
			t.Errorf("%s: the invocation failed: %v", tt.name, err)
			continue
		}
		if res, err := a.HTTP("res"); err != nil || !strings.HasPrefix(fmt.Sprintf("%d %s", res.Status, res.Body), tt.want) {
			t.Errorf("%s: answer = %d %s, %v, want %s", tt.name, res.Status, res.Body, err, tt.want)
		} else if res.Header.Get(headerRequestID) == "" {
			t.Errorf("%s: the answer has no id", tt.name)
		}
	}
	if strings.Contains(book.String(), `"level":"ERROR"`) {
		t.Errorf("the log has an error:\n%s", book)
	}
}

// TestDecodeHTTP covers every form in which hosts send an HTTP call.
func TestDecodeHTTP(t *testing.T) {
	type request struct {
		Line, Host string
		Header     http.Header
		Length     int64
		Body       string
	}
	const start = `"Method":"POST","Url":"http://h:7071/api/orders/42?a=1&a=2"`
	const line = "POST /api/orders/42?a=1&a=2"
	plain := request{line, "h:7071", http.Header{}, 0, ""}
	json := request{line, "h:7071", http.Header{}, 9, `{"qty":3}`}
	get := func(target string) request { return request{"GET " + target, "h", http.Header{}, 0, ""} }
	typed := func(contentType, body string) request {
		return request{line, "h:7071", http.Header{"Content-Type": {contentType}}, int64(len(body)), body}
	}
	tests := []struct {
		name, data string
		want       request // zero: an error
	}{
		{"no body", `{` + start + `}`, plain},
		{"null body", `{` + start + `,"Body":null}`, plain},
		{"text body", `{` + start + `,"Body":"{\"qty\":3}"}`, json},
		{"body as JSON", `{` + start + `,"Body":{"qty":3}}`, json},
		{"text that looks like base64", `{` + start + `,"Headers":{"Content-Type":["a/b"]},"Body":"abcd"}`, typed("a/b", "abcd")},
		{"octets", `{` + start + `,"Headers":{"content-TYPE":["application/octet-stream"]},"Body":"/wAB"}`, typed("application/octet-stream", "\xff\x00\x01")},
		{"a form with files", `{` + start + `,"Headers":{"Content-Type":["Multipart/Form-Data; boundary=x"]},"Body":"LS14"}`, typed("Multipart/Form-Data; boundary=x", "--x")},
		{"octets that are not base64", `{` + start + `,"Headers":{"Content-Type":["application/octet-stream"]},"Body":"no"}`, request{}},
		{"headers", `{` + start + `,"Headers":{"x-custom":["1","2"],"X-ONE":"3","X-None":null,"Host":["example.org"],"Transfer-Encoding":["chunked"]}}`,
			request{line, "example.org", http.Header{"X-Custom": {"1", "2"}, "X-One": {"3"}}, 0, ""}},
		{"headers of another type", `{` + start + `,"Headers":"none"}`, plain},
		{"parameters and identities of any type", `{` + start + `,"Params":7,"Identities":"[]","More":{"x":[]}}`, plain},
		{"query in the URL and beside it", `{` + start + `,"Query":{"a":"1,2"}}`, plain},
		{"query beside the URL", `{"Method":"GET","Url":"http://h/api/x","Query":{"a":"1,2"}}`, get("/api/x?a=1%2C2")},
		{"query as text", `{"Method":"GET","Url":"http://h/api/x","Query":"{\"a\":\"1\"}"}`, get("/api/x?a=1")},
		{"query of another type", `{"Method":"GET","Url":"http://h/api/x","Query":[1]}`, get("/api/x")},
		{"names in another case", `{"method":"GET","url":"http://h/api/x"}`, get("/api/x")},
		{"an escaped path", `{"Method":"GET","Url":"http://h/api/%C3%BC%2Fa?q=%20"}`, get("/api/%C3%BC%2Fa?q=%20")},
		{"a path with invalid escapes", `{"Method":"GET","Url":"http://h/api/ü %zz/50%?q=%20"}`, get("/api/%C3%BC%20%25zz/50%25?q=%20")},
		{"a URL without path", `{"Method":"GET","Url":"http://h?a=1"}`, get("/?a=1")},
		{"a URL without host", `{"Method":"GET","Url":"/api/x"}`, request{"GET /api/x", "", http.Header{}, 0, ""}},
		{"the request as text", `"{\"Method\":\"GET\",\"Url\":\"http://h/api/x\"}"`, get("/api/x")},
		{"no URL", `{"Method":"GET"}`, request{}},
		{"no method", `{"Url":"http://h/"}`, request{}},
		{"null", `null`, request{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r, err := decodeHTTP(envelope(t, `{"Data":{"req":`+tt.data+`}}`), "req")
			if err != nil || tt.want.Line == "" {
				if (err != nil) != (tt.want.Line == "") {
					t.Errorf("decodeHTTP = %v, %v", r, err)
				}
				return
			}
			body, err := io.ReadAll(r.Body)
			if err != nil {
				t.Fatal(err)
			}
			got := request{r.Method + " " + r.RequestURI, r.Host, r.Header, r.ContentLength, string(body)}
			if diff := gocmp.Diff(tt.want, got); diff != "" {
				t.Errorf("request (-want +got):\n%s", diff)
			}
		})
	}
}
