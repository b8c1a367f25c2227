package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"
)

// A console holds the three streams, the environment, and the name that this
// program was called by.
type console struct {
	program        string   // how to call it again
	args           []string // without the program
	env            map[string]string
	stdin          io.Reader
	stdout, stderr io.Writer

	helpErr error // of a help page that cobra requested
}

func newConsole(args []string, env map[string]string, stdin io.Reader, stdout, stderr io.Writer) *console {
	return &console{
		program: programName(args),
		args:    args[min(1, len(args)):],
		env:     env,
		stdin:   stdin,
		stdout:  stdout,
		stderr:  stderr,
	}
}

// programName returns the command that calls this program again. `go run`
// starts a binary from a temporary folder, so its path cannot be used again.
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

// say writes one line of progress to standard error.
func (con *console) say(format string, args ...any) {
	fmt.Fprintf(con.stderr, format+"\n", args...)
}

// complain reports the error that ends a command.
func (con *console) complain(command, message string) {
	fmt.Fprintf(con.stderr, "%s %s\n", con.paint(con.stderr, red, command+":"), printable(message))
}

// step shows that something slow runs. On a terminal it counts the seconds
// until done is called.
func (con *console) step(text string) (done func()) {
	if !con.showsProgress() {
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

// showsProgress reports whether standard error is a terminal that can replace
// a line.
func (con *console) showsProgress() bool {
	return con.env["TERM"] != "dumb" && isTerminal(con.stderr)
}

type colour string

// The colours in use, as ANSI codes.
const (
	bold   colour = "1"
	red    colour = "31"
	green  colour = "32"
	yellow colour = "33"
)

// paint colours text if w is a terminal that supports colours and the caller
// has not disabled them (NO_COLOR, see no-color.org).
func (con *console) paint(w io.Writer, c colour, text string) string {
	if con.env["NO_COLOR"] != "" || con.env["TERM"] == "dumb" || !isTerminal(w) {
		return text
	}
	return "\x1b[" + string(c) + "m" + text + "\x1b[0m"
}

// isTerminal reports whether a stream is a terminal.
func isTerminal(stream any) bool {
	file, ok := stream.(*os.File)
	return ok && isTerminalFile(file)
}

// columns returns the width of the terminal that a stream is, or 0.
func columns(stream any) int {
	if file, ok := stream.(*os.File); ok && isTerminalFile(file) {
		return columnsOf(file)
	}
	return 0
}

// cut shortens a text to a width.
func cut(text string, width int) string {
	runes := []rune(text)
	if len(runes) <= width {
		return text
	}
	return string(runes[:max(width, 1)-1]) + "…"
}

// minCell is the width below which no cell of a table is cut.
const minCell = 8

// fit cuts cells so that rows, whose columns are gap apart, are at most width
// wide, if that is possible. The widest columns are cut first. A width of 0
// stands for any.
func fit(rows [][]string, gap, width int) {
	var widths []int
	for _, row := range rows {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	total := -gap
	for _, w := range widths {
		total += gap + w
	}
	for ; width > 0 && total > width; total-- {
		widest := slices.Index(widths, slices.Max(widths))
		if widths[widest] <= minCell {
			break
		}
		widths[widest]--
	}
	for _, row := range rows {
		for i, cell := range row {
			row[i] = cut(cell, widths[i])
		}
	}
}

// printable makes text from a server or a file safe for the terminal. It
// replaces all control characters except line break and tab. It escapes
// invisible characters, because some of them reverse the text that follows and
// others make two different names appear equal.
func printable(text string) string {
	var out strings.Builder
	for _, r := range text {
		switch {
		case r == '\n' || r == '\t':
			out.WriteRune(r)
		case unicode.IsControl(r):
			out.WriteRune(unicode.ReplacementChar)
		case unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp,
			unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector):
			out.WriteString(strings.Trim(strconv.QuoteRuneToASCII(r), "'"))
		default:
			out.WriteRune(r)
		}
	}
	return out.String()
}
