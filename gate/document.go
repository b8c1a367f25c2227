package gate

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// ErrCorrupt reports that the document in the store cannot be used. The gate
// counts as closed until an operator repairs the document, for which
// Change.Force is one way.
var ErrCorrupt = errors.New("the stored state of the gate cannot be used")

const (
	// format is the version of the documents that this program reads and
	// writes.
	format = 2

	maxHistory = 50  // changes
	maxQuoted  = 200 // bytes
)

// document is a gate as it is stored: JSON, in the blob with the gate's name.
// A member that is added, renamed or removed, also of Transition, needs a new
// format.
type document struct {
	Version    int          `json:"version"`
	Released   bool         `json:"released"`
	Generation int64        `json:"generation"`
	Releases   int64        `json:"releases"`
	History    []Transition `json:"history"` // the newest last, never empty
}

// encode indents the document for people who open the blob in the portal.
func (d document) encode() string {
	var b bytes.Buffer
	if err := json.Indent(&b, d.compact(), "", "  "); err != nil {
		panic(err) // compact writes JSON
	}
	b.WriteByte('\n')
	return b.String()
}

func (d document) compact() []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(d); err != nil {
		panic(err) // a year beyond 9999, which neither check nor a store's clock allows
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// StateOf returns the state of a gate whose value is v. It fails with ErrCorrupt.
func StateOf(gate string, v Value) (State, error) {
	if v.Version == "" {
		return State{Gate: gate}, nil
	}
	return parse(gate, v.Text)
}

// parse reads a stored document. It ignores insignificant white space and a
// leading byte order mark; everything else must be exactly what encode writes,
// or it is ErrCorrupt. A misspelt, repeated or future member is therefore
// never taken for another one.
func parse(gate, text string) (State, error) {
	text = strings.TrimPrefix(text, "\ufeff")
	var d document
	if err := json.Unmarshal([]byte(text), &d); err != nil {
		why := "it is not JSON"
		if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
			why = fmt.Sprintf("its member %q is a %s", wrong.Field, wrong.Value)
		}
		return State{}, fmt.Errorf("%w: %s: %s", ErrCorrupt, why, quote(text))
	}
	if d.Version != format {
		return State{}, fmt.Errorf("%w: its format has version %d, and this program reads version %d only", ErrCorrupt, d.Version, format)
	}
	if err := d.check(); err != nil {
		return State{}, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	var stored bytes.Buffer
	if err := json.Compact(&stored, []byte(text)); err != nil || !bytes.Equal(stored.Bytes(), d.compact()) {
		return State{}, fmt.Errorf("%w: a member is unknown, misspelt, missing, repeated or not written as this program does: %s", ErrCorrupt, quote(text))
	}
	return d.state(gate), nil
}

// check finds contradictions.
func (d document) check() error {
	if len(d.History) == 0 || len(d.History) > maxHistory {
		return fmt.Errorf("its history has %d entries, not 1 to %d", len(d.History), maxHistory)
	}
	releases := int64(0)
	for i, t := range d.History {
		if problem := t.problem(d.History[:i]); problem != "" {
			return fmt.Errorf("entry %d of its history %s", i+1, problem)
		}
		if t.Change == released {
			releases++
		}
	}
	last := d.History[len(d.History)-1]
	if d.Generation != last.Generation || d.Released != (last.Change == released) {
		return fmt.Errorf("it has released: %t, generation: %d, but its history ends with a %s of generation %d",
			d.Released, d.Generation, last.Change, last.Generation)
	}
	if d.Releases < releases || d.Releases > d.Generation || len(d.History) < maxHistory && d.Releases != releases {
		return fmt.Errorf("it counts %d releases, but its history has %d", d.Releases, releases)
	}
	return nil
}

// problem reports why t cannot follow on the entries before it, "" if it can.
func (t Transition) problem(before []Transition) string {
	last := Transition{Generation: t.Generation - 1} // anything goes for the first entry
	if len(before) > 0 {
		last = before[len(before)-1]
	}
	switch {
	case t.Change != released && t.Change != closed || t.Change == last.Change:
		return fmt.Sprintf("is a %q after a %q", t.Change, last.Change)
	case t.Generation < 0 || t.Generation > MaxGeneration || t.Generation == 0 && t.Change == released,
		t.Change == released && t.Generation <= last.Generation, t.Change == closed && t.Generation != last.Generation && len(before) > 0:
		return fmt.Sprintf("has generation %d after %d", t.Generation, last.Generation)
	case t.At.Year() < 1 || t.At.Year() > 9999:
		return "has no time"
	case t.By == "" || t.Operation == "":
		return "does not name who made it"
	case t.Replaced != "" && len(before) > 0:
		return "follows on what it has replaced"
	}
	return ""
}

func (d document) state(gate string) State {
	last := d.History[len(d.History)-1]
	return State{
		Gate: gate, Released: d.Released, Generation: d.Generation, Releases: d.Releases,
		ChangedAt: last.At, By: last.By, Reason: last.Reason, History: d.History,
	}
}

// next returns the document after one more change.
func next(s State, t Transition) document {
	d := document{Version: format, Released: t.Change == released, Generation: t.Generation, Releases: s.Releases}
	if d.Released {
		d.Releases++
	}
	kept := s.History[max(0, len(s.History)+1-maxHistory):]
	d.History = append(slices.Clone(kept), t)
	return d
}

// newer reports whether an unusable text was written by a newer version of
// this program.
func newer(text string) bool {
	var d struct{ Version int }
	return json.Unmarshal([]byte(text), &d) == nil && d.Version > format
}

// quote returns the beginning of a stored text for a message.
func quote(text string) string {
	if len(text) > maxQuoted {
		return strconv.Quote(cut(text, maxQuoted)) + "…"
	}
	return strconv.Quote(text)
}

// cut returns at most n bytes of text, without half a character at the end.
func cut(text string, n int) string {
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n]
}
