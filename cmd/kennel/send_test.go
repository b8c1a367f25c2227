package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"kennel/client"
)

func TestParseProperties(t *testing.T) {
	got, err := parseProperties([]string{"region=eu", "empty=", "sum=1+1=2", "n:=12", "big:=1e3", "half:=0.5", "no:=false", "yes:=true"})
	if err != nil {
		t.Fatal(err)
	}
	same(t, "properties", map[string]any{
		"region": "eu", "empty": "", "sum": "1+1=2",
		"n": int64(12), "big": 1000.0, "half": 0.5, "no": false, "yes": true,
	}, got)
	for text, list := range map[string][]string{
		`--property is "region"; use NAME=TEXT`: {"region"},
		`--property is "=eu"; use`:              {"=eu"},
		`--property is ":=1"; use`:              {":=1"},
		`--property region is given twice`:      {"region=eu", "region:=1"},
		`has the value "eu"; after := use`:      {"region:=eu"},
		`has the value "0x1F"; after`:           {"n:=0x1F"},
		`has the value "null"; after`:           {"n:=null"},
		`has the value "1e999"; after`:          {"n:=1e999"},
		`has the value "NaN"; after`:            {"n:=NaN"},
	} {
		_, err := parseProperties(list)
		expectError(t, text, err, text)
	}
}

// A sink is an app that stores messages, or answers what reply returns.
type sink struct {
	reply func(ctx context.Context, body string) (*answer, error) // nil for both: store it

	mu     sync.Mutex
	stored map[string]string // body by ID
	bodies []string          // as they arrived
}

func (s *sink) serve(r *http.Request) (answer, error) {
	body, err := io.ReadAll(r.Body)
	var properties struct {
		MessageID string `json:"MessageId"`
	}
	if err := errors.Join(err, json.Unmarshal([]byte(r.Header.Get("BrokerProperties")), &properties)); err != nil {
		return answer{}, err
	}
	s.mu.Lock()
	s.bodies = append(s.bodies, string(body))
	s.mu.Unlock()
	if a, err := s.reply(r.Context(), string(body)); err != nil {
		return answer{}, err
	} else if a != nil {
		return *a, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stored[properties.MessageID] = string(body)
	sentTo := client.SentToPrimary
	if strings.HasSuffix(string(body), "b") {
		sentTo = client.SentToBacklog
	}
	return answer{201, "application/json", fmt.Sprintf(`{"messageId":%q,"sentTo":%q}`, properties.MessageID, sentTo), nil}, nil
}

// replies answers messages by their bodies.
func replies(answers map[string]answer) func(context.Context, string) (*answer, error) {
	return func(_ context.Context, body string) (*answer, error) {
		if a, ok := answers[body]; ok {
			return &a, nil
		}
		return nil, nil
	}
}

func numbered(n int) string {
	var text strings.Builder
	for i := range n {
		fmt.Fprintf(&text, "m%d\n", i+1)
	}
	return text.String()
}

func TestSendLines(t *testing.T) {
	for _, tt := range []struct {
		name    string
		in      string
		session string
		asJSON  bool
		reply   func(context.Context, string) (*answer, error)
		stored  map[string]string // nil: not checked
		stdout  string            // expressions
		stderr  string
		err     string
		code    string
	}{
		{
			name: "all, to the primary and to the backlog", in: "a\r\n\nb\n{}",
			stored: map[string]string{"k-1": "a", "k-3": "b", "k-4": "{}"},
			stdout: `^3 messages sent to orders: 2 to the primary, 1 to the backlog\n$`,
		},
		{
			name: "in JSON", in: "a\nx\nb\n", session: "s", asJSON: true,
			stdout: `^{"line":1,"messageId":"k-1","sentTo":"primary"}\n{"line":2,"messageId":"k-2","sentTo":"primary"}\n{"line":3,"messageId":"k-3","sentTo":"backlog"}\n$`,
		},
		{name: "no lines", in: "\n\n", stored: map[string]string{}, stdout: `^0 messages sent to orders\n$`},
		{
			name: "a line that no namespace accepts leaves the others alone", in: numbered(100),
			reply:  replies(map[string]answer{"m7": appError(413, "message_too_large", nil), "m8": appError(413, "message_too_large", nil), "m50": appError(413, "message_too_large", nil)}),
			stdout: `^97 messages sent to orders\n$`,
			err:    `^3 lines not sent:\n  lines 7-8, 50: the app returned 413 message_too_large: broken\nto send the lines again, repeat the command with --id k: if orders detects duplicates, no message is stored twice$`,
			code:   "message_too_large",
		},
		{
			name: "an unclear send", in: "a\nx\nc\n",
			reply:  replies(map[string]answer{"x": appError(504, "send_unclear", nil)}),
			stored: map[string]string{"k-1": "a", "k-3": "c"},
			stdout: `^2 messages sent to orders\n$`,
			err:    `^1 line not sent:\n  line 2: the app returned 504 send_unclear: broken\nto send the lines again`,
			code:   "send_unclear",
		},
		{
			name: "nothing but an unclear send", in: "x\n",
			reply:  replies(map[string]answer{"x": appError(504, "send_unclear", nil)}),
			stored: map[string]string{},
			stdout: `^0 messages sent to orders\n$`,
			err:    `^1 line not sent:\n  line 1: the app returned 504 send_unclear: broken\nto send the lines again`,
			code:   "send_unclear",
		},
		{
			name: "the app rejects every line", in: numbered(200),
			reply: func(context.Context, string) (*answer, error) {
				a := appError(404, "entity_not_found", nil)
				return &a, nil
			},
			stored: map[string]string{},
			stdout: `^0 messages sent to orders\n$`,
			err:    `^([1-9]|1[0-6]) lines? not sent:\n  lines? [-\d, ]+: the app returned 404 entity_not_found: broken\nline \d+ is the last one that was tried$`,
			code:   "entity_not_found",
		},
		{
			name: "both namespaces do not work", in: numbered(200),
			reply: func(context.Context, string) (*answer, error) {
				a := appError(503, "bus_unavailable", nil)
				return &a, nil
			},
			stored: map[string]string{},
			stdout: `^0 messages sent to orders\n$`,
			err:    `^[23]\d lines not sent:\n  lines [-\d, ]+: the app returned 503 bus_unavailable: broken\nline \d+ is the last one that was tried$`,
			code:   "bus_unavailable",
		},
		{
			name: "different reasons", in: "m\nx\ny\nz\n",
			reply:  replies(map[string]answer{"x": appError(413, "message_too_large", nil), "y": appError(400, "bad_message", nil)}),
			stored: map[string]string{"k-1": "m", "k-4": "z"},
			stdout: `^2 messages sent to orders\n$`,
			err:    `^2 lines not sent:\n  line 2: .* message_too_large: broken\n  line 3: .* bad_message: broken\nto send the lines again`,
			code:   "failed",
		},
		{
			name: "of a session, none after the first that fails", in: numbered(50), session: "s",
			reply:  replies(map[string]answer{"m3": appError(413, "message_too_large", nil)}),
			stored: map[string]string{"k-1": "m1", "k-2": "m2"},
			stdout: `^2 messages sent to orders\n$`,
			err:    `^1 line not sent:\n  line 3: .* message_too_large: broken\nline 3 is the last one that was tried\nto send the lines again`,
			code:   "message_too_large",
		},
		{
			name: "a busy namespace is reported once", in: numbered(1), stderr: `^the app returned 503 bus_busy: broken \(request 1\); retrying\n$`,
			reply: func() func(context.Context, string) (*answer, error) {
				tries := 0
				return func(context.Context, string) (*answer, error) {
					if tries++; tries > 3 {
						return nil, nil
					}
					a := appError(503, "bus_busy", map[string]string{"Retry-After": "1", "X-Request-Id": fmt.Sprint(tries)})
					return &a, nil
				}
			}(),
			stored: map[string]string{"k-1": "m1"},
			stdout: `^1 message sent to orders\n$`,
		},
		{
			name: "a line that is too long", in: "a\n" + strings.Repeat("x", maxMessage+1) + "\nb\n", session: "s",
			stored: map[string]string{"k-1": "a"},
			stdout: `^1 message sent to orders\n$`,
			err:    `^a line has more than 1048576 bytes, which no namespace of the app accepts\nline 1 is the last one that was tried\nto send the lines again`,
			code:   "failed",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &sink{reply: tt.reply, stored: make(map[string]string)}
				if s.reply == nil {
					s.reply = replies(nil)
				}
				var out, errs bytes.Buffer
				con := &console{stdin: strings.NewReader(tt.in), stdout: &out, stderr: &errs, env: map[string]string{}}
				o := sendOptions{message: client.Message{ID: "k", SessionID: tt.session}, lines: true, target: target{asJSON: tt.asJSON}}
				err := con.send(t.Context(), appOf(t, s.serve, nil), "orders", "-", o)
				if err == nil != (tt.err == "") || err != nil && !regexp.MustCompile(tt.err).MatchString(err.Error()) {
					t.Errorf("got error %v, want %s", err, tt.err)
				}
				if f, _ := classify(t.Context(), cmp.Or(err, io.EOF)); err != nil && f.Code != tt.code {
					t.Errorf("got code %s, want %s", f.Code, tt.code)
				}
				if !regexp.MustCompile(tt.stdout).MatchString(out.String()) {
					t.Errorf("got standard output %q, want %s", out.String(), tt.stdout)
				}
				if !regexp.MustCompile(cmp.Or(tt.stderr, `^$`)).MatchString(errs.String()) {
					t.Errorf("got standard error %q, want %s", errs.String(), tt.stderr)
				}
				if tt.stored != nil {
					same(t, "stored", tt.stored, s.stored)
				}
			})
		})
	}
}

// The lines of a session are sent in order, the others side by side.
func TestSendLinesInOrder(t *testing.T) {
	for session, most := range map[string]int{"": parallelLines, "s": 1} {
		synctest.Test(t, func(t *testing.T) {
			in := strings.ReplaceAll(numbered(100), "m", strings.Repeat("m", 300)) // more than is read at a time
			running, atOnce := 0, 0
			var mu sync.Mutex
			s := &sink{stored: make(map[string]string)}
			s.reply = func(ctx context.Context, _ string) (*answer, error) {
				mu.Lock()
				running++
				atOnce = max(atOnce, running)
				mu.Unlock()
				err := pause(ctx, time.Second)
				mu.Lock()
				running--
				mu.Unlock()
				return nil, err
			}
			con := &console{stdin: strings.NewReader(in), stdout: io.Discard, stderr: io.Discard, env: map[string]string{}}
			err := con.send(t.Context(), appOf(t, s.serve, nil), "orders", "-", sendOptions{message: client.Message{ID: "k", SessionID: session}, lines: true})
			if err != nil || atOnce != most || len(s.stored) != 100 {
				t.Errorf("session %q: %v, %d messages, up to %d at once, want 100 and %d", session, err, len(s.stored), atOnce, most)
			}
			for i, line := range slices.Collect(strings.Lines(in)) {
				line = strings.TrimSuffix(line, "\n")
				if got := s.stored[fmt.Sprintf("k-%d", i+1)]; got != line {
					t.Errorf("session %q: line %d is stored as %q", session, i+1, got)
				}
				if session != "" && s.bodies[i] != line {
					t.Errorf("session %q: line %d is not the one that arrived as number %[2]d", session, i+1)
				}
			}
		})
	}
}

// TestSendLinesInterrupted checks that Ctrl+C ends a command at once, and that it
// reports which lines may have been sent.
func TestSendLinesInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &sink{stored: make(map[string]string)}
		s.reply = func(ctx context.Context, body string) (*answer, error) {
			if body == "m1" || body == "m2" {
				return nil, nil
			}
			return nil, pause(ctx, time.Hour)
		}
		ctx, interrupt := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { interrupt(interrupted{os.Interrupt}) })
		var out bytes.Buffer
		con := &console{stdin: strings.NewReader(numbered(100)), stdout: &out, stderr: io.Discard, env: map[string]string{}}
		began := time.Now()
		err := con.send(ctx, appOf(t, s.serve, nil), "orders", "-", sendOptions{message: client.Message{ID: "k"}, lines: true})
		f, code := classify(ctx, err)
		want := `^16 lines not sent:\n  lines 3-18: no response from http://app.example: interrupted; the message may have been sent\ninterrupted\nline 18 is the last one that was tried\nto send the lines again, repeat the command with --id k: if orders detects duplicates, no message is stored twice$`
		if !regexp.MustCompile(want).MatchString(f.Message) || f.Code != "interrupted" || code != 130 {
			t.Errorf("got code %d, %+v, want %s", code, f, want)
		}
		same(t, "standard output", "2 messages sent to orders\n", out.String())
		if d := time.Since(began); d != time.Second {
			t.Errorf("it ended after %v, want 1s", d)
		}
	})
}

// A user who tries the app locally may not know that a queue has to exist.
func TestSendToNoQueue(t *testing.T) {
	_, _, stderr := call(t, nil, "send", "orders", os.DevNull, "--url", serving(t, appError(404, "entity_not_found", nil)))
	if want := "entity_not_found: broken `kennel up --entity NAME` starts an app with the queue NAME.\n"; !strings.HasSuffix(stderr, want) {
		t.Errorf("got %s, want %s", stderr, want)
	}
}

func TestSendOne(t *testing.T) {
	stored := func(sentTo string) answer {
		return answer{201, "application/json", `{"messageId":"k","sentTo":"` + sentTo + `"}`, nil}
	}
	for _, tt := range []struct {
		name, in string
		answer   answer
		stdout   string
		err      string
	}{
		{"to the primary", "a\nb\n", stored("primary"), "message k is in orders\n", ""},
		{"to the backlog", "", stored("backlog"), "message k is in the backlog, and will be moved to orders when that works again\n", ""},
		{"unclear", "a", appError(504, "send_unclear", nil), "", "504 send_unclear: broken; to send it again, repeat the command with --id k: if orders detects duplicates, no message is stored twice"},
		{"refused", "a", appError(404, "entity_not_found", nil), "", "the app returned 404 entity_not_found: broken"},
		{"too long", strings.Repeat("a", maxMessage+1), answer{}, "", "the message has more than 1048576 bytes, which no namespace of the app accepts; to send each line of a file, use --lines"},
	} {
		var out bytes.Buffer
		var bodies []string
		con := &console{stdin: strings.NewReader(tt.in), stdout: &out, stderr: io.Discard, env: map[string]string{}}
		app := appOf(t, func(r *http.Request) (answer, error) {
			body, err := io.ReadAll(r.Body)
			bodies = append(bodies, string(body))
			return tt.answer, err
		}, nil)
		err := con.send(t.Context(), app, "orders", "-", sendOptions{message: client.Message{ID: "k"}})
		expectError(t, tt.name, err, tt.err)
		same(t, tt.name, tt.stdout, out.String())
		if tt.answer.status != 0 {
			same(t, tt.name, []string{tt.in}, bodies)
		}
	}
}

func TestLineNumbers(t *testing.T) {
	for want, lines := range map[string][]int{
		"line 7":            {7},
		"lines 1-2":         {1, 2},
		"lines 1, 3-5, 9":   {1, 3, 4, 5, 9},
		"lines 1-16, 18-20": {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 18, 19, 20},
	} {
		same(t, want, want, lineNumbers(lines))
	}
}

func TestDescribeLines(t *testing.T) {
	r := &lineRun{entity: "orders", primary: 300, backlog: 200}
	same(t, "at once", "500 messages sent to orders: 300 to the primary, 200 to the backlog", r.describe(time.Millisecond))
	same(t, "later", "500 messages sent to orders: 300 to the primary, 200 to the backlog, 50/s", r.describe(10*time.Second))
}
