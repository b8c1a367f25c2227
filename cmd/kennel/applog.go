package main

import (
	"bytes"
	"encoding/json"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"kennel/internal/customhandler"
)

// A logEntry is the part of a line of the log that people read.
type logEntry struct {
	at    time.Time // zero: not known
	level string    // WARN, ERROR; "" for others
	text  string    // one line, except for a stack
}

// line returns the entry as it is shown.
func (e logEntry) line(paint func(colour, string) string) string {
	line := ""
	if !e.at.IsZero() {
		line = clock(e.at) + "  "
	}
	switch e.level {
	case "":
	case "ERROR":
		line += paint(red, e.level) + " "
	default:
		line += paint(yellow, e.level) + " "
	}
	return line + printable(e.text)
}

// readLog reads a line of the log of the app or of its host. It returns false
// for lines that only --verbose shows: that executions begin and succeed, that
// the host ends after crashes, which the error of the command explains, and
// records of Kennel without a warning or error. A record of a function call is
// the exception, because functions report only their effects. What the code of
// the program writes is shown.
func readLog(line string) (logEntry, bool) {
	var e logEntry
	rest := line
	if stamp, after, ok := strings.Cut(line, "] "); ok && strings.HasPrefix(stamp, "[") {
		if at, err := time.Parse(time.RFC3339Nano, stamp[1:]); err == nil {
			e.at, rest = at, after
		}
	}
	if r, ok := readRecord(rest); ok {
		if strings.HasPrefix(rest, " ") {
			return e, false // the host repeats the last lines of standard error after a crash
		}
		return r.entry(), r.isWarning() || !r.isOurs || r.level == "INFO" && r.function
	}
	for _, prefix := range []string{"Executing '", "Serving ", "Host started: ", "Exceeded http worker restart retry count"} {
		if strings.HasPrefix(rest, prefix) {
			return e, false
		}
	}
	if m := executed.FindStringSubmatch(rest); m != nil {
		e.level, e.text = "ERROR", m[1]+" failed after "+m[3]+m[4]
		return e, m[2] == "Failed"
	}
	for mark, level := range map[string]string{"WARNING: ": "WARN", "ERROR: ": "ERROR"} {
		if after, ok := strings.CutPrefix(rest, mark); ok {
			e.level, rest = level, after
		}
	}
	e.text = shorten(rest)
	return e, strings.TrimSpace(rest) != ""
}

// readable returns a line of the handler for people, whatever its level.
func readable(line string) string {
	r, ok := readRecord(line)
	if !ok {
		return shorten(line)
	}
	return r.entry().line(func(_ colour, text string) string { return text })
}

// executed is how both hosts report the end of an execution.
var executed = regexp.MustCompile(`^Executed '([^']*)' \((Succeeded|Failed), Id=[^,]*, Duration=([^)]*)\)(.*)$`)

// A record is a line of package slog's JSON.
type record struct {
	at                    time.Time
	level, message, cause string
	stack                 string
	attributes            []string // name=value
	function              bool     // of a function call
	isOurs                bool     // Kennel wrote it, not the code of the program
}

func readRecord(line string) (record, bool) {
	var r record
	ok := eachMember([]byte(line), r.add)
	return r, ok && r.level != "" && r.message != ""
}

// eachMember calls f with the members of an object, in their order. It returns
// false if text is no object, or more.
func eachMember(text []byte, f func(name string, value json.RawMessage)) bool {
	decoder := json.NewDecoder(bytes.NewReader(text))
	if first, err := decoder.Token(); err != nil || first != json.Delim('{') {
		return false
	}
	for decoder.More() {
		name, err := decoder.Token()
		if err != nil {
			return false
		}
		var value json.RawMessage
		if decoder.Decode(&value) != nil {
			return false
		}
		f(name.(string), value)
	}
	if _, err := decoder.Token(); err != nil {
		return false
	}
	_, err := decoder.Token()
	return err == io.EOF
}

func (r *record) add(name string, raw json.RawMessage) {
	value := textOf(raw)
	switch name {
	case "time":
		r.at, _ = time.Parse(time.RFC3339Nano, value) // zero if it is something else
	case "level":
		r.level = value
	case "msg":
		r.message = value
	case "error":
		r.cause = value
	case "stack":
		r.stack = value
	case "invocation", "source": // of use only with the whole log
	default:
		if name == customhandler.LoggerKey && value == customhandler.Logger {
			r.isOurs = true
			return
		}
		r.function = r.function || name == "function"
		r.attribute(name, raw, 0)
	}
}

// textOf returns a string, or the JSON of another value.
func textOf(raw json.RawMessage) string {
	text := string(raw)
	if bytes.HasPrefix(raw, []byte(`"`)) {
		_ = json.Unmarshal(raw, &text) // it was decoded before, so it is a string
	}
	return text
}

// maxGroups is how deep groups are shown as such; what is deeper is shown as
// JSON.
const maxGroups = 8

// attribute adds an attribute. A group has one for each of its members.
func (r *record) attribute(name string, raw json.RawMessage, depth int) {
	if bytes.HasPrefix(raw, []byte("{")) && string(raw) != "{}" && depth < maxGroups {
		eachMember(raw, func(member string, value json.RawMessage) { r.attribute(name+"."+member, value, depth+1) })
		return
	}
	value := oneLine(textOf(raw))
	if value == "" || strings.ContainsAny(value, ` "=`) {
		value = strconv.Quote(value)
	}
	r.attributes = append(r.attributes, name+"="+value)
}

func (r record) isWarning() bool {
	return strings.HasPrefix(r.level, "WARN") || strings.HasPrefix(r.level, "ERROR")
}

func (r record) entry() logEntry {
	e := logEntry{at: r.at, text: oneLine(r.message)}
	if r.isWarning() {
		e.level, _, _ = strings.Cut(r.level, "+")
	}
	if r.cause != "" {
		e.text += ": " + oneLine(r.cause)
	}
	e.text = shorten(strings.Join(slices.Insert(r.attributes, 0, e.text), "  "))
	for frame := range strings.SplitSeq(r.stack, " | ") { // as customhandler joins them
		if frame != "" {
			e.text += "\n          " + oneLine(frame)
		}
	}
	return e
}

// shorten limits a line; --verbose shows all of it.
func shorten(line string) string {
	const maxLength = 500
	if len(line) <= maxLength {
		return line
	}
	return strings.ToValidUTF8(line[:maxLength], "") + " …"
}
