package gate

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

// ErrCorrupt says that what the store holds for a gate cannot be used. The
// gate counts as shut until a person has put it right, for which
// Change.Force is one way.
var ErrCorrupt = errors.New("the stored state of the gate cannot be used")

const (
	// format is the version of the documents that this program reads and
	// writes.
	format = 1

	maxHistory = 50 // transitions
	maxQuoted  = 200
)

// document is a gate as it is stored: JSON, in the file that bears the gate's
// name. A member that is added, renamed or removed needs a new format.
type document struct {
	Version    int          `json:"version"`
	Life       string       `json:"life"`           // the operation that has begun it; another one after deletion and after force
	Base       int64        `json:"base,omitempty"` // the generation it has begun with, without a release to prove it
	Released   bool         `json:"released"`
	Generation int64        `json:"generation"`
	History    []transition `json:"history"` // the newest last, never empty
}

type transition struct {
	Change     string    `json:"change"`
	Generation int64     `json:"generation"`
	At         time.Time `json:"at"`
	By         string    `json:"by"`
	Reason     string    `json:"reason"`
	Operation  string    `json:"operation"`
	Replaced   string    `json:"replaced,omitempty"`
}

// encode writes for people, too: somebody will look at it in the portal.
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
		panic(err) // a year beyond 9999, which check does not let in
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// parse reads a stored document. White space between its parts is nobody's
// business, and neither is a byte order mark before it; everything else has to
// be just what encode writes, or it is ErrCorrupt. So a member that is
// misspelt, there twice or of tomorrow is never taken for something else.
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
		return State{}, fmt.Errorf("%w: its format has the version %d, and this program knows %d only", ErrCorrupt, d.Version, format)
	}
	if err := d.check(); err != nil {
		return State{}, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	var stored bytes.Buffer
	if err := json.Compact(&stored, []byte(text)); err != nil || !bytes.Equal(stored.Bytes(), d.compact()) {
		return State{}, fmt.Errorf("%w: a member is unknown, misspelt, missing, there twice or not written as this program does: %s", ErrCorrupt, quote(text))
	}
	return d.state(gate), nil
}

// check finds contradictions.
func (d document) check() error {
	if len(d.History) == 0 || len(d.History) > maxHistory {
		return fmt.Errorf("its history has %d entries, not 1 to %d", len(d.History), maxHistory)
	}
	if err := checkHistory(d.History); err != nil {
		return err
	}
	// A life begins shut: its base proves no release.
	if d.Life == "" || d.Base < 0 || d.Base > d.Generation || d.Released && d.Base == d.Generation {
		return fmt.Errorf("its life %q has begun with generation %d, and it is at %d", d.Life, d.Base, d.Generation)
	}
	last := d.History[len(d.History)-1]
	if d.Generation != last.Generation || d.Released != (last.Change == released) {
		return fmt.Errorf("it says released: %t, generation: %d, where its history ends with a %s of generation %d",
			d.Released, d.Generation, last.Change, last.Generation)
	}
	return nil
}

// checkHistory says whether each entry can have followed the one before.
func checkHistory(history []transition) error {
	for i, t := range history {
		problem := ""
		switch {
		case t.Change != released && t.Change != closed:
			problem = fmt.Sprintf("is a %q", t.Change)
		case t.Generation < 0 || t.Generation > MaxGeneration || t.Generation == 0 && t.Change == released:
			problem = fmt.Sprintf("has generation %d", t.Generation)
		case t.At.Year() < 1 || t.At.Year() > 9999:
			problem = "has no time"
		case t.By == "" || t.Operation == "":
			problem = "does not say who made it"
		case i == 0 || t.Replaced != "" && t.Generation >= history[i-1].Generation:
		case t.Change == history[i-1].Change:
			problem = fmt.Sprintf("is a %s after another", t.Change)
		case t.Change == released && t.Generation != history[i-1].Generation+1,
			t.Change == closed && t.Generation != history[i-1].Generation:
			problem = fmt.Sprintf("has generation %d after %d", t.Generation, history[i-1].Generation)
		}
		if problem != "" {
			return fmt.Errorf("entry %d of its history %s", i+1, problem)
		}
	}
	return nil
}

func (d document) state(gate string) State {
	last := d.History[len(d.History)-1]
	s := State{
		Gate: gate, Released: d.Released, Generation: d.Generation,
		ChangedAt: last.At, By: last.By, Reason: last.Reason,
		life: d.Life, base: d.Base,
	}
	for _, t := range d.History {
		s.History = append(s.History, Transition(t))
	}
	return s
}

// next is the document that follows on a state by one change.
func next(s State, t Transition) document {
	d := document{Version: format, Life: s.life, Base: s.base, Released: t.Change == released, Generation: t.Generation}
	if s.life == "" {
		d.Life, d.Base = t.Operation, s.Generation
	}
	for _, old := range s.History {
		d.History = append(d.History, transition(old))
	}
	d.History = append(d.History, transition(t))
	d.History = d.History[max(0, len(d.History)-maxHistory):]
	return d
}

var generations = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`"generation"\s*:\s*([0-9]{1,12})\b`)
})

// salvage gets what it can out of a text that cannot be used, for a life that
// begins after it: the history, if all of it can be read, and a generation
// that is no lower than any the text speaks of.
func salvage(gate, text string) State {
	s := State{Gate: gate}
	var d document
	if json.Unmarshal([]byte(text), &d) == nil && checkHistory(d.History) == nil {
		for _, t := range d.History {
			s.History = append(s.History, Transition(t))
		}
	}
	for _, match := range generations().FindAllStringSubmatch(text, -1) {
		if n, err := strconv.ParseInt(match[1], 10, 64); err == nil {
			s.Generation = max(s.Generation, n)
		}
	}
	return s
}

// newer says that a text which cannot be used has been written by a program
// newer than this one.
func newer(text string) bool {
	var d struct{ Version int }
	return json.Unmarshal([]byte(text), &d) == nil && d.Version > format
}

// quote shows the beginning of a stored text in a message.
func quote(text string) string {
	if len(text) > maxQuoted {
		return strconv.Quote(cut(text, maxQuoted)) + "…"
	}
	return strconv.Quote(text)
}

// cut returns at most n bytes of text, without half a character at the end.
func cut(text string, n int) string {
	if len(text) <= n {
		return text
	}
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n]
}
