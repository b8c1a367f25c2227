package instances

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"
	"unique"
)

// SequenceSection has the sequences that a process uses, the most recently used
// first.
var SequenceSection = List("sequences", &Items[Sequence]{
	Texts:   func(s *Sequence) []*string { return []*string{&s.LastError} },
	Numbers: func(s *Sequence) []*float64 { return []*float64{&s.PerSecond} },
	Shift: func(s *Sequence, d time.Duration) {
		if !s.LastErrorAt.IsZero() {
			s.LastErrorAt = s.LastErrorAt.Add(d)
		}
	},
	Parse:  parseSequences,
	IsLong: true,
})

// HighestSection has of each sequence in [SequenceSection] the name and the
// highest number, for readers that need no more: it takes a tenth of the memory.
var HighestSection = digest("sequences.highest", SequenceSection, func(all []Sequence) []Highest {
	highest := make([]Highest, len(all))
	for i, s := range all {
		highest[i] = Highest{unique.Make(s.Name).Value(), s.Highest}
	}
	return highest
})

// Highest is the highest number that a process has reserved of a sequence, and
// not returned.
type Highest struct {
	Name   string
	Number int64
}

// Sequence is the share of a process in a sequence of order numbers. The names
// of its members are short, because a process may use many sequences. Its texts
// may be parts of the whole list, so a reader that keeps one clones it.
type Sequence struct {
	Name        string    `json:"name"`
	Issued      int64     `json:"n,omitempty"` // since the process began to use it
	Available   int64     `json:"has"`
	Highest     int64     `json:"top"`         // the highest number that it has reserved, and not returned
	Writer      string    `json:"w,omitempty"` // its newest write, for ids.Reported
	Serial      int64     `json:"s,omitempty"`
	From        int64     `json:"from,omitempty"`
	End         int64     `json:"end,omitempty"` // 0: one past Highest
	Used        int64     `json:"used,omitempty"`
	PerSecond   float64   `json:"rate,omitempty"`
	Lost        int64     `json:"lost,omitempty"`
	LastError   string    `json:"error,omitempty"` // since the last success
	LastErrorAt time.Time `json:"at,omitzero"`
}

// Seconds returns how long the available numbers last, or false without
// demand.
func (s Sequence) Seconds() (float64, bool) {
	if s.PerSecond <= 0 {
		return 0, false
	}
	return float64(s.Available) / s.PerSecond, true
}

// parseSequences decodes the list of sequences. In a large app these are most
// of the table, so that encoding/json took most of the time of a read. Texts in
// exactly the form that list writes are decoded here, and all others, as those
// with an escape, by encoding/json.
func parseSequences(text []byte) (all []Sequence, err error) {
	if all, ok := plainSequences(string(text)); ok {
		return all, nil
	}
	err = json.Unmarshal(text, &all)
	return all, err
}

// plainSequences reports whether it could decode a list. The texts of its items
// are parts of it, because to copy each of them takes as long as to decode it.
func plainSequences(text string) ([]Sequence, bool) {
	if text == "[]" {
		return []Sequence{}, true
	}
	all := make([]Sequence, 0, strings.Count(text, "},{")+1)
	rest, ok := strings.CutPrefix(text, "[")
	for ok {
		all = append(all, Sequence{})
		if rest, ok = all[len(all)-1].plain(rest); !ok || rest == "" {
			break
		}
		if rest == "]" {
			return all, true
		}
		rest, ok = strings.CutPrefix(rest, ",")
	}
	return nil, false
}

// plain decodes the object at the beginning of a text, and returns the rest.
func (s *Sequence) plain(text string) (rest string, ok bool) {
	rest, ok = strings.CutPrefix(text, "{")
	for ok {
		var name string
		if name, rest, ok = cutPlain(rest); !ok || rest == "" || rest[0] != ':' {
			return "", false
		}
		if rest, ok = s.setPlain(name, rest[1:]); !ok || rest == "" {
			return "", false
		}
		if rest[0] == '}' {
			return rest[1:], true
		}
		rest, ok = strings.CutPrefix(rest, ",")
	}
	return "", false
}

// setPlain sets a member to the value at the beginning of a text, and returns the
// rest. It reports whether there is such a member, with such a value.
func (s *Sequence) setPlain(name, text string) (rest string, ok bool) {
	switch name {
	case "name":
		s.Name, rest, ok = cutPlain(text)
	case "w":
		s.Writer, rest, ok = cutPlain(text)
	case "error":
		s.LastError, rest, ok = cutPlain(text)
	case "at":
		var at string
		at, rest, ok = cutPlain(text)
		ok = ok && s.LastErrorAt.UnmarshalText([]byte(at)) == nil
	case "n":
		s.Issued, rest, ok = cutInteger(text)
	case "has":
		s.Available, rest, ok = cutInteger(text)
	case "top":
		s.Highest, rest, ok = cutInteger(text)
	case "s":
		s.Serial, rest, ok = cutInteger(text)
	case "from":
		s.From, rest, ok = cutInteger(text)
	case "end":
		s.End, rest, ok = cutInteger(text)
	case "used":
		s.Used, rest, ok = cutInteger(text)
	case "lost":
		s.Lost, rest, ok = cutInteger(text)
	case "rate":
		s.PerSecond, rest, ok = cutDecimal(text)
	}
	return rest, ok
}

// cutPlain cuts a string of visible ASCII characters without escapes.
func cutPlain(text string) (value, rest string, ok bool) {
	if text == "" || text[0] != '"' {
		return "", "", false
	}
	for i := 1; i < len(text); i++ {
		switch b := text[i]; {
		case b == '"':
			return text[1:i], text[i+1:], true
		case b == '\\' || b < ' ' || b > '~':
			return "", "", false
		}
	}
	return "", "", false
}

// cutInteger cuts a whole number of up to 18 digits, which is within an int64.
// What follows it cannot continue a number: the caller expects a comma or brace.
func cutInteger(text string) (n int64, rest string, ok bool) {
	digits, isNegative := strings.CutPrefix(text, "-")
	i := countDigits(digits)
	if i == 0 || i > 18 || i > 1 && digits[0] == '0' {
		return 0, "", false
	}
	for _, b := range []byte(digits[:i]) {
		n = 10*n + int64(b-'0')
	}
	if isNegative {
		n = -n
	}
	return n, digits[i:], true
}

// cutDecimal cuts a number without an exponent.
func cutDecimal(text string) (x float64, rest string, ok bool) {
	digits := strings.TrimPrefix(text, "-")
	i := countDigits(digits)
	if i == 0 || i > 1 && digits[0] == '0' {
		return 0, "", false
	}
	rest = digits[i:]
	if fraction, ok := strings.CutPrefix(rest, "."); ok {
		i := countDigits(fraction)
		if i == 0 {
			return 0, "", false
		}
		rest = fraction[i:]
	}
	x, err := strconv.ParseFloat(text[:len(text)-len(rest)], 64)
	return x, rest, err == nil
}

// countDigits returns how many digits a text begins with.
func countDigits(text string) int {
	for i := range len(text) {
		if text[i] < '0' || text[i] > '9' {
			return i
		}
	}
	return len(text)
}
