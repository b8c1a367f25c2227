package customhandler

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"unicode/utf8"
)

// everyFunction is an App with a function of each kind. Its functions look at all they get.
func everyFunction() *App {
	app := New(quiet())
	app.Queue("Queue", "x", func(ctx context.Context, m QueueMessage) error { return Emit(ctx, "out", m.Text, m.ID) })
	app.ServiceBus("Bus", "x", func(ctx context.Context, m ServiceBusMessage) error { return Emit(ctx, "out", m.Text, m.Subject) })
	app.ServiceBusBatch("Batch", "x", func(ctx context.Context, ms []ServiceBusMessage) error {
		for _, m := range ms {
			if err := Emit(ctx, "out", m.Text); err != nil {
				return err
			}
		}
		return nil
	})
	app.Timer("Timer", "x", func(ctx context.Context, tick Tick) error {
		if tick.Schedule != nil {
			return Emit(ctx, "out", tick.Schedule.Last.String())
		}
		return nil
	})
	app.HTTP("HTTP", "x", HandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return err
		}
		if int64(len(body)) != r.ContentLength {
			return errors.New("the body has another length than the request says")
		}
		w.Header()["X-Seen"] = r.Header["X-Seen"]
		_, err = w.Write(append([]byte(r.PathValue("rest")+Query(r, "q")), body...))
		return err
	}), "/api/{rest...}")
	return app
}

// checkInvocation posts an envelope and fails the test unless the host could judge the answer, for better or worse.
func checkInvocation(t *testing.T, app *App, function, body string) {
	t.Helper()
	w := post(app, "/"+function, body)
	wantObject(t, w)
	a, err := judge(function, w.Code, w.Header().Get("Content-Type"), w.Body.Bytes())
	if w.Code == http.StatusOK && err != nil {
		t.Fatalf("the host refuses the answer %q to %q: %v", w.Body, body, err)
	}
	if w.Code != http.StatusOK && w.Code != http.StatusBadRequest {
		t.Fatalf("answer %d %q to %q, want a success or a refusal of the envelope", w.Code, w.Body, body)
	}
	if function != "HTTP" || err != nil {
		return
	}
	if _, err := a.HTTP("res"); err != nil {
		t.Fatalf("the host makes no HTTP answer of %q: %v", w.Body, err)
	}
}

func FuzzEnvelope(f *testing.F) {
	for _, seed := range []string{queueEnvelope, ``, `{}`, `null`, `[]`, `{"Data":null}`, `{"Data":{"x":null},"Metadata":[]}`, `{"data":{"X":"\"a\""},"metadata":{"Id":"\"1\""}}`} {
		f.Add(seed)
	}
	app := everyFunction()
	f.Fuzz(func(t *testing.T, body string) {
		for function := range app.functions {
			checkInvocation(t, app, function, body)
		}
	})
}

// fuzzData puts arbitrary JSON, or else arbitrary text, into an envelope for one function.
func fuzzData(f *testing.F, function string, seeds ...string) {
	for _, seed := range append(seeds, ``, `null`, `7`, `"\"a\""`, `{}`, `[[]]`) {
		f.Add(seed)
	}
	app := everyFunction()
	f.Fuzz(func(t *testing.T, data string) {
		if !json.Valid([]byte(data)) {
			data = string(encode(data))
		}
		checkInvocation(t, app, function, `{"Data":{"x":`+data+`},"Metadata":`+data+`}`)
	})
}

func FuzzQueueData(f *testing.F) {
	fuzzData(f, "Queue", `"\"{\\\"id\\\":7}\""`, `{"DequeueCount":"1","Id":"\"7\"","InsertionTime":"2026-01-02T03:04:05"}`)
}

func FuzzServiceBusData(f *testing.F) {
	fuzzData(f, "Bus", `{"Client":{},"SequenceNumber":"12","ApplicationProperties":{"k":1},"UserProperties":"{}"}`)
}

func FuzzServiceBusBatch(f *testing.F) {
	fuzzData(f, "Batch", `"[1,\"a\",null]"`, `["a",{"MessageIdArray":"[1]"}]`, `{"Array":[],"xArray":"[]"}`)
}

func FuzzTimer(f *testing.F) {
	fuzzData(f, "Timer", `{"Schedule":{"AdjustForDST":true},"ScheduleStatus":{"Last":"0001-01-01T00:00:00+00:00"},"IsPastDue":true}`, `{"ScheduleStatus":null}`)
}

func FuzzHTTPRequest(f *testing.F) {
	fuzzData(f, "HTTP",
		`{"Method":"POST","Url":"http://h/api/a/b?q=1","Headers":{"X-Seen":["a","b"],"Content-Type":"text/plain"},"Body":"x","Params":null,"Query":{"q":"1"}}`,
		`{"Method":"PUT","Url":"/API/%zz?","Headers":{"Content-Type":["application/octet-stream"]},"Body":"/w=="}`,
		`{"Method":"HEAD","Url":"://?","Query":"{\"q\":[1]}"}`)
}

func FuzzMetadata(f *testing.F) {
	for _, seed := range []string{`{"a":"\"1\""}`, `{"a":1,"A":"2026-01-02T03:04:05.1234567Z"}`, `{"a":[]}`, `{"a":""}`} {
		f.Add(seed, "a")
	}
	f.Fuzz(func(t *testing.T, text, name string) {
		var md Metadata
		if json.Unmarshal([]byte(text), &md) != nil {
			return
		}
		if at := md.Time(name); at.Year() == 1 && !at.IsZero() {
			t.Errorf("Time(%q) = %v, want the zero time for never", name, at)
		}
		_ = md.Int(name)
		if raw, ok := md[name]; ok && raw != nil {
			md = Metadata{name: encodeText(md.Text(name))}
			if md.Text(name) != (Metadata{name: raw}).Text(name) && !isNull(raw) {
				t.Errorf("Text of %s changes on its way through the host's encoding: %q", raw, md.Text(name))
			}
		}
	})
}

// FuzzQueueText: a text goes through the client's encoding and the server's decoding unchanged, byte for byte, and so
// do the texts a function emits.
func FuzzQueueText(f *testing.F) {
	for _, text := range messageTexts {
		f.Add(text)
	}
	app := New(quiet())
	app.Queue("Echo", "msg", func(ctx context.Context, m QueueMessage) error { return Emit(ctx, "outq", m.Text) })
	app.ServiceBusBatch("EchoMany", "msg", func(ctx context.Context, ms []ServiceBusMessage) error {
		return Emit(ctx, "outq", ms[0].Text)
	})
	f.Fuzz(func(t *testing.T, text string) {
		if !utf8.ValidString(text) {
			return // a message of the host is always text
		}
		single := Trigger{Function: "Echo", Binding: "msg"}.Queue(QueueMessage{Text: text})
		many, err := Trigger{Function: "EchoMany", Binding: "msg", DataType: "string"}.ServiceBusBatch([]ServiceBusMessage{{Text: text}})
		if err != nil {
			t.Fatal(err)
		}
		for function, e := range map[string]Envelope{"Echo": single, "EchoMany": many} {
			w := post(app, "/"+function, string(encode(e)))
			a, err := judge(function, w.Code, w.Header().Get("Content-Type"), w.Body.Bytes())
			if err != nil {
				t.Fatal(err)
			}
			for _, kind := range []string{"queue", "serviceBus"} {
				got, err := a.Messages(Output{Name: "outq", Type: kind})
				if err != nil || len(got) != 1 || string(got[0]) != text {
					t.Fatalf("%s: text %q came back as %q, %v", function, text, got, err)
				}
			}
		}
	})
}

// FuzzReadJSON: what is accepted is what was sent. U+FFFD, which encoding/json puts where it found no text, is there
// no more often than the caller wrote it.
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
		switch {
		case err == nil && (changed || v != loose):
			t.Errorf("%q was accepted as %q", body, v.Text)
		case err == nil && !utf8.ValidString(body):
			t.Errorf("%q is no UTF-8, and was accepted", body)
		}
	})
}

func FuzzAnswer(f *testing.F) {
	for _, seed := range []string{`{}`, `null`, ` `, `{"Outputs":{"res":{"statusCode":1}},"Logs":["a"],"ReturnValue":null}`, `{"Logs":[{}]}`, `[]`, `{"outputs":[]}`, `{"Outputs":`} {
		f.Add(200, "application/json", seed)
	}
	f.Add(404, "", "")
	f.Fuzz(func(t *testing.T, status int, contentType, body string) {
		a, err := judge("f", status, contentType, []byte(body))
		if err != nil {
			refused, ok := errors.AsType[*AnswerError](err)
			if !ok || refused.Reason == nil || err.Error() == "" {
				t.Fatalf("judge = %v, want an AnswerError with its reason", err)
			}
			return
		}
		if _, err := judge("f", 200, "application/json", encode(a)); err != nil {
			t.Errorf("an answer taken from %q is not taken again: %v", body, err)
		}
	})
}

func FuzzOutputs(f *testing.F) {
	for _, seed := range []string{`null`, `"test"`, `["a",null,{},1.5e300]`, `{"statusCode":"201","headers":{"a":1},"body":{"b":[]}}`, `"{\"body\":1}"`, `"[1,"`, `1e999`, `{"headers":{"a":null}}`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, value string) {
		if !json.Valid([]byte(value)) {
			value = string(encode(value))
		}
		a, err := judge("f", 200, "application/json", []byte(`{"Outputs":{"x":`+value+`},"ReturnValue":`+value+`}`))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"x", "$return"} {
			if res, err := a.HTTP(name); err == nil && (res.Status < 200 || res.Header == nil) {
				t.Errorf("HTTP of %s = %+v, want an answer or an error", value, res)
			}
			for _, out := range []Output{{Name: name, Type: "queue"}, {Name: name, Type: "serviceBus", DataType: "binary"}} {
				_, _ = a.Messages(out)
			}
		}
	})
}

// FuzzRoute: a forwarded call always gets an answer, and errors are JSON.
func FuzzRoute(f *testing.F) {
	for _, path := range []string{"/", "/api/", "/API/x/", "/api//x", "/api/../x", "/api/a%2Fb", "/%61pi/x", "/Queue", "//"} {
		f.Add("GET", path)
	}
	f.Add("", "/api/x")
	app := New(quiet())
	for _, pattern := range []string{"GET /api/x/{id}", "POST /api/x/{id}", "/api/y/{rest...}", "GET /api/z/{$}"} {
		app.HTTP("F", "req", http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), pattern)
	}
	f.Fuzz(func(t *testing.T, method, path string) {
		u, err := url.ParseRequestURI(path)
		if err != nil || !strings.HasPrefix(u.Path, "/") || method == http.MethodConnect {
			return // net/http does not pass these on
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
