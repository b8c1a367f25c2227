package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"kennel/internal/dev/localhost"
	devrun "kennel/internal/dev/run"
	"kennel/internal/version"
)

// A screen shows a run of "kennel up". The start and the addresses go to
// standard output; requests, warnings and errors to standard error, and on a
// terminal also progress: the steps that run are counted in a line that is
// replaced, or with --verbose written in lines between those of the log.
type screen struct {
	con      *console
	asJSON   bool       // write events as lines of JSON; the log stays as it is
	verbose  bool       // leave the log as it is
	progress bool       // show the steps that run
	live     bool       // … and count their seconds
	columns  func() int // of the terminal; 0 if it is unknown

	mu      sync.Mutex
	partial []byte   // an incomplete line of the log; guarded by mu
	running []upStep // that are not done; guarded by mu
	drawn   bool     // the line that counts seconds is there; guarded by mu

	starts starts
}

// upStep is a step of the start that is not done yet.
type upStep struct {
	name, text string
	began      time.Time
}

func (con *console) newScreen(asJSON, verbose bool) *screen {
	progress := !asJSON && con.showsProgress()
	return &screen{
		con: con, asJSON: asJSON, verbose: verbose,
		progress: progress, live: progress && !verbose,
		columns: func() int { return columns(con.stderr) },
	}
}

// count shows the seconds of the steps that run, until the function that it
// returns is called. After that there are no steps, and no lines of the log.
func (s *screen) count() (end func()) {
	done := make(chan struct{})
	var counting sync.WaitGroup
	if s.live {
		counting.Go(func() {
			ticker := time.NewTicker(200 * time.Millisecond)
			defer ticker.Stop()
			for {
				select {
				case <-ticker.C:
					s.write(s.con.stderr, "")
				case <-done:
					return
				}
			}
		})
	}
	return func() {
		close(done)
		counting.Wait()
		s.mu.Lock()
		s.running = nil // the step that failed
		partial := len(s.partial) > 0
		s.mu.Unlock()
		if partial {
			s.Write([]byte("\n"))
		}
		s.write(s.con.stderr, "")
	}
}

// report shows an event.
func (s *screen) report(e devrun.Event) error {
	if s.asJSON {
		line, err := json.Marshal(e)
		if err != nil {
			return err
		}
		return s.write(s.con.stdout, string(line)+"\n")
	}
	switch e.Event {
	case "starting":
		return s.write(s.con.stdout, s.header(e))
	case "step":
		return s.showStep(e)
	case "warning":
		return s.show(logEntry{at: time.Now(), level: "WARN", text: e.Text})
	case "attach":
		return s.write(s.con.stdout, environmentOf(e))
	case "restarted":
		return s.write(s.con.stdout, fmt.Sprintf("  %s in %.1f s\n", s.con.paint(s.con.stdout, green, "restarted"), e.Seconds))
	case "ready":
		return s.write(s.con.stdout, s.addresses(e))
	default:
		return s.write(s.con.stdout, e.Event+"\n")
	}
}

// header is the first line: the project, and its address.
func (s *screen) header(e devrun.Event) string {
	name := "Kennel " + version.Read().Version
	where := map[string]string{"builtin": "built-in host", "func": "host func"}[e.Host]
	switch {
	case e.Storage == "running":
		where += ", data in the storage that runs"
	case e.Storage == "given":
		where += ", data in the account of the settings"
	case e.Data == "":
		where += ", data in memory (--data DIR keeps it)"
	default:
		where += ", data in " + e.Data
	}
	return fmt.Sprintf("%s  %s\n\n", s.con.paint(s.con.stdout, bold, name), printable(where))
}

// showStep shows that a step begins, continues, or is done.
func (s *screen) showStep(e devrun.Event) error {
	if e.Done {
		s.mu.Lock()
		s.running = slices.DeleteFunc(s.running, func(r upStep) bool { return r.name == e.Step })
		s.mu.Unlock()
		mark := "-"
		if isTerminal(s.con.stdout) {
			mark = s.con.paint(s.con.stdout, green, "✓")
		}
		if e.Failed {
			mark = s.con.paint(s.con.stdout, red, "failed:")
		}
		took := ""
		if e.Seconds >= 0.05 {
			took = fmt.Sprintf("%.1f s", e.Seconds)
		}
		line := fmt.Sprintf("%-10s %-44s %7s", e.Step, printable(e.Text), took)
		return s.write(s.con.stdout, "  "+mark+" "+strings.TrimRight(line, " ")+"\n")
	}
	if !s.progress {
		return nil
	}
	if !s.live {
		return s.write(s.con.stderr, fmt.Sprintf("  %s: %s\n", e.Step, printable(e.Text)))
	}
	s.mu.Lock()
	if i := slices.IndexFunc(s.running, func(r upStep) bool { return r.name == e.Step }); i >= 0 {
		s.running[i].text = e.Text
	} else {
		s.running = append(s.running, upStep{e.Step, e.Text, time.Now()})
	}
	s.mu.Unlock()
	return s.write(s.con.stderr, "")
}

// environmentOf shows the environment of a process that a person starts.
func environmentOf(e devrun.Event) string {
	text := fmt.Sprintf("\n  Start the program with this environment, which %s has, too:\n\n", printable(e.File))
	for _, name := range slices.Sorted(maps.Keys(e.Environment)) {
		text += fmt.Sprintf("    %s=%s\n", printable(name), printable(e.Environment[name]))
	}
	return text + "\n"
}

// addresses shows where the app is, and commands to try.
func (s *screen) addresses(e devrun.Event) string {
	command := func(words string) string {
		if e.Key != "" {
			words += " --key " + e.Key
		}
		return "    " + s.con.program + " " + words + "\n"
	}
	below := "Below: requests, warnings and errors; the whole log: --verbose."
	if s.verbose {
		below = "Below: requests and the whole log."
	}
	text := fmt.Sprintf("\n  %s in %.1f s\n\n", s.con.paint(s.con.stdout, green, "ready"), e.Seconds)
	if e.Console != "" {
		text += fmt.Sprintf("  console    %s\n", s.con.paint(s.con.stdout, bold, e.Console))
	}
	text += fmt.Sprintf("  API        %s\n  reference  %s\n%s", s.con.paint(s.con.stdout, bold, e.URL+"/api"), e.URL+"/api/openapi.yaml", faultAddresses(e))
	// A program has commands for the parts that it uses.
	try := "\n  Try, in a second terminal:\n"
	for _, hint := range [][2]string{{"NextOrderId", "next --count 3"}, {"Channels", "channels create news --owner ann"}, {"Unleash", "gate wait hounds"}} {
		if slices.Contains(e.Functions, hint[0]) {
			text += try + command(hint[1])
			try = ""
		}
	}
	if try != "" && slices.Contains(e.Functions, "Queues") { // a program of one's own
		text += try + command("queues list")
	}
	if slices.Contains(e.Functions, "Unleash") {
		text += "\n  and in a third one, while it waits:\n" + command("gate release hounds")
	}
	return text + "\n  Ctrl+C stops everything. " + below + "\n\n"
}

// faultAddresses shows where storage and the development buses fail on request,
// and the queues of the primary bus.
func faultAddresses(e devrun.Event) (text string) {
	name := "faults"
	for _, at := range [][2]string{{e.StorageFaults, "storage"}, {e.ServiceBusFaults, "the primary bus"}, {e.ServiceBusSecondaryFaults, "the secondary one"}} {
		if at[0] != "" {
			text += fmt.Sprintf("  %-10s %s, of %s\n", name, at[0], at[1])
			name = ""
		}
	}
	if len(e.Entities) > 0 {
		text += "  queues     " + strings.Join(e.Entities, ", ") + "\n"
	}
	return text
}

// served shows a request. Those with which the console reads are many and would
// hide the others, so they are shown only if they fail.
func (s *screen) served(r localhost.Request) {
	if s.asJSON || !s.verbose && isConsoleRead(r) {
		return
	}
	status := fmt.Sprint(r.Status)
	if r.Status >= 500 {
		status = s.con.paint(s.con.stderr, red, status)
	}
	s.write(s.con.stderr, fmt.Sprintf("%s  %-6s %-46s %s %8s\n",
		clock(time.Now()), printable(r.Method), printable(r.Path), status, duration(r.Duration)))
}

// isConsoleRead reports whether the page of the console read something.
func isConsoleRead(r localhost.Request) bool {
	return r.Method == http.MethodGet && r.Status < http.StatusBadRequest && strings.HasPrefix(r.Path, "/api/console")
}

// maxPartial is the length at which a line of the log is split, so that a line
// without an end does not fill the memory.
const maxPartial = 1 << 20

// Write shows the log of the app and its host. It never fails, so that these
// run on without a terminal.
func (s *screen) Write(p []byte) (int, error) {
	if s.asJSON || s.verbose {
		s.write(s.con.stderr, string(p))
		return len(p), nil
	}
	s.mu.Lock()
	s.partial = append(s.partial, p...)
	if len(s.partial) > maxPartial {
		s.partial = append(s.partial, '\n')
	}
	end := bytes.LastIndexByte(s.partial, '\n') + 1
	lines := string(s.partial[:end])
	s.partial = append(s.partial[:0], s.partial[end:]...)
	s.mu.Unlock()
	for line := range strings.Lines(lines) {
		if entry, ok := readLog(strings.TrimRight(line, "\r\n")); ok && s.isNew(entry) {
			s.show(entry)
		}
	}
	return len(p), nil
}

// starts are the lines of the last starts of the handler, to show once what each
// of them repeats.
type starts struct {
	mu     sync.Mutex
	lines  []string       // since the last start, the first ones; guarded by mu
	failed map[string]int // how often the start before wrote each line, and this one did not yet; guarded by mu
}

// maxStartLines is how many lines of a start are compared.
const maxStartLines = 200

// failedStart is how the built-in host reports a handler that was not ready and
// is started again, and crashed any that is.
var (
	crashed     = regexp.MustCompile(`^The handler .*: error \d+ of \d+ `)
	failedStart = regexp.MustCompile(`^The handler (exited with .* before it was ready|did not answer .*): error \d+ of \d+ `)
)

// isNew reports whether a line is shown: a line that the failed start before has
// written is not.
func (s *screen) isNew(e logEntry) bool {
	b := &s.starts
	b.mu.Lock()
	defer b.mu.Unlock()
	text := e.level + " " + e.text
	if crashed.MatchString(e.text) {
		b.failed = nil
		if failedStart.MatchString(e.text) {
			b.failed = make(map[string]int)
			for _, line := range b.lines {
				b.failed[line]++
			}
		}
		b.lines = nil
		return true
	}
	if len(b.lines) < maxStartLines {
		b.lines = append(b.lines, text)
	}
	if b.failed[text] == 0 {
		return true
	}
	b.failed[text]--
	return false
}

// show writes a line of the log.
func (s *screen) show(e logEntry) error {
	return s.write(s.con.stderr, e.line(func(c colour, text string) string { return s.con.paint(s.con.stderr, c, text) })+"\n")
}

// write writes text in place of the line that counts seconds, and then that
// line again.
func (s *screen) write(w io.Writer, text string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.drawn {
		io.WriteString(s.con.stderr, "\r\x1b[K") // erases the line
	}
	_, err := io.WriteString(w, text)
	if s.drawn = s.live && len(s.running) > 0; s.drawn {
		var doing []string
		for _, step := range s.running {
			doing = append(doing, step.name+": "+step.text)
		}
		// A line that wraps cannot be erased.
		const around = 14 // columns besides the text, and one that stays free
		width := max(1, min(80, cmp.Or(s.columns(), 80))-around)
		fmt.Fprintf(s.con.stderr, "  … %-*s %5.0f s", width, cut(printable(strings.Join(doing, ", ")), width), time.Since(s.running[0].began).Seconds())
	}
	return err
}

// clock returns the local time of day.
func clock(t time.Time) string { return t.Local().Format(time.TimeOnly) }

// duration returns a duration as people read it.
func duration(d time.Duration) string {
	if d < time.Second {
		return fmt.Sprintf("%d ms", d.Milliseconds())
	}
	return fmt.Sprintf("%.1f s", d.Seconds())
}
