package instances

import (
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
)

// Self makes the reports of this process. Its methods may be called
// concurrently.
type Self struct {
	process  Process
	problems func() []Problem
	collect  func(*Report)

	mu     sync.Mutex
	queues map[string]QueueSample // guarded by mu
	marks  [2]mark                // at the last report but one, and at the last one; guarded by mu
}

// mark is a state of the counts at a time.
type mark struct {
	at        time.Time
	processor time.Duration
	served    Served
	work      map[string]Work
}

// NewSelf returns the reports of a process. problems returns its present
// problems and must be cheap. collect fills in the facts of the jobs: Running,
// Work, Served since the start of the process, Sequences, Gates, Requests,
// Sends, Relay, Backlog and FailedOver.
func NewSelf(process Process, problems func() []Problem, collect func(*Report)) *Self {
	start := mark{at: time.Now(), processor: processorTime()}
	return &Self{process: process, problems: problems, collect: collect, marks: [2]mark{start, start}}
}

// Name returns the name of this process.
func (s *Self) Name() string { return s.process.Instance }

// Publish adds samples of queues to the next report, which is made soon.
func (s *Self) Publish(samples map[string]QueueSample) {
	s.mu.Lock()
	defer s.mu.Unlock()
	queues := maps.Clone(s.queues)
	if queues == nil {
		queues = make(map[string]QueueSample)
	}
	maps.Copy(queues, samples)
	s.queues = queues
}

// Samples returns the newest samples that this process published.
func (s *Self) Samples() map[string]QueueSample {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.queues // is replaced, never changed
}

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
	r := Report{Process: s.process, Memory: residentBytes(), Problems: s.problems(), Running: make(map[string]int64), Work: make(map[string]Work)}
	s.collect(&r)
	now := mark{time.Now(), processorTime(), r.Served, r.Work}
	r.At, r.CPUs = now.at.UTC(), runtime.GOMAXPROCS(0)
	r.Queues = s.Samples()
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.marks[0]
	if window := now.at.Sub(before.at).Seconds(); window > 0 {
		r.Window = rounded(window)
		r.CPU = rounded((now.processor - before.processor).Seconds() / window)
	}
	r.Total = Served{r.Served.Count, rounded(r.Served.Seconds)}
	r.Served = Served{now.served.Count - before.served.Count, rounded(now.served.Seconds - before.served.Seconds)}
	r.Recent = make(map[string]Recent)
	for queue, w := range r.Work {
		if recent := w.since(before.work[queue]); recent.Completed > 0 {
			r.Recent[queue] = recent
		}
	}
	return r, now
}

// news identifies the facts that other processes must learn soon: which
// problems there are, and which queues were sampled when.
func (s *Self) news() string {
	return newsOf(s.problems(), s.Samples())
}

func newsOf(problems []Problem, queues map[string]QueueSample) string {
	var news []string
	for _, p := range problems {
		news = append(news, p.Code+"\n"+p.Subject)
	}
	for queue, sample := range queues {
		news = append(news, queue+"\n"+sample.At.String())
	}
	slices.Sort(news)
	return strings.Join(news, "\n\n")
}
