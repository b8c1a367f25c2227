// Package instances carries the reports of the app's processes about
// themselves. Each process knows only its own failures and counts, so an answer
// that must be true for the app reads all of them.
//
// [Self] makes the reports of a process, and a [Reporter] writes them to a row
// of a table, twice a minute and when there is news. A [Reader] returns the
// reports of the processes that still write theirs. Ages are judged by the store's clock
// alone, so that the clock of no process matters.
//
// A [Report] has what every process knows about itself: its identity, usage and
// problems. All else is a [Section]. Each has a file of its own here if several
// packages read it, and is declared by its package otherwise.
package instances

import (
	"crypto/rand"
	"math"
	"os"
	"strconv"
	"strings"
	"time"
)

// Kinds of processes.
const (
	Functions = "functions" // serves a Functions host
	Worker    = "worker"    // works without one
)

// Process identifies a process of the app.
type Process struct {
	Instance  string    `json:"-"` // its name, which no other process has
	Kind      string    `json:"kind"`
	Version   string    `json:"version"` // its build
	StartedAt time.Time `json:"startedAt"`
}

// maxHost bounds the part of an instance's name that names the host.
const maxHost = 64

// NewName returns a name for this process. A host can be replaced by one of the
// same name, and a process by one with the same id, so part of it is random.
func NewName() string {
	host, err := os.Hostname()
	if err != nil || host == "" {
		host = "unknown"
	}
	host = strings.Map(func(r rune) rune {
		if r == '-' || r == '.' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
			return r
		}
		return '-' // every other character may be forbidden in a key
	}, host)
	return host[:min(len(host), maxHost)] + "-" + strconv.Itoa(os.Getpid()) + "-" + strings.ToLower(rand.Text()[:6])
}

// Report is the report of a process about itself. Its sections are read and
// written by [Section.Of] and [Section.Add].
type Report struct {
	Process
	At     time.Time `json:"at"`     // when it was made, by the clock of the process
	CPU    float64   `json:"cpu"`    // processors in use, as a mean over Window; 0 where the system does not report it
	CPUs   int       `json:"cpus"`   // processors that the process may use
	Memory int64     `json:"memory"` // resident bytes
	Window float64   `json:"window"` // seconds, from the report before the last one until this one
	Served Served    `json:"served"` // within Window
	Total  Served    `json:"total"`  // since the process started

	// What follows is bounded by its length in storage.
	Problems []Problem       `json:"-"`
	facts    map[string]fact // by the names of their sections; is replaced, never changed
}

// fact is the value of a section.
type fact interface {
	encoded() string
	shifted(d time.Duration) fact
	isCounted() bool                  // its section has a function for the window
	addWithin(r *Report, before fact) // before may be nil
}

// OneLine returns the text of an error for [Problem.What]: on one line, and
// without the stack of a panic, which follows its value.
func OneLine(text string) string {
	text, _, _ = strings.Cut(text, "\ngoroutine ")
	return strings.Join(strings.Fields(text), " ")
}

// Problem is a fault in a process that an operator may have to act on.
type Problem struct {
	Code    string    `json:"code"`              // a code of the status, such as "blobs_failing"
	Subject string    `json:"subject,omitempty"` // the sequence, gate or queue, if the code concerns one
	What    string    `json:"what"`              // a sentence that names the cause
	Since   time.Time `json:"since"`             // when it began
	Count   int64     `json:"count"`             // failures since then, at least 1
}

// Served counts invocations that have ended, without waits at gates.
type Served struct {
	Count   int64   `json:"count"`
	Seconds float64 `json:"seconds"` // that they took, all together
}

// A Part is what a reader of reports may leave out: their problems, or a
// [Section].
type Part interface {
	column() string
	isKept() bool                    // by a [Reader], for its next calls
	parse(list []byte) (fact, error) // of the list in the column, of which it keeps no part
	add(r *Report, f fact)           // changes the facts of a report that has no copies
}

// rounded keeps three decimals, so that the number is short in JSON.
func rounded(x float64) float64 { return math.Round(x*1000) / 1000 }
