package main

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"kennel/gate"
	"kennel/ids"
	"kennel/internal/azure/servicebus"
	"kennel/internal/instances"
)

// maxSubjects is how many problems with one code a job reports. The report of a
// process has to fit into a row.
const maxSubjects = 10

// oldest returns the problems of one code that began first. If there are more
// than maxSubjects, the last one stands for the rest.
func oldest(problems []instances.Problem) []instances.Problem {
	slices.SortFunc(problems, func(a, b instances.Problem) int {
		return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Subject, b.Subject))
	})
	if len(problems) <= maxSubjects {
		return problems
	}
	rest := problems[maxSubjects-1]
	rest.Subject = ""
	rest.What = fmt.Sprintf("There are %d more. One of them: %s", len(problems)-maxSubjects+1, rest.What)
	return append(problems[:maxSubjects-1], rest)
}

// limits remembers since when each limit is close.
type limits struct {
	mu    sync.Mutex
	since map[string]time.Time // by subject; guarded by mu
}

// problems returns a problem for each subject and sentence.
func (l *limits) problems(near map[string]string) []instances.Problem {
	l.mu.Lock()
	defer l.mu.Unlock()
	since := make(map[string]time.Time, len(near))
	var problems []instances.Problem
	for subject, what := range near {
		at, ok := l.since[subject]
		if !ok {
			at = time.Now()
		}
		since[subject] = at
		problems = append(problems, instances.Problem{Code: instances.LimitClose, Subject: subject, What: what, Since: at, Count: 1})
	}
	l.since = since
	return oldest(problems)
}

// isClose reports whether nine tenths of a limit are used.
func isClose(used, limit int) bool { return used >= limit-limit/10 }

// problems returns the sequences that cannot be used, and the limits that are
// close.
func (s sequenceFunctions) problems() []instances.Problem {
	var corrupt, missing []instances.Problem
	for _, u := range s.sequences.Unusable() {
		p := instances.Problem{Subject: u.Sequence, Since: u.Since, Count: u.Count, What: fmt.Sprintf("No number is issued: %v.", u.Err)}
		if p.Code = instances.SequenceCorrupt; errors.Is(u.Err, ids.ErrMissing) {
			p.Code = instances.SequenceMissing
			missing = append(missing, p)
		} else {
			corrupt = append(corrupt, p)
		}
	}
	near := make(map[string]string)
	if used := s.sequences.Len(); isClose(used, ids.MaxSequences) {
		near["all sequences"] = fmt.Sprintf("This process uses %d of at most %d sequences.", used, ids.MaxSequences)
	}
	for sequence, last := range s.sequences.NearEnd() {
		near[sequence] = fmt.Sprintf("The numbers up to %d of at most %d are reserved.", last, int64(ids.MaxExact))
	}
	return slices.Concat(oldest(corrupt), oldest(missing), s.limits.problems(near))
}

// problems returns the gates that cannot be read, why signals are not received
// or sent, and the limit if it is close.
func (g gateFunctions) problems() []instances.Problem {
	var unreadable []instances.Problem
	for name, f := range g.gates.Unreadable() {
		unreadable = append(unreadable, instances.Problem{Code: instances.GateUnreadable, Subject: name, Since: f.Since, Count: f.Count,
			What: fmt.Sprintf("The gate counts as closed: %v.", f.Err)})
	}
	near := make(map[string]string)
	if waited := g.gates.Waited(); isClose(waited, gate.MaxWatched) {
		near["all gates"] = fmt.Sprintf("This process has waiters at %d of at most %d gates.", waited, gate.MaxWatched)
	}
	return slices.Concat(oldest(unreadable), g.signalProblems(), g.limits.problems(near))
}

func (g gateFunctions) signalProblems() []instances.Problem {
	receiving, sending := g.gates.SignalFailures()
	codes := make(map[string]instances.Problem)
	add := func(f gate.Failure, what string) {
		if f.Err == nil {
			return
		}
		code := instances.BusDisconnected
		if errors.Is(f.Err, servicebus.ErrDenied) {
			code = instances.BusDenied
		}
		p, ok := codes[code]
		if !ok || f.Since.Before(p.Since) {
			p.Since = f.Since
		}
		p.Code, p.Count = code, p.Count+max(f.Count, 1)
		p.What = strings.TrimSpace(fmt.Sprintf("%s %s: %v.", p.What, what, f.Err))
		codes[code] = p
	}
	add(receiving, "Gate signals are not received")
	add(sending, "Gate signals are not sent")
	return slices.Collect(maps.Values(codes))
}
