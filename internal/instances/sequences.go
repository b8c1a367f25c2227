package instances

import (
	"bytes"
	"encoding/json"
	"strconv"
	"time"
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
	Parse: parseSequences,
})

// Sequence is the share of a process in a sequence of order numbers. The names
// of its members are short, because a process may use many sequences.
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
	if all, ok := plainSequences(text); ok {
		return all, nil
	}
	err = json.Unmarshal(text, &all)
	return all, err
}

// plainSequences reports whether it could decode a list.
func plainSequences(text []byte) ([]Sequence, bool) {
	if string(text) == "[]" {
		return []Sequence{}, true
	}
	all := make([]Sequence, 0, bytes.Count(text, []byte("},{"))+1)
	rest, ok := bytes.CutPrefix(text, []byte("["))
	for ok {
		all = append(all, Sequence{})
		if rest, ok = all[len(all)-1].plain(rest); !ok || len(rest) == 0 {
			break
		}
		if string(rest) == "]" {
			return all, true
		}
		rest, ok = bytes.CutPrefix(rest, []byte(","))
	}
	return nil, false
}

// plain decodes the object at the beginning of a text, and returns the rest.
func (s *Sequence) plain(text []byte) (rest []byte, ok bool) {
	rest, ok = bytes.CutPrefix(text, []byte("{"))
	for ok {
		var name, value []byte
		if name, rest, ok = cutPlain(rest); !ok || len(rest) < 2 || rest[0] != ':' {
			return nil, false
		}
		quoted := rest[1] == '"'
		if quoted {
			value, rest, ok = cutPlain(rest[1:])
		} else {
			value, rest, ok = cutNumber(rest[1:])
		}
		if !ok || len(rest) == 0 || !s.set(string(name), string(value), quoted) {
			return nil, false
		}
		if rest[0] == '}' {
			return rest[1:], true
		}
		rest, ok = bytes.CutPrefix(rest, []byte(","))
	}
	return nil, false
}

// set sets a member, and reports whether it is one with such a value.
func (s *Sequence) set(name, value string, quoted bool) bool {
	if quoted {
		switch name {
		case "name":
			s.Name = value
		case "w":
			s.Writer = value
		case "error":
			s.LastError = value
		case "at":
			return s.LastErrorAt.UnmarshalText([]byte(value)) == nil
		default:
			return false
		}
		return true
	}
	var number *int64
	switch name {
	case "n":
		number = &s.Issued
	case "has":
		number = &s.Available
	case "top":
		number = &s.Highest
	case "s":
		number = &s.Serial
	case "from":
		number = &s.From
	case "end":
		number = &s.End
	case "used":
		number = &s.Used
	case "lost":
		number = &s.Lost
	case "rate":
		var err error
		s.PerSecond, err = strconv.ParseFloat(value, 64)
		return err == nil
	default:
		return false
	}
	var err error
	*number, err = strconv.ParseInt(value, 10, 64)
	return err == nil
}

// cutPlain cuts a string of visible ASCII characters without escapes.
func cutPlain(text []byte) (value, rest []byte, ok bool) {
	if len(text) == 0 || text[0] != '"' {
		return nil, nil, false
	}
	for i, b := range text[1:] {
		switch {
		case b == '"':
			return text[1 : 1+i], text[2+i:], true
		case b == '\\' || b < ' ' || b > '~':
			return nil, nil, false
		}
	}
	return nil, nil, false
}

// cutNumber cuts a number without an exponent.
func cutNumber(text []byte) (value, rest []byte, ok bool) {
	isDigit := func(b byte) bool { return '0' <= b && b <= '9' }
	n := bytes.IndexFunc(text, func(r rune) bool { return r != '-' && r != '.' && (r < '0' || r > '9') })
	if n < 1 {
		return nil, nil, false
	}
	digits := bytes.TrimPrefix(text[:n], []byte("-"))
	whole, fraction, broken := bytes.Cut(digits, []byte("."))
	switch {
	case len(whole) == 0 || len(whole) > 1 && whole[0] == '0' || broken && len(fraction) == 0:
		return nil, nil, false
	case bytes.ContainsFunc(whole, func(r rune) bool { return !isDigit(byte(r)) }), bytes.ContainsFunc(fraction, func(r rune) bool { return !isDigit(byte(r)) }):
		return nil, nil, false
	}
	return text[:n], text[n:], true
}
