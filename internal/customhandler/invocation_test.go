package customhandler

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestInvocationID(t *testing.T) {
	tests := []struct {
		name   string
		values []string
		want   string
	}{
		{"none", nil, ""},
		{"one", []string{"host"}, "host"},
		{"a client's first", []string{"client", "host"}, "host"},
		{"a client's before a comma", []string{"client, host"}, "host"},
		{"two of a client's before commas", []string{"client,proxy,host"}, "host"},
		{"both", []string{"client", "client, host "}, "host"},
		{"a flood", []string{strings.Repeat("x", 1<<20)}, strings.Repeat("x", 128)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := http.Header{}
			for _, v := range tt.values {
				h.Add("X-Azure-Functions-InvocationId", v)
			}
			if got := invocationID(h); got != tt.want {
				t.Errorf("invocationID = %q, want %q", got, tt.want)
			}
		})
	}
}

func TestInvocationIDReachesFunctions(t *testing.T) {
	var got string
	app := New(quiet())
	app.Queue("Work", "msg", func(ctx context.Context, _ QueueMessage) error {
		got = InvocationID(ctx)
		return nil
	})
	post(app, "/Work", queueEnvelope)
	if got != "inv-1" {
		t.Errorf("InvocationID = %q, want inv-1", got)
	}
	if got := InvocationID(t.Context()); got != "" {
		t.Errorf("InvocationID outside of an invocation = %q, want none", got)
	}
}

func TestEmit(t *testing.T) {
	texts := []string{"plain", "test", "abcd1234", "", `{"a":1}`, "[1]", "null", `"quoted"`, "<&>\n", "ünï"}
	app := New(quiet())
	app.Queue("Work", "msg", func(ctx context.Context, _ QueueMessage) error {
		return errors.Join(Emit(ctx, "outq", texts...), Emit(ctx, "outq", "more"), Emit(ctx, "other"))
	})
	app.Queue("Fails", "msg", func(ctx context.Context, _ QueueMessage) error {
		return errors.Join(Emit(ctx, "outq", "text"), errors.New("no room"))
	})
	app.HTTP("Submit", "req", HandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
		w.WriteHeader(http.StatusAccepted)
		return Emit(r.Context(), "outq", "text")
	}), "/api/submit")

	w := post(app, "/Work", queueEnvelope)
	answer, err := judge("Work", w.Code, w.Header().Get("Content-Type"), w.Body.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	messages, err := answer.Messages(Output{Name: "outq", Type: "queue"})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range messages {
		got = append(got, string(m))
	}
	if diff := cmp.Diff(append(texts, "more"), got); diff != "" {
		t.Errorf("texts through the host's rules (-want +got):\n%s", diff)
	}
	if got := string(answer.Outputs["other"]); got != "[]" {
		t.Errorf("no texts = %s, want an array all the same", got)
	}

	if w := post(app, "/Fails", queueEnvelope); w.Code != 500 || strings.Contains(w.Body.String(), "Outputs") {
		t.Errorf("failed invocation = %d %s, want 500 without outputs", w.Code, w.Body)
	}

	w = post(app, "/Submit", `{"Data":{"req":{"Method":"POST","Url":"http://h/api/submit"}}}`)
	if got := string(wantObject(t, w)["Outputs"]); !strings.Contains(got, `"outq":["text"]`) || !strings.Contains(got, `"statusCode":202`) {
		t.Errorf("HTTP function with a queue output = %s, want both", got)
	}

	if err := Emit(t.Context(), "outq", "x"); !errors.Is(err, ErrNoOutputs) {
		t.Errorf("Emit outside of an invocation = %v, want ErrNoOutputs", err)
	}
}

func TestLogHandler(t *testing.T) {
	ctx := context.WithValue(t.Context(), invocationKey{}, &invocation{id: "inv-1", function: "Work"})
	tests := []struct {
		name string
		log  func(*slog.Logger)
		want string
	}{
		{"outside", func(l *slog.Logger) { l.Info("m", "a", 1) }, "a=1"},
		{"inside", func(l *slog.Logger) { l.InfoContext(ctx, "m", "a", 1) }, "a=1 invocation=inv-1 function=Work"},
		{"with attributes", func(l *slog.Logger) { l.With("a", 1).InfoContext(ctx, "m") }, "a=1 invocation=inv-1 function=Work"},
		{"beside groups, not in them", func(l *slog.Logger) {
			l.With("a", 1).WithGroup("g").With("b", 2).WithGroup("h").InfoContext(ctx, "m", "c", 3)
		}, "a=1 invocation=inv-1 function=Work g.b=2 g.h.c=3"},
		{"group outside", func(l *slog.Logger) { l.WithGroup("g").Info("m", "c", 3) }, "g.c=3"},
		{"empty group", func(l *slog.Logger) { l.WithGroup("").InfoContext(ctx, "m") }, "invocation=inv-1 function=Work"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var b bytes.Buffer
			h := NewLogHandler(NewLogHandler(slog.NewTextHandler(&b, nil))) // twice is once
			tt.log(slog.New(h))
			_, got, _ := strings.Cut(strings.TrimSpace(b.String()), "msg=m ")
			if got != tt.want {
				t.Errorf("log = %q, want %q", got, tt.want)
			}
		})
	}
	if NewLogHandler(slog.NewTextHandler(nil, nil)).Enabled(ctx, slog.LevelDebug) {
		t.Error("the level of the handler underneath is not asked")
	}
}
