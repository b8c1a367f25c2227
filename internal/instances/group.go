package instances

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// ProblemGroup is a problem of the app: the problems of its processes with the
// same code and subject, merged. Each process reports only the problems that it
// met itself, and forgets them by itself (tracker.go). A group has no memory of
// its own: it exists as long as a live process reports the problem. Only this
// file merges problems.
type ProblemGroup struct {
	Code      string    `json:"code"`
	Subject   string    `json:"subject,omitempty"`
	What      string    `json:"what"`      // of the process whose problem began last
	Since     time.Time `json:"since"`     // the earliest
	Count     int64     `json:"count"`     // the sum; of dead letters and the backlog the maximum, because each process counts all of them; at least 1 for each process
	Instances []string  `json:"instances"` // in the order of their names
	Help      string    `json:"help"`
}

// GroupProblems returns the problems of all reports, in the order of code and
// subject.
func GroupProblems(reports []Report) []ProblemGroup {
	type met struct {
		Problem
		instance string
	}
	var all []met
	for _, r := range reports {
		for _, p := range r.Problems {
			all = append(all, met{p, r.Instance})
		}
	}
	slices.SortStableFunc(all, func(a, b met) int {
		return cmp.Or(strings.Compare(a.Code, b.Code), strings.Compare(a.Subject, b.Subject), a.Since.Compare(b.Since))
	})
	groups := []ProblemGroup{}
	for _, p := range all {
		last := len(groups) - 1
		if last < 0 || groups[last].Code != p.Code || groups[last].Subject != p.Subject {
			groups = append(groups, ProblemGroup{Code: p.Code, Subject: p.Subject, Since: p.Since.UTC(), Help: Help(p.Code)})
			last++
		}
		g := &groups[last]
		g.What = p.What
		if count := max(p.Count, 1); p.Code == DeadLetters || p.Code == BacklogOld {
			g.Count = max(g.Count, count)
		} else {
			g.Count += count
		}
		if at, ok := slices.BinarySearch(g.Instances, p.instance); !ok {
			g.Instances = slices.Insert(g.Instances, at, p.instance)
		}
	}
	return groups
}
