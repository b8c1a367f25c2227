package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"
)

// A console is what a command talks to: the three streams, the environment,
// and how this program was called.
type console struct {
	program        string // how the caller can call it again
	env            map[string]string
	stdin          io.Reader
	stdout, stderr io.Writer
}

func newConsole(args []string, env map[string]string, stdin io.Reader, stdout, stderr io.Writer) *console {
	return &console{
		program: programName(args),
		env:     env,
		stdin:   stdin,
		stdout:  stdout,
		stderr:  stderr,
	}
}

// programName is what to type to call this program again. `go run` starts a
// binary out of a folder that is gone afterwards, so its path is no help.
func programName(args []string) string {
	if len(args) == 0 {
		return "kennel"
	}
	path := filepath.ToSlash(args[0])
	if strings.Contains(path, "/go-build") {
		return "go run ./cmd/kennel"
	}
	return path
}

// say writes one line about what is going on, beside the result.
func (con *console) say(format string, args ...any) {
	fmt.Fprintf(con.stderr, format+"\n", args...)
}

// complain reports why the program ends.
func (con *console) complain(err error) {
	fmt.Fprintf(con.stderr, "%s %s\n", con.paint(con.stderr, red, "kennel:"), printable(err.Error()))
}

// step says that something slow begins. On a terminal it goes on counting the
// seconds until done is called; elsewhere it writes one plain line.
func (con *console) step(text string) (done func()) {
	if con.env["TERM"] == "dumb" || !isTerminal(con.stderr) {
		con.say("%s", text)
		return func() {}
	}
	stop := make(chan struct{})
	var counting sync.WaitGroup
	counting.Go(func() {
		begin := time.Now()
		ticker := time.NewTicker(time.Second)
		defer ticker.Stop()
		for stopped := false; ; {
			fmt.Fprintf(con.stderr, "\r%s … %.0f s", text, time.Since(begin).Seconds())
			if stopped {
				fmt.Fprintln(con.stderr)
				return
			}
			select {
			case <-ticker.C:
			case <-stop:
				stopped = true
			}
		}
	})
	return sync.OnceFunc(func() {
		close(stop)
		counting.Wait()
	})
}

type colour string

// The few colours in use, as terminals know them.
const (
	bold  colour = "1"
	red   colour = "31"
	green colour = "32"
)

// paint colours text when w is a terminal and the caller has not asked for
// plain text (NO_COLOR, see no-color.org, or a terminal that knows none).
func (con *console) paint(w io.Writer, c colour, text string) string {
	if con.env["NO_COLOR"] != "" || con.env["TERM"] == "dumb" || !isTerminal(w) {
		return text
	}
	return "\x1b[" + string(c) + "m" + text + "\x1b[0m"
}

// isTerminal reports whether somebody watches a stream, or types into it.
func isTerminal(stream any) bool {
	file, ok := stream.(*os.File)
	return ok && isTerminalFile(file)
}

// printable keeps what others wrote (a server, a file) from steering the
// terminal: of the control characters only the line break and the tab stay.
// Characters without a shape of their own are spelt out, because some of them
// turn the text behind them around and the others make two names look alike.
func printable(text string) string {
	var out strings.Builder
	for _, r := range text {
		switch {
		case r == '\n' || r == '\t':
			out.WriteRune(r)
		case unicode.IsControl(r):
			out.WriteRune(unicode.ReplacementChar)
		case unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp):
			out.WriteString(strings.Trim(strconv.QuoteRuneToASCII(r), "'"))
		default:
			out.WriteRune(r)
		}
	}
	return out.String()
}
