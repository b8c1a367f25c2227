package observe

import (
	"cmp"
	"fmt"
	"slices"

	"kennel/internal/instances"
)

// MaxSubjects is how many problems with one code a job reports. The report of a
// process has to fit into a row.
const MaxSubjects = 10

// Oldest returns the problems of one code that began first. If there are more
// than MaxSubjects, the last one stands for the rest.
func Oldest(problems []instances.Problem) []instances.Problem {
	slices.SortFunc(problems, func(a, b instances.Problem) int {
		return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Subject, b.Subject))
	})
	if len(problems) <= MaxSubjects {
		return problems
	}
	rest := problems[MaxSubjects-1]
	rest.Subject = ""
	rest.What = fmt.Sprintf("There are %d more. One of them: %s", len(problems)-MaxSubjects+1, rest.What)
	return append(problems[:MaxSubjects-1], rest)
}

// Limits remembers since when each limit is close.
type Limits struct {
	close instances.Tracker[string, string]
}

// Problems returns a problem for each subject and sentence.
func (l *Limits) Problems(near map[string]string) []instances.Problem {
	for subject := range l.close.All() {
		if _, ok := near[subject]; !ok {
			l.close.Solved(subject)
		}
	}
	var problems []instances.Problem
	for subject, what := range near {
		p := l.close.Occurred(subject, what, 0)
		problems = append(problems, instances.Problem{Code: instances.LimitClose, Subject: subject, What: what, Since: p.Since, Count: 1})
	}
	return Oldest(problems)
}

// IsClose reports whether nine tenths of a limit are used.
func IsClose(used, limit int) bool { return used >= limit-limit/10 }
