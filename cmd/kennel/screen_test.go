package main

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"kennel/internal/dev/localhost"
	devrun "kennel/internal/dev/run"
)

// upScreen returns a screen without a terminal, and what it has written, with
// times of day replaced.
func upScreen(asJSON, verbose bool) (s *screen, written func() (stdout, stderr string)) {
	var out, errs bytes.Buffer
	s = newConsole([]string{"bin/kennel", "up"}, nil, nil, &out, &errs).newScreen(asJSON, verbose)
	times := regexp.MustCompile(`(?m)^\d\d:\d\d:\d\d`)
	return s, func() (string, string) { return out.String(), times.ReplaceAllString(errs.String(), "TIME") }
}

func TestScreen(t *testing.T) {
	s, written := upScreen(false, false)
	for _, e := range []devrun.Event{
		{Event: "starting", Host: "builtin", Storage: "azurite", Bus: "devbus", Data: "kept\x1b"},
		{Event: "step", Step: "handler", Text: "building"},
		{Event: "step", Step: "bus", Text: "2, in memory", Done: true, Seconds: 0.001},
		{Event: "step", Step: "handler", Text: "built", Done: true, Seconds: 1.14},
		{Event: "warning", Text: "Host.CORS is ignored"},
		{Event: "step", Step: "functions", Text: "the handler does not start", Done: true, Failed: true, Seconds: 0.2},
		{Event: "ready", URL: "http://127.0.0.1:7080", Functions: []string{"Channels", "NextOrderId", "Unleash"}, Console: "http://127.0.0.1:7080/api/console", Key: "k", Seconds: 2.44,
			StorageFaults: "http://127.0.0.1:10000/faults", ServiceBusFaults: "http://127.0.0.1:1/faults", ServiceBusSecondaryFaults: "http://127.0.0.1:2/faults", Entities: []string{"orders", "eu/invoices"}},
	} {
		if err := s.report(e); err != nil {
			t.Fatal(err)
		}
	}
	s.served(localhost.Request{Method: "POST", Path: "/api/sequences/orders/next", Status: 200, Duration: 3 * time.Millisecond})
	s.served(localhost.Request{Method: "GET", Path: "/api/gates/h/wait", Status: 503, Duration: 12345 * time.Millisecond})
	s.served(localhost.Request{Method: "GET", Path: "/api/console/api/status", Status: 200})
	s.served(localhost.Request{Method: "GET", Path: "/api/console/api/status", Status: 503})
	s.served(localhost.Request{Method: "POST", Path: "/api/console/api/gates/h/close", Status: 200})
	for _, piece := range []string{"half a ", "line\x1b[31m\r\n{\"level\":\"INFO\",\"msg\":\"x\",\"logger\":\"kennel\"}\n", `{"level":"WARN","msg":"a b","n":1}` + "\nlast"} {
		fmt.Fprint(s, piece)
	}
	s.count()() // writes the last line
	if err := s.report(devrun.Event{Event: "stopped"}); err != nil {
		t.Fatal(err)
	}
	stdout, stderr := written()
	_, stdout, _ = strings.Cut(stdout, "  ") // without the version
	same(t, "stdout", `built-in host, data in kept`+"\ufffd"+`

  - bus        2, in memory
  - handler    built                                          1.1 s
  failed: functions  the handler does not start                     0.2 s

  ready in 2.4 s

  console    http://127.0.0.1:7080/api/console
  API        http://127.0.0.1:7080/api
  reference  http://127.0.0.1:7080/api/openapi.yaml
  faults     http://127.0.0.1:10000/faults, of storage
             http://127.0.0.1:1/faults, of the primary bus
             http://127.0.0.1:2/faults, of the secondary one
  queues     orders, eu/invoices

  Try, in a second terminal:
    bin/kennel next --count 3 --key k
    bin/kennel channels create news --owner ann --key k
    bin/kennel gate wait hounds --key k

  and in a third one, while it waits:
    bin/kennel gate release hounds --key k

  Ctrl+C stops everything. Below: requests, warnings and errors; the whole log: --verbose.

stopped
`, stdout)
	same(t, "stderr", `TIME  WARN Host.CORS is ignored
TIME  POST   /api/sequences/orders/next                     200     3 ms
TIME  GET    /api/gates/h/wait                              503   12.3 s
TIME  GET    /api/console/api/status                        503     0 ms
TIME  POST   /api/console/api/gates/h/close                 200     0 ms
half a line`+"\ufffd"+`[31m
WARN a b  n=1
last
`, stderr)
}

// With --verbose on a terminal, a step that runs is a line between those of the
// log. TestScreen shows that a pipe has no such line.
func TestScreenOfSteps(t *testing.T) {
	s, written := upScreen(false, true)
	s.progress = true
	if err := s.report(devrun.Event{Event: "step", Step: "handler", Text: "building\x1b"}); err != nil {
		t.Fatal(err)
	}
	stdout, stderr := written()
	same(t, "stdout", "", stdout)
	same(t, "stderr", "  handler: building\ufffd\n", stderr)
}

// A line without an end is shown in parts, and not kept.
func TestScreenSplitsLines(t *testing.T) {
	s, written := upScreen(false, false)
	for range 3 {
		fmt.Fprint(s, strings.Repeat("x", maxPartial))
	}
	_, stderr := written()
	if len(s.partial) > maxPartial || strings.Count(stderr, "xxx …\n") != 1 {
		t.Errorf("%d bytes are kept, and shown is %q", len(s.partial), stderr)
	}
}

// The whole log is written as it is with --verbose and with --json.
func TestScreenKeepsTheLog(t *testing.T) {
	const log = "half a \x1b[31mline\n" + `{"level":"INFO","msg":"x"}`
	for _, asJSON := range []bool{false, true} {
		s, written := upScreen(asJSON, !asJSON)
		fmt.Fprint(s, log)
		s.served(localhost.Request{Method: "GET", Path: "/", Status: 200})
		stdout, stderr := written()
		if !strings.HasPrefix(stderr, log) || asJSON && stderr != log || stdout != "" {
			t.Errorf("JSON %v: got %q and %q, want the log %q", asJSON, stdout, stderr, log)
		}
	}
}

func TestScreenAsJSON(t *testing.T) {
	s, written := upScreen(true, false)
	for _, e := range []devrun.Event{
		{Event: "step", Step: "handler", Text: "building"},
		{Event: "ready", URL: "http://127.0.0.1:7071"},
	} {
		if err := s.report(e); err != nil {
			t.Fatal(err)
		}
	}
	stdout, stderr := written()
	same(t, "stdout", `{"event":"step","step":"handler","text":"building"}
{"event":"ready","url":"http://127.0.0.1:7071"}
`, stdout)
	same(t, "stderr", "", stderr)
}

// On a terminal a step that runs is counted in one line, which each other line
// replaces.
func TestScreenCounts(t *testing.T) {
	s, written := upScreen(false, false)
	s.progress, s.live = true, true
	for _, e := range []devrun.Event{
		{Event: "step", Step: "storage", Text: "starting"},
		{Event: "step", Step: "handler", Text: "building"},
		{Event: "step", Step: "storage", Text: "installing Azurite 3.37.0 (once, 60 MB)"},
		{Event: "warning", Text: "careful"},
		{Event: "step", Step: "storage", Done: true, Text: "installed"},
		{Event: "step", Step: "handler", Done: true, Text: "built"},
	} {
		if err := s.report(e); err != nil {
			t.Fatal(err)
		}
	}
	_, stderr := written()
	line := func(doing string) string { return fmt.Sprintf("  … %-66s     0 s", doing) }
	const erase = "\r\x1b[K"
	both := line("storage: installing Azurite 3.37.0 (once, 60 MB), handler: building"[:65] + "…")
	same(t, "stderr", line("storage: starting")+erase+line("storage: starting, handler: building")+erase+both+
		erase+"TIME  WARN careful\n"+both+erase+line("handler: building")+erase,
		regexp.MustCompile(`\d\d:\d\d:\d\d`).ReplaceAllString(stderr, "TIME"))
}

// TestProgressIsNarrow checks that the line that counts seconds never wraps: one
// that does cannot be erased.
func TestProgressIsNarrow(t *testing.T) {
	for terminal, want := range map[int]int{0: 79, 200: 79, 80: 79, 60: 59, 20: 19} {
		s, written := upScreen(false, false)
		s.progress, s.live, s.columns = true, true, func() int { return terminal }
		for _, e := range []devrun.Event{
			{Event: "step", Step: "handler", Text: "building"},
			{Event: "step", Step: "storage", Text: "installing Azurite 3.37.0 (once, 60 MB), which takes a while"},
		} {
			if err := s.report(e); err != nil {
				t.Fatal(err)
			}
		}
		_, stderr := written()
		for line := range strings.SplitSeq(stderr, "\r\x1b[K") {
			if n := utf8.RuneCountInString(line); n > want || !strings.HasPrefix(line, "  … h") {
				t.Errorf("%d columns: a line of %d: %q", terminal, n, line)
			}
		}
	}
}

// TestFailedStarts: what each start that fails repeats is shown once, and the
// lines of a handler that was ready are shown each time.
func TestFailedStarts(t *testing.T) {
	var out, errs bytes.Buffer
	s := newConsole([]string{"kennel"}, nil, nil, &out, &errs).newScreen(false, false)
	const stamp = "[2026-01-02T03:04:05.000Z] "
	crash := func(how string, n int) {
		fmt.Fprintf(s, stamp+"The handler %s: error %d of 3 (the host stops at the third, each within 30 minutes of the previous one). It is restarted.\n", how, n)
	}
	start := func() {
		fmt.Fprintln(s, `{"time":"2026-01-02T03:04:0`+fmt.Sprint(len(errs.String())%10)+`Z","level":"WARN","msg":"slow"}`)
		fmt.Fprintln(s, "shop: start the program: no database")
	}
	start()
	crash("exited with code 1 before it was ready", 1)
	start()
	fmt.Fprintln(s, "shop: start the program: no database") // once more than before
	crash("exited with code 1 before it was ready", 2)
	start()
	fmt.Fprintln(s, stamp+"Exceeded http worker restart retry count. Shutting down Functions Host. The handler exited with code 1 before it was ready.")
	if n := strings.Count(errs.String(), "no database"); n != 2 || strings.Count(errs.String(), "slow") != 1 || strings.Contains(errs.String(), "Exceeded") || !strings.Contains(errs.String(), "error 2 of 3") {
		t.Errorf("the failed starts are shown as\n%s", errs.String())
	}
	for range 2 {
		crash("exited with code 2", 1)
		errs.Reset()
		start()
		if text := errs.String(); !strings.Contains(text, "no database") || !strings.Contains(text, "slow") {
			t.Errorf("a start after a crash of a handler that was ready is shown as\n%s", text)
		}
	}
}
