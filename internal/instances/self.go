package instances

import (
	"maps"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Self makes the reports of this process. Its methods may be called
// concurrently.
type Self struct {
	process  Process
	problems func() []Problem
	collect  func(*Report)
	renewals atomic.Int64 // calls of Renew

	mu    sync.Mutex
	marks [2]mark // at the last report but one, and at the last one; guarded by mu
}

// mark is a state of the counts at a time.
type mark struct {
	at        time.Time
	processor time.Duration
	served    Served
	facts     map[string]fact // of sections that count
}

// NewSelf returns the reports of a process. problems returns its present
// problems and must be cheap. collect fills in what the parts of the program
// know: Served since the start of the process, and all sections.
func NewSelf(process Process, problems func() []Problem, collect func(*Report)) *Self {
	start := mark{at: time.Now(), processor: processorTime()}
	return &Self{process: process, problems: problems, collect: collect, marks: [2]mark{start, start}}
}

// Name returns the name of this process.
func (s *Self) Name() string { return s.process.Instance }

// Renew has the report be stored soon: it has a fact that other processes must
// not learn up to 30 s late.
func (s *Self) Renew() { s.renewals.Add(1) }

// Report returns the present report.
func (s *Self) Report() Report {
	report, _ := s.report()
	return report
}

// next returns the present report, which is to be stored.
func (s *Self) next() Report {
	report, now := s.report()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.marks = [2]mark{s.marks[1], now}
	return report
}

func (s *Self) report() (Report, mark) {
	r := Report{Process: s.process, Memory: residentBytes(), Problems: s.problems()}
	s.collect(&r)
	now := mark{time.Now(), processorTime(), r.Served, maps.Clone(r.facts)}
	maps.DeleteFunc(now.facts, func(_ string, f fact) bool { return !f.isCounted() })
	r.At, r.CPUs = now.at.UTC(), runtime.GOMAXPROCS(0)
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.marks[0]
	if window := now.at.Sub(before.at).Seconds(); window > 0 {
		r.Window = rounded(window)
		r.CPU = rounded((now.processor - before.processor).Seconds() / window)
	}
	r.Total = Served{r.Served.Count, rounded(r.Served.Seconds)}
	r.Served = Served{now.served.Count - before.served.Count, rounded(now.served.Seconds - before.served.Seconds)}
	for name, f := range now.facts {
		f.addWithin(&r, before.facts[name])
	}
	return r, now
}

// news identifies the facts that other processes must learn soon: which
// problems there are, and those of [Self.Renew].
func (s *Self) news() string { return newsOf(s.problems(), s.renewals.Load()) }

func newsOf(problems []Problem, renewals int64) string {
	news := []string{strconv.FormatInt(renewals, 10)}
	for _, p := range problems {
		news = append(news, p.Code+"\n"+p.Subject)
	}
	slices.Sort(news)
	return strings.Join(news, "\n\n")
}
