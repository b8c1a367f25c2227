package customhandler

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestReady(t *testing.T) {
	// Any answer on an open connection counts as ready, even a malformed one.
	for _, raw := range []string{"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", "HTTP/1.1 401 No\r\nContent-Length: 0\r\n\r\n", "this is not HTTP\r\n\r\n", ""} {
		l, err := Listen(0)
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			defer l.Close()
			if conn, err := l.Accept(); err == nil {
				defer conn.Close()
				if line, _ := bufio.NewReader(conn).ReadString('\n'); line == "GET / HTTP/1.1\r\n" {
					_, _ = io.WriteString(conn, raw)
				}
			}
		}()
		if err := NewClient("http://" + l.Addr().String()).Ready(t.Context()); err != nil {
			t.Errorf("Ready after the answer %q = %v, want nil", raw, err)
		}
	}

	ctx, cancel := context.WithCancel(t.Context())
	requests, readyAfter := 0, 3
	client := NewClient("http://127.0.0.1:1")
	client.http.Transport = roundTripper(func(r *http.Request) (*http.Response, error) {
		if requests++; requests >= readyAfter {
			return httptest.NewRecorder().Result(), nil
		}
		if requests == 10 {
			cancel()
		}
		return nil, &net.OpError{Op: "dial", Err: errors.New("connection refused")}
	})
	if err := client.Ready(ctx); err != nil || requests != 3 {
		t.Errorf("Ready = %v after %d requests, want nil after 3", err, requests)
	}
	requests, readyAfter = 0, 1000
	if err := client.Ready(ctx); !errors.Is(err, context.Canceled) || requests != 10 {
		t.Errorf("Ready without a handler = %v after %d requests, want the end of the context after 10", err, requests)
	}
	if err := NewClient("no address").Ready(t.Context()); err == nil {
		t.Error("Ready accepts an invalid address")
	}
}

func TestInvokeSendsWhatTheHostSends(t *testing.T) {
	type sent struct {
		Line, Body string
		Header     http.Header
	}
	var got sent
	_, client := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got = sent{r.Method + " " + r.RequestURI, string(body), r.Header}
		got.Header.Del("Content-Length")
		writeAnswer(w, Answer{Logs: []string{"done"}})
	}))
	e := Trigger{Function: "Worker", Binding: "msg"}.Queue(QueueMessage{Text: "<&>"})
	e.ID, e.Metadata = "inv-1", nil
	a, err := client.Invoke(t.Context(), "Worker", e)
	if err != nil || len(a.Logs) != 1 {
		t.Fatalf("Invoke = %+v, %v", a, err)
	}
	want := sent{"POST /Worker", `{"Data":{"msg":"\"<&>\""},"Metadata":null}`, http.Header{
		"Content-Type":                   {"application/json; charset=utf-8"},
		"User-Agent":                     {"Azure-Functions-Host/" + DefaultHostVersion},
		"X-Azure-Functions-Hostversion":  {DefaultHostVersion},
		"X-Azure-Functions-Invocationid": {"inv-1"},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("request (-want +got):\n%s", diff)
	}
	e.ID = ""
	if _, err := client.Invoke(t.Context(), "Worker", e); err != nil || len(got.Header.Get("X-Azure-Functions-InvocationId")) != 36 {
		t.Errorf("invocation id = %q, %v, want a new GUID", got.Header.Get("X-Azure-Functions-InvocationId"), err)
	}
}

func TestInvokeFailures(t *testing.T) {
	_, client := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch strings.TrimPrefix(r.URL.Path, "/") {
		case "Empty": // the same as w.WriteHeader(200) alone
		case "Redirect":
			http.Redirect(w, r, "/Good", http.StatusTemporaryRedirect)
		case "Circle":
			http.Redirect(w, r, "/Circle", http.StatusTemporaryRedirect)
		case "Dies":
			panic(http.ErrAbortHandler)
		case "DiesHalfway":
			w.Header().Set("Content-Length", "100")
			_, _ = io.WriteString(w, "{")
			panic(http.ErrAbortHandler)
		case "Hangs":
			<-r.Context().Done()
		default:
			writeAnswer(w, Answer{})
		}
	}))
	for function, want := range map[string]error{"Good": nil, "Empty": ErrHang, "Redirect": nil, "Circle": ErrStatus} {
		if _, err := client.Invoke(t.Context(), function, Envelope{}); !errors.Is(err, want) {
			t.Errorf("Invoke %s = %v, want %v", function, err, want)
		}
	}
	for _, function := range []string{"Dies", "DiesHalfway"} {
		_, err := client.Invoke(t.Context(), function, Envelope{})
		if _, judged := errors.AsType[*AnswerError](err); err == nil || judged {
			t.Errorf("Invoke %s = %v, want a failed call", function, err)
		}
	}
	if _, err := client.Invoke(t.Context(), "Good", Envelope{Data: map[string]json.RawMessage{"msg": json.RawMessage("{")}}); err == nil {
		t.Error("Invoke sent an envelope that is not JSON")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 1)
	defer cancel()
	if _, err := client.Invoke(ctx, "Hangs", Envelope{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Invoke after its time = %v, want context.DeadlineExceeded", err)
	}
}

func TestForward(t *testing.T) {
	type seen struct {
		Line, Body string
		Header     http.Header
	}
	var got seen
	_, client := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got = seen{r.Method + " " + r.Host + r.RequestURI, string(body), r.Header}
		w.Header()["Set-Cookie"] = []string{"a=1", "b=2"}
		w.Header().Set("Location", "/elsewhere")
		w.WriteHeader(http.StatusFound)
		_, _ = w.Write([]byte{0xff, 0})
	}))
	tests := []struct {
		name         string
		method, path string
		header       http.Header
		body         io.Reader
		line         string
		want         http.Header // without those of the host
		wantBody     string
	}{
		{"path kept, query rebuilt", "GET", "/api/a%2Fb/%C3%BC?b=1&A=x%20y&a=2&c&b=%zz", nil, nil,
			"GET front:7071/api/a%2Fb/%C3%BC?b=1%2C%25zz&A=x+y%2C2&c=", http.Header{}, ""},
		{"body", "POST", "/api/x", http.Header{"User-Agent": {"curl/8"}, "Content-Type": {"a/b"}, "X-Functions-Key": {"k"}, "Content-Length": {"4"}}, strings.NewReader("body"),
			"POST front:7071/api/x", http.Header{"User-Agent": {"curl/8"}, "Content-Type": {"a/b"}, "X-Functions-Key": {"k"}, "Content-Length": {"4"}}, "body"},
		{"path decoded and rebuilt", "GET", "/api/a%5Cb%2Fc%3Fd?e=1", nil, nil, "GET front:7071/api/a/b%2Fc?e=1", http.Header{}, ""},
		{"dot segments resolved", "GET", "/api/open/..%5Cshut%5C.%5Cx", nil, nil, "GET front:7071/api/shut/x", http.Header{}, ""},
		{"encoded dot segments resolved", "GET", "/api/open/%252e%252E/a.b/...", nil, nil, "GET front:7071/api/a.b/...", http.Header{}, ""},
		{"dot segments at the end", "GET", "/..%5C../api/x/y/..%5C.", nil, nil, "GET front:7071/api/x/", http.Header{}, ""},
		{"repeated header", "GET", "/api/x", http.Header{"X-A": {"1", "2, 3"}}, nil, "GET front:7071/api/x", http.Header{"X-A": {"1, 2, 3"}}, ""},
		{"lost headers", "GET", "/api/x", http.Header{"Content-Encoding": {"gzip"}, "Content-Language": {"de"}, "Connection": {"x"}, "If-Match": {`"1"`}}, nil,
			"GET front:7071/api/x", http.Header{"If-Match": {`"1"`}}, ""},
		{"a client's invocation id first", "GET", "/api/x", http.Header{"X-Azure-Functions-Invocationid": {"mine"}}, nil,
			"GET front:7071/api/x", http.Header{"X-Azure-Functions-Invocationid": {"mine"}}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := httptest.NewRequest(tt.method, tt.path, tt.body)
			r.Host = "front:7071"
			copyHeaders(r.Header, tt.header, nil)
			w := httptest.NewRecorder()
			status, err := client.Forward(t.Context(), w, r, "inv-1")
			if err != nil || status != http.StatusFound || w.Code != http.StatusFound {
				t.Fatalf("Forward = %d, %v; answered %d", status, err, w.Code)
			}
			agent := strings.TrimLeft(tt.want.Get("User-Agent")+" Azure-Functions-Host/"+DefaultHostVersion, " ")
			tt.want.Set("User-Agent", agent)
			tt.want.Add("X-Azure-Functions-HostVersion", DefaultHostVersion)
			tt.want.Set("X-Azure-Functions-InvocationId", strings.TrimLeft(tt.want.Get("X-Azure-Functions-InvocationId")+", inv-1", ", "))
			if diff := cmp.Diff(seen{tt.line, tt.wantBody, tt.want}, got); diff != "" {
				t.Errorf("request (-want +got):\n%s", diff)
			}
			if cookies := w.Header().Values("Set-Cookie"); len(cookies) != 2 || w.Header().Get("Location") != "/elsewhere" || w.Body.String() != "\xff\x00" {
				t.Errorf("answer = %v %q, want it passed through", w.Header(), w.Body)
			}
		})
	}

	got = seen{}
	chunked := httptest.NewRequest("POST", "/api/x", io.MultiReader(strings.NewReader("body")))
	if status, err := client.Forward(t.Context(), httptest.NewRecorder(), chunked, "inv-1"); err == nil || got.Line != "" {
		t.Errorf("Forward of a chunked body = %d, %v, the handler saw %q; want an error and no call", status, err, got.Line)
	}

	_, client = serve(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	w := httptest.NewRecorder()
	status, err := client.Forward(t.Context(), w, httptest.NewRequest("GET", "/api/x?code=s3cret", nil), "inv-1")
	if err == nil || status != 0 || len(w.Header()) != 0 || w.Body.Len() != 0 || strings.Contains(err.Error(), "s3cret") {
		t.Errorf("Forward to a handler that dies = %d, %v, header %v; want an error without the key and nothing written", status, err, w.Header())
	}
}
