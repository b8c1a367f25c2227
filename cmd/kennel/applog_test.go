package main

import (
	"errors"
	"strings"
	"testing"
	"time"

	"kennel/internal/dev/localhost"
)

func TestReadLog(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	const stamp = `{"time":"2026-01-02T03:04:05Z",`
	for _, tt := range []struct {
		name, line string
		want       logEntry // zero: only with --verbose
	}{
		{"warning", stamp + `"level":"WARN","msg":"cannot read a gate; it counts as closed","gate":"hounds","tries":3,"error":"format has\n  the version 0"}`,
			logEntry{at, "WARN", "cannot read a gate; it counts as closed: format has the version 0  gate=hounds  tries=3"}},
		{"error of a call", stamp + `"level":"ERROR+2","msg":"failed","invocation":"6f1c","function":"Status","reason":"a b","other":{"a":1}}`,
			logEntry{at, "ERROR", `failed  function=Status  reason="a b"  other.a=1`}},
		{"groups", stamp + `"level":"INFO","msg":"order dispatched","attempt":{"queue":"orders","id":"A B","n":{"number":2,"error":"e"},"none":{}},"list":[{"a":1}]}`,
			logEntry{at, "", `order dispatched  attempt.queue=orders  attempt.id="A B"  attempt.n.number=2  attempt.n.error=e  attempt.none={}  list="[{\"a\":1}]"`}},
		{"deep groups", `{"level":"INFO","msg":"m","a":` + strings.Repeat(`{"a":`, 10) + `1` + strings.Repeat("}", 11),
			logEntry{text: `m  a.a.a.a.a.a.a.a.a="{\"a\":{\"a\":1}}"`}},
		{"panic", stamp + `"level":"ERROR","msg":"the function panicked","error":"panic: nil","stack":"goroutine 1: | main.f() x.go:7 | "}`,
			logEntry{at, "ERROR", "the function panicked: panic: nil\n          goroutine 1:\n          main.f() x.go:7"}},
		{"what a function has done", stamp + `"level":"INFO","msg":"channel deleted","logger":"kennel","channel":"news","function":"ChannelCleanup"}`,
			logEntry{at, "", "channel deleted  channel=news  function=ChannelCleanup"}},
		{"information", stamp + `"level":"INFO","msg":"ready","logger":"kennel","address":"127.0.0.1:7072"}`, logEntry{}},
		{"information of the program", stamp + `"level":"INFO","msg":"ready","address":"127.0.0.1:7072"}`, logEntry{at, "", "ready  address=127.0.0.1:7072"}},
		{"logger of the program", stamp + `"level":"INFO","msg":"ready","logger":"mail"}`, logEntry{at, "", "ready  logger=mail"}},
		{"details of a call", stamp + `"level":"DEBUG","msg":"channels swept","logger":"kennel","function":"ChannelSweep"}`, logEntry{}},
		{"record within a line of the host", "[2026-01-02T03:04:05.000Z] " + `{"time":"2026-01-02T03:04:05Z","level":"WARN","msg":"slow"}`,
			logEntry{at, "WARN", "slow"}},
		{"other JSON", `{"a":1}`, logEntry{text: `{"a":1}`}},
		{"two records in a line", `{"level":"WARN","msg":"a"}{"level":"WARN","msg":"b"}`, logEntry{text: `{"level":"WARN","msg":"a"}{"level":"WARN","msg":"b"}`}},
		{"half a record", `{"level":"WARN","msg":"a"`, logEntry{text: `{"level":"WARN","msg":"a"`}},

		{"execution begins", "[2026-01-02T03:04:05.000Z] Executing 'Status' (Reason='GET \"/api/status\"', Id=6f1c)", logEntry{}},
		{"execution succeeds", "[2026-01-02T03:04:05.000Z] Executed 'Status' (Succeeded, Id=6f1c, Duration=3ms)", logEntry{}},
		{"execution fails", "[2026-01-02T03:04:05.000Z] Executed 'ChannelCleanup' (Failed, Id=6f1c, Duration=3ms): status 500",
			logEntry{at, "ERROR", "ChannelCleanup failed after 3ms: status 500"}},
		{"execution fails in func", "[2026-01-02T03:04:05.000Z] Executed 'Functions.Status' (Failed, Id=6f1c, Duration=3ms)",
			logEntry{at, "ERROR", "Functions.Status failed after 3ms"}},
		{"route", "[2026-01-02T03:04:05.000Z] Serving Status: [any method] http://127.0.0.1:7071/api/status", logEntry{}},
		{"host started", "[2026-01-02T03:04:05.000Z] Host started: http://127.0.0.1:7071", logEntry{}},
		{"warning of the host", "[2026-01-02T03:04:05.000Z] WARNING: deep/function.json IS IGNORED.", logEntry{at, "WARN", "deep/function.json IS IGNORED."}},
		{"error of the host", "[2026-01-02T03:04:05.000Z] ERROR: function 'A' is not loaded: x", logEntry{at, "ERROR", "function 'A' is not loaded: x"}},
		{"crash", "[2026-01-02T03:04:05.000Z] The handler exited with code 2: error 1 of 3", logEntry{at, "", "The handler exited with code 2: error 1 of 3"}},
		{"last lines of a crash", "    goroutine 1 [running]:", logEntry{text: "    goroutine 1 [running]:"}},
		{"record among the last lines of a crash", "    " + `{"time":"2026-01-02T03:04:05Z","level":"WARN","msg":"slow"}`, logEntry{}},
		{"count of a failure", stamp + `"level":"ERROR","msg":"failed","error":"x","invocation":"6f1c","function":"Status","count":99}`,
			logEntry{at, "ERROR", "failed: x  function=Status  count=99"}},
		{"other text", "[odd] text", logEntry{text: "[odd] text"}},
		{"nothing", " ", logEntry{}},
		{"long", strings.Repeat("ä", 300), logEntry{text: strings.Repeat("ä", 250) + " …"}},
	} {
		got, shown := readLog(tt.line)
		if want := tt.want != (logEntry{}); shown != want {
			t.Errorf("%s: shown %v, want %v", tt.name, shown, want)
		} else if shown {
			same(t, tt.name, tt.want.text, got.text)
			same(t, tt.name, tt.want.level, got.level)
			same(t, tt.name, tt.want.at, got.at)
		}
	}
}

// After the last crash the lines of the handler are readable, whatever their
// level, and other errors are kept.
func TestExplainCrash(t *testing.T) {
	crash := &localhost.CrashError{How: "exited with code 2", Lines: []string{
		`{"level":"WARN","msg":"slow\u001b","gate":"hounds","error":"timeout"}`, `{"level":"INFO","msg":"ready"}`, "exit status 2"}}
	got := explainCrash(errors.Join(crash, errors.New("no space left"))).Error()
	_, lines, _ := strings.Cut(got, "\n")
	same(t, "lines", "    WARN slow\ufffd: timeout  gate=hounds\n    ready\n    exit status 2\nno space left", lines)
	for _, want := range []string{"crashed three times", "exited with code 2. ", "Correct the cause", "last lines on the handler's standard error:"} {
		if !strings.Contains(got, want) {
			t.Errorf("the text lacks %q: %s", want, got)
		}
	}
	if got := explainCrash(&localhost.CrashError{How: "exited with code 2"}).Error(); strings.Contains(got, "last lines") {
		t.Errorf("the text announces lines, and there are none: %s", got)
	}
}

// Nothing in the log can break the line that it is shown in.
func FuzzReadLog(f *testing.F) {
	f.Add(`{"time":"2026-01-02T03:04:05Z","level":"WARN","msg":"a\u001b[2J\nb","x\u0000":"y\r","error":"e"}`)
	f.Add("[2026-01-02T03:04:05.000Z] Executed 'A\x1b' (Failed, Id=1, Duration=2)")
	f.Fuzz(func(t *testing.T, line string) {
		if strings.Contains(line, "\n") || strings.Contains(line, `"stack"`) {
			return // the screen splits lines; a stack has several
		}
		e, shown := readLog(line)
		text := printable(e.text)
		if strings.ContainsAny(text, "\x00\x1b\r\n\u009b\u202e") {
			t.Errorf("%q is shown as %q", line, text)
		}
		if shown && len(e.text) > 520 {
			t.Errorf("shows %d bytes", len(e.text))
		}
	})
}
