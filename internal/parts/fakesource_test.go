package parts

import (
	"context"
	"log/slog"
	"time"

	"kennel/internal/instances"
	"kennel/internal/observe"
	"kennel/internal/table"
)

// job is a part that a test makes up. A nil member means that it has nothing of
// that kind.
type job struct {
	problems func() []instances.Problem
	facts    func(*instances.Report)
	report   func(*observe.Status)
	probes   map[string]observe.Probe
	sample   func(context.Context) (map[string]instances.QueueSample, error)
	wake     func(queue string)
}

// membersOf returns a process with these jobs.
func membersOf(rows table.Store, kind string, log *slog.Logger, jobs ...job) *observe.Members {
	m := observe.NewMembers(rows, kind, time.Now(), log)
	m.Watch(sourcesOf(jobs...)...)
	return m
}

func sourcesOf(jobs ...job) (all []observe.Source) {
	for _, j := range jobs {
		if j.sample != nil {
			all = append(all, fakeQueues{fakeSource{j}})
		} else {
			all = append(all, fakeSource{j})
		}
	}
	return all
}

// fakeSource is a job without queues, and fakeQueues one with queues.
type (
	fakeSource struct{ job job }
	fakeQueues struct{ fakeSource }
)

func (f fakeSource) Problems() []instances.Problem {
	if f.job.problems == nil {
		return nil
	}
	return f.job.problems()
}

func (f fakeSource) Facts(r *instances.Report) {
	if f.job.facts != nil {
		f.job.facts(r)
	}
}

func (f fakeSource) Report(answer *observe.Status) {
	if f.job.report != nil {
		f.job.report(answer)
	}
}

func (f fakeSource) Probes() map[string]observe.Probe { return f.job.probes }

func (f fakeQueues) Sample(ctx context.Context) (map[string]instances.QueueSample, error) {
	return f.job.sample(ctx)
}

func (f fakeQueues) Wake(queue string) {
	if f.job.wake != nil {
		f.job.wake(queue)
	}
}

func (f fakeQueues) LetterCounts() map[string]*observe.LetterCount { return nil }
