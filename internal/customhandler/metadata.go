package customhandler

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"
)

// Metadata is what the host tells about an invocation beside its data. Treat it as advice: a payload property of the
// same name, in any case, has replaced the host's own value.
type Metadata map[string]json.RawMessage

// Text returns the value called name as text, without the quotes the host wraps around it; "" when there is none.
// Names are found without regard to case.
func (m Metadata) Text(name string) string {
	raw, ok := lookup(m, name)
	if !ok || isNull(raw) {
		return ""
	}
	return textOf(raw)
}

// Int returns the value called name as a number; 0 when there is none or it is no integer.
// Hosts send numbers as 1, "1" and "\"1\"".
func (m Metadata) Int(name string) int64 {
	n, err := strconv.ParseInt(strings.TrimSpace(m.Text(name)), 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// Time returns the value called name as a time, in UTC; the zero time when there is none.
func (m Metadata) Time(name string) time.Time { return parseTime(m.Text(name)) }

// parseTime reads the two forms .NET writes: with an offset, and without any, which then means UTC. Year 1 is .NET's
// word for never, whatever the offset; like text that is no time, it gives the zero time.
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
