package customhandler

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// everyFunction returns an App with a function of each kind.
func everyFunction(t testing.TB) *App {
	app := newApp(t, Options{})
	check := func(at time.Time) error {
		if at.Year() == 1 && !at.IsZero() {
			return errors.New("year 1 must be the zero time")
		}
		return nil
	}
	app.Queue("Queue", "x", func(_ context.Context, m QueueMessage) error { return check(m.Inserted) })
	app.Timer("Timer", "x", func(_ context.Context, tick Tick) error {
		return check(cmp.Or(tick.Schedule, &ScheduleStatus{}).Last)
	})
	app.HTTP("HTTP", "x", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || int64(len(body)) != r.ContentLength {
			panic("the body does not have the length that the request reports")
		}
		w.Header()["X-Seen"] = r.Header["X-Seen"]
		_, _ = w.Write(append([]byte(r.PathValue("rest")+Query(r, "q")), body...))
	}), "/api/{rest...}")
	return app
}

// checkInvocations posts an envelope to every function. Each must accept or
// reject it with an answer that the host can judge.
func checkInvocations(t *testing.T, app *App, body string) {
	t.Helper()
	for function := range app.functions {
		w := post(app, "/"+function, body)
		wantObject(t, w)
		a, err := judge(function, w.Code, w.Header().Get("Content-Type"), w.Body.Bytes())
		if w.Code == http.StatusOK && err != nil {
			t.Fatalf("%s: the host rejects the answer %q to %q: %v", function, w.Body, body, err)
		}
		if w.Code != http.StatusOK && w.Code != http.StatusBadRequest {
			t.Fatalf("%s: answer %d %q to %q, want 200 or 400", function, w.Code, w.Body, body)
		}
		if _, err := a.HTTP("res"); err != nil {
			t.Fatalf("%s: the host makes no HTTP answer of %q: %v", function, w.Body, err)
		}
	}
}

// FuzzEnvelope sends any body to every function, and the same as the data and
// the metadata of an envelope.
func FuzzEnvelope(f *testing.F) {
	for _, seed := range []string{``, `null`, `7`, `"\"a\""`, `{}`, `[]`, `[[]]`, queueEnvelope,
		`{"Data":null}`, `{"Data":{"x":null},"Metadata":[]}`, `{"data":{"X":"\"a\""},"metadata":{"Id":"\"1\""}}`,
		`"\"{\\\"id\\\":7}\""`, `{"DequeueCount":"1","Id":"\"7\"","InsertionTime":"2026-01-02T03:04:05","ExpirationTime":"2026-01-02T03:04:05.1234567Z"}`,
		`{"Schedule":{"AdjustForDST":true},"ScheduleStatus":{"Last":"0001-01-01T00:00:00+00:00"},"IsPastDue":true}`, `{"ScheduleStatus":null}`,
		`{"Method":"POST","Url":"http://h/api/a/b?q=1","Headers":{"X-Seen":["a","b"],"Content-Type":"text/plain"},"Body":"x","Params":null,"Query":{"q":"1"}}`,
		`{"Method":"PUT","Url":"/API/%zz?","Headers":{"Content-Type":["application/octet-stream"]},"Body":"/w=="}`,
		`{"Method":"HEAD","Url":"://?","Query":"{\"q\":[1]}"}`} {
		f.Add(seed)
	}
	app := everyFunction(f)
	f.Fuzz(func(t *testing.T, body string) {
		checkInvocations(t, app, body)
		if !json.Valid([]byte(body)) {
			body = string(encode(body))
		}
		checkInvocations(t, app, `{"Data":{"x":`+body+`},"Metadata":`+body+`}`)
	})
}

// messageTexts are texts that encodings on the way can damage.
var messageTexts = []string{
	"", " ", "hello", `"quoted"`, `""`, `"`, `\`, `\"`, "null", "true", "7", "1e3", "[1,2]", `["a"]`, `{"id":7}`, `{"id":7`, ` {"a": 1} `,
	"test", "abcd1234", "aGVsbG8=", "2026-01-02T03:04:05Z", "<script>&amp;", "line\nline\r\n\ttab", "\u0000\u001f\u007f", "ünïcödé 日本語 😀", "\u2028\u2029\ufeff",
	`{"Id":"x","DequeueCount":99,"sys":{},"MessageId":"y","msg":1,"myTrigger":2}`,
}

// FuzzQueueText proves that the host's encoding and ours carry a text unchanged,
// byte by byte.
func FuzzQueueText(f *testing.F) {
	for _, text := range messageTexts {
		f.Add(text)
	}
	app := newApp(f, Options{})
	var got string
	app.Queue("Work", "msg", func(_ context.Context, m QueueMessage) error { got = m.Text; return nil })
	f.Fuzz(func(t *testing.T, text string) {
		if !utf8.ValidString(text) {
			return // the host sends only valid text
		}
		e := Trigger{Function: "Work", Binding: "msg"}.Queue(QueueMessage{Text: text})
		if w := post(app, "/Work", string(encode(e))); w.Code != 200 || got != text {
			t.Fatalf("text %q arrived as %q (status %d)", text, got, w.Code)
		}
	})
}

// FuzzReadJSON proves that what is accepted is what was sent. encoding/json
// replaces invalid text by U+FFFD, so the value must not have more of them than
// the body.
func FuzzReadJSON(f *testing.F) {
	for _, seed := range []string{`{"text":"a"}`, `{"text":"\ud83d\ude00"}`, `{"text":"\ud83d"}`, `{"text":"\\ud83d\uFFFD"}`, "{\"text\":\"\xed\xa0\x80\"}",
		"{\"text\":\"\ufffd\"}", `{"Text":"a"}`, `{"text":"a","text":"b"}`, `{"\u0074ext":"\udc00\ud800"}`, `null`, `[]`, `{"text":{}}`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, body string) {
		r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		var v, loose struct {
			Text string `json:"text"`
		}
		err := ReadJSON(r, 1<<20, &v)
		changed := json.Unmarshal([]byte(body), &loose) == nil &&
			strings.Count(loose.Text, "\ufffd") > strings.Count(body, "\ufffd")+strings.Count(strings.ToLower(body), `\ufffd`)
		if err == nil && (changed || v != loose || !utf8.ValidString(body)) {
			t.Errorf("%q was accepted as %q", body, v.Text)
		}
	})
}

func FuzzAnswer(f *testing.F) {
	for _, seed := range []string{`{}`, `null`, ` `, `{"Outputs":{"res":{"statusCode":1}},"Logs":["a"],"ReturnValue":null}`, `{"Logs":[{}]}`, `[]`, `{"outputs":[]}`, `{"Outputs":`,
		`{"Outputs":{"res":{"statusCode":"201","headers":{"a":1},"body":{"b":[1.5e300]}}}}`, `{"Outputs":{"res":"{\"body\":1}"}}`, `{"Outputs":{"res":{"headers":{"a":null}}}}`} {
		f.Add(200, "application/json", seed)
	}
	f.Add(404, "", "")
	f.Fuzz(func(t *testing.T, status int, contentType, body string) {
		a, err := judge("f", status, contentType, []byte(body))
		if err != nil {
			if rejected, ok := errors.AsType[*AnswerError](err); !ok || rejected.Reason == nil || err.Error() == "" {
				t.Fatalf("judge = %v, want an AnswerError with its reason", err)
			}
			return
		}
		if _, err := judge("f", 200, "application/json", encode(a)); err != nil {
			t.Errorf("an answer read from %q is rejected: %v", body, err)
		}
		for name := range a.Outputs {
			if res, err := a.HTTP(name); err == nil && (res.Status < 200 || res.Header == nil) {
				t.Errorf("HTTP of %q = %+v, want an answer or an error", body, res)
			}
		}
	})
}

// FuzzRoute proves that a forwarded call always gets an answer, and that errors
// are JSON.
func FuzzRoute(f *testing.F) {
	for _, path := range []string{"/", "/api/", "/API/x/", "/api//x", "/api/../x", "/api/a%2Fb", "/%61pi/x", "/Queue", "//"} {
		f.Add("GET", path)
	}
	f.Add("", "/api/x")
	app := newApp(f, Options{})
	app.HTTP("F", "req", http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), "GET /api/x/{id}", "POST /api/x/{id}", "/api/y/{rest...}", "GET /api/z/{$}")
	f.Fuzz(func(t *testing.T, method, path string) {
		u, err := url.ParseRequestURI(path)
		if err != nil || !strings.HasPrefix(u.Path, "/") || method == http.MethodConnect {
			return // net/http rejects these
		}
		w := httptest.NewRecorder()
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Method, r.URL = method, u
		app.ServeHTTP(w, r)
		if w.Code >= 400 {
			wantObject(t, w)
		}
	})
}
