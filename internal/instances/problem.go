package instances

import (
	"slices"
	"time"
)

const columnProblems = "problems"

// problemList is how a row has problems.
var problemList = List(columnProblems, &Items[Problem]{
	Texts: func(p *Problem) []*string { return []*string{&p.What} },
	Shift: func(p *Problem, d time.Duration) { p.Since = p.Since.Add(d) },
})

// Problems are the problems of reports, for a reader that needs them.
var Problems Part = problemPart{}

type problemPart struct{}

func (problemPart) column() string { return columnProblems }

func (problemPart) isKept() bool { return true }

func (problemPart) parse(list []byte) (fact, error) { return problemList.parse(list) }

func (problemPart) add(r *Report, f fact) { r.Problems = slices.Clip(f.(factOf[[]Problem]).value) }
