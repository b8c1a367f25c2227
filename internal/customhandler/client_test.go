package customhandler

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestReady(t *testing.T) {
	// Each handler answers a connection in its own way; all but a refused connection count as up.
	for _, raw := range []string{
		"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}",
		"HTTP/1.1 500 Oh\r\nContent-Length: 0\r\n\r\n",
		"HTTP/1.1 401 No\r\nContent-Length: 0\r\n\r\n",
		"this is not HTTP\r\n\r\n",
		"",
	} {
		t.Run(fmt.Sprintf("%.20q", raw), func(t *testing.T) {
			l, err := net.Listen("tcp4", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			asked := make(chan string, 1)
			go func() {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				defer conn.Close()
				request := make([]byte, 1024)
				n, _ := conn.Read(request)
				asked <- string(request[:n])
				_, _ = io.WriteString(conn, raw)
			}()
			if err := NewClient("http://"+l.Addr().String(), nil).Ready(t.Context()); err != nil {
				t.Errorf("Ready = %v, want it ready", err)
			}
			if got := <-asked; !strings.HasPrefix(got, "GET / HTTP/1.1\r\n") {
				t.Errorf("asked %q, want GET /", got)
			}
		})
	}
}

func TestReadyWaits(t *testing.T) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()

	ctx, cancel := context.WithCancel(t.Context())
	refused := 0
	client := NewClient("http://"+address, &ClientOptions{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
		if refused++; refused == 3 {
			cancel()
		}
		return http.DefaultTransport.RoundTrip(r)
	})})
	err = client.Ready(ctx)
	if !errors.Is(err, context.Canceled) || refused < 3 {
		t.Errorf("Ready of a closed port = %v after %d tries, want the end of the context after several", err, refused)
	}

	app := New(quiet())
	refused = 0
	client = NewClient("http://"+address, &ClientOptions{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
		if refused++; refused < 3 {
			return nil, &net.OpError{Op: "dial", Err: errors.New("connection refused")}
		}
		w := httptest.NewRecorder()
		app.ServeHTTP(w, r)
		return w.Result(), nil
	})})
	if err := client.Ready(t.Context()); err != nil || refused != 3 {
		t.Errorf("Ready = %v after %d tries, want nil after the third", err, refused)
	}
	if err := NewClient("no address", nil).Ready(t.Context()); err == nil {
		t.Error("a senseless address counts as ready")
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestInvokeSendsWhatTheHostSends(t *testing.T) {
	type sent struct {
		Line, Body string
		Length     bool
		Header     http.Header
	}
	var got sent
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got = sent{r.Method + " " + r.RequestURI, string(body), r.ContentLength > 0, r.Header}
		got.Header.Del("Content-Length")
		writeAnswer(w, Answer{Logs: []string{"done"}})
	}))
	defer server.Close()
	client := NewClient(server.URL+"/", &ClientOptions{HostVersion: "4.1"})
	e := Trigger{Function: "Worker", Binding: "msg"}.Queue(QueueMessage{Text: "<&>"})
	e.Metadata = nil
	e.ID = "inv-1"
	a, err := client.Invoke(t.Context(), "Worker", e)
	if err != nil || len(a.Logs) != 1 {
		t.Fatalf("Invoke = %+v, %v", a, err)
	}
	want := sent{"POST /Worker", `{"Data":{"msg":"\"<&>\""},"Metadata":null}`, true, http.Header{
		"Content-Type":                   {"application/json; charset=utf-8"},
		"User-Agent":                     {"Azure-Functions-Host/4.1"},
		"X-Azure-Functions-Hostversion":  {"4.1"},
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
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch strings.TrimPrefix(r.URL.Path, "/") {
		case "Empty": // what w.WriteHeader(200) alone does
		case "Redirect":
			http.Redirect(w, r, "/Good", http.StatusTemporaryRedirect)
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
	defer server.Close()
	client := NewClient(server.URL, nil)
	for function, want := range map[string]error{"Good": nil, "Empty": ErrHang, "Redirect": ErrStatus} {
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
		t.Error("an envelope that is no JSON was sent")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 1)
	defer cancel()
	if _, err := client.Invoke(ctx, "Hangs", Envelope{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Invoke beyond its time = %v, want context.DeadlineExceeded", err)
	}
}

func TestForward(t *testing.T) {
	type seen struct {
		Line, Host, Body string
		Header           http.Header
	}
	var got seen
	handler := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got = seen{r.Method + " " + r.RequestURI, r.Host, string(body), r.Header}
		w.Header().Add("Set-Cookie", "a=1")
		w.Header().Add("Set-Cookie", "b=2")
		w.Header().Set("Location", "/elsewhere")
		w.WriteHeader(http.StatusFound)
		_, _ = w.Write([]byte{0xff, 0})
	}))
	defer handler.Close()
	client := NewClient(handler.URL, &ClientOptions{HostVersion: "4.1"})

	added := func(agent string, more http.Header) http.Header {
		h := http.Header{"User-Agent": {agent}, "X-Azure-Functions-Hostversion": {"4.1"}, "X-Azure-Functions-Invocationid": {"inv-1"}}
		for name, values := range more {
			h[name] = values
		}
		return h
	}
	tests := []struct {
		name   string
		method string
		target string
		header http.Header
		body   io.Reader
		want   seen
	}{
		{"path kept, query rebuilt", "GET", "/api/a%2Fb/%C3%BC?b=1&A=x%20y&a=2&c&b=%zz", nil, nil,
			seen{"GET /api/a%2Fb/%C3%BC?b=1%2C%25zz&A=x+y%2C2&c=", "front:7071", "", added("Azure-Functions-Host/4.1", nil)}},
		{"body", "POST", "/api/x", http.Header{"User-Agent": {"curl/8"}, "Content-Type": {"a/b"}, "X-Functions-Key": {"k"}, "Content-Length": {"4"}}, strings.NewReader("body"),
			seen{"POST /api/x", "front:7071", "body", added("curl/8 Azure-Functions-Host/4.1", http.Header{"Content-Type": {"a/b"}, "X-Functions-Key": {"k"}, "Content-Length": {"4"}})}},
		{"a chunked body is lost", "POST", "/api/x", nil, io.MultiReader(strings.NewReader("body")),
			seen{"POST /api/x", "front:7071", "", added("Azure-Functions-Host/4.1", http.Header{"Content-Length": {"0"}})}},
		{"lost headers", "GET", "/api/x", http.Header{"Content-Encoding": {"gzip"}, "Content-Language": {"de"}, "Connection": {"x"}, "If-Match": {`"1"`}}, nil,
			seen{"GET /api/x", "front:7071", "", added("Azure-Functions-Host/4.1", http.Header{"If-Match": {`"1"`}})}},
		{"a client's invocation id comes first", "GET", "/api/x", http.Header{"X-Azure-Functions-Invocationid": {"mine"}}, nil,
			seen{"GET /api/x", "front:7071", "", added("Azure-Functions-Host/4.1", http.Header{"X-Azure-Functions-Invocationid": {"mine", "inv-1"}})}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := httptest.NewRequest(tt.method, tt.target, tt.body)
			r.Host = "front:7071"
			copyHeaders(r.Header, tt.header, nil)
			w := httptest.NewRecorder()
			status, err := client.Forward(t.Context(), w, r, "inv-1")
			if err != nil || status != http.StatusFound || w.Code != http.StatusFound {
				t.Fatalf("Forward = %d, %v; answered %d", status, err, w.Code)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("request (-want +got):\n%s", diff)
			}
			if cookies := w.Header().Values("Set-Cookie"); len(cookies) != 2 || w.Header().Get("Location") != "/elsewhere" || w.Body.String() != "\xff\x00" {
				t.Errorf("answer = %v %q, want it passed through", w.Header(), w.Body)
			}
		})
	}
}

func TestForwardFailures(t *testing.T) {
	handler := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { panic(http.ErrAbortHandler) }))
	defer handler.Close()
	w := httptest.NewRecorder()
	w.Code = 0
	status, err := NewClient(handler.URL, nil).Forward(t.Context(), w, httptest.NewRequest("GET", "/api/x?code=s3cret", nil), "inv-1")
	if err == nil || status != 0 || len(w.Header()) != 0 || w.Body.Len() != 0 {
		t.Errorf("Forward to a handler that dies = %d, %v, header %v; want an error and nothing written", status, err, w.Header())
	}
	if strings.Contains(err.Error(), "s3cret") {
		t.Errorf("error holds a key: %v", err)
	}
}
