package customhandler

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"
)

// Metadata is what the host sends beside an invocation's data. Do not rely on
// it: a property of the payload replaces the host's value of the same name, in
// any case.
type Metadata map[string]json.RawMessage

// Text returns a value as text, without the quotes that the host adds; "" if it
// is missing. It ignores the case of the name.
func (m Metadata) Text(name string) string {
	raw, ok := lookup(m, name)
	if !ok || isNull(raw) {
		return ""
	}
	return textOf(raw)
}

// Int returns a value as a number; 0 if it is missing or not an integer. Hosts
// send numbers as 1, "1" and "\"1\"".
func (m Metadata) Int(name string) int64 {
	n, err := strconv.ParseInt(strings.TrimSpace(m.Text(name)), 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// Time returns a value as a time in UTC; the zero time if it is missing or not
// a time.
func (m Metadata) Time(name string) time.Time { return parseTime(m.Text(name)) }

// parseTime reads the two forms that .NET writes: with an offset, and without
// one, which means UTC. Year 1 means never in .NET, at any offset, and gives the
// zero time.
func parseTime(text string) time.Time {
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05.999999999"} {
		if t, err := time.Parse(layout, text); err == nil {
			if t = t.UTC(); t.Year() <= 1 {
				return time.Time{}
			}
			return t
		}
	}
	return time.Time{}
}
