// Package instances carries the reports of the app's processes about
// themselves. Each process knows only its own failures and counts, so an answer
// that must be true for the app reads all of them.
//
// [Self] makes the reports of a process, and a [Reporter] writes them to a row
// of a table, twice a minute and when there is news. [Read] returns the reports
// of the processes that still write theirs. Ages are judged by the store's clock
// alone, so that the clock of no process matters.
//
// A [Report] has what every process knows about itself: its identity, usage and
// problems. All else is a [Section]. Each has a file of its own here if several
// packages read it, and is declared by its package otherwise.
package instances

import "time"

// Problem is a fault in a process that an operator may have to act on.
type Problem struct {
	Code    string    `json:"code"`              // a code of the status, such as "blobs_failing"
	Subject string    `json:"subject,omitempty"` // the sequence, gate or queue, if the code concerns one
	What    string    `json:"what"`              // a sentence that names the cause
	Since   time.Time `json:"since"`             // when it began
	Count   int64     `json:"count"`             // failures since then, at least 1
}

// problemList is how a row has problems.
var problemList = List(columnProblems, &Items[Problem]{
	Texts: func(p *Problem) []*string { return []*string{&p.What} },
	Shift: func(p *Problem, d time.Duration) { p.Since = p.Since.Add(d) },
})

// Problems are the problems of reports, for a reader that needs them.
var Problems Part = problemPart{}

type problemPart struct{}

func (problemPart) column() string { return columnProblems }

func (problemPart) read(r *Report, list []byte) (err error) {
	r.Problems, err = problemList.decode(list)
	return err
}
