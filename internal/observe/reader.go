package observe

import (
	"context"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"sync"
	"time"

	"kennel/gate"
	"kennel/ids"
	"kennel/internal/azure/requests"
	"kennel/internal/instances"
	"kennel/internal/version"
)

// A described source has a section in the status.
type described interface{ Report(*Status) }

// A pausing source has queues that people pause.
type pausing interface {
	Describe(context.Context, *Status) // may send a request
}

// StatusReader reads the status of the app.
type StatusReader struct {
	Account string
	Relays  bool // there is a second namespace
	Members *Members
	Bill    *Billing // nil: the status has none
	Counter *requests.Counter
}

// Read returns the status. It takes little longer than ProbeTimeout.
func (s *StatusReader) Read(ctx context.Context) *Status {
	answer := &Status{
		Status:    "ok",
		Version:   version.Read().Version,
		Instance:  s.Members.Name(),
		StartedAt: s.Members.Started.UTC(),
		Go:        runtime.Version(),
		Sequences: map[string]ids.Stats{}, // also of a program without these parts
		Gates:     map[string]gate.Watched{},
	}
	view := s.observe(ctx, answer)
	for _, source := range s.Members.sources {
		if d, ok := source.(described); ok {
			d.Report(answer)
		}
	}
	view.describe(answer)
	s.addRepairs(ctx, view.own, answer.Problems)
	if s.Relays {
		answer.Relay = relayStatusOf(view.reports())
	}
	if !answer.Storage.Healthy() || len(answer.Problems) > 0 {
		answer.Status = Degraded
	}
	answer.Requests = s.Counter.Operations() // including the probes of this call
	return answer
}

// addRepairs adds to the problems of unusable sequences the commands that raise
// them above every number that an instance has reported. Only for these it reads
// what the instances report of sequences.
func (s *StatusReader) addRepairs(ctx context.Context, own instances.Report, problems []ProblemItem) {
	isUnusable := func(p ProblemItem) bool {
		return p.Subject != "" && (p.Code == instances.SequenceMissing || p.Code == instances.SequenceCorrupt)
	}
	if !slices.ContainsFunc(problems, isUnusable) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, ProbeTimeout)
	defer cancel()
	directory, _ := s.Members.Read(ctx, instances.HighestSection) // a failure is a problem of tables
	highest := make(map[string]int64)
	for _, p := range problems {
		if isUnusable(p) {
			highest[p.Subject] = 0
		}
	}
	add := func(sequence string, number int64) {
		if before, ok := highest[sequence]; ok && number > before {
			highest[sequence] = number
		}
	}
	for _, used := range instances.SequenceSection.Of(own) {
		add(used.Name, used.Highest)
	}
	for _, i := range append(directory.Live, directory.Gone...) {
		for _, used := range instances.HighestSection.Of(i.Report) {
			add(used.Name, used.Number)
		}
	}
	for i, p := range problems {
		if isUnusable(p) && highest[p.Subject] > 0 {
			problems[i].Help += " " + RepairOf(p.Subject, highest[p.Subject])
		}
	}
}

// observe makes the requests to storage of a status, one to each service where
// possible: the probe of tables is a read of the instance table, and that of
// queues samples them if no recent sample is known. Once a minute it also reads
// the bill.
func (s *StatusReader) observe(ctx context.Context, answer *Status) *view {
	var beside sync.WaitGroup
	defer beside.Wait()
	beside.Go(func() { answer.Bill = s.Bill.Present(ctx) })
	for _, source := range s.Members.sources {
		if p, ok := source.(pausing); ok {
			beside.Go(func() { p.Describe(ctx, answer) })
		}
	}
	v := &view{}
	probes := make(map[string]Probe)
	for _, source := range s.Members.sources {
		if p, ok := source.(probed); ok {
			maps.Copy(probes, p.Probes())
		}
	}
	read := make(chan struct{}) // closed when the read of the instance table has ended
	if s.Members.Rows == nil {
		close(read)
	} else {
		probes["tables"] = func(ctx context.Context) error {
			defer close(read)
			var err error
			parts := []instances.Part{instances.Problems, instances.QueueSection, instances.RunningSection}
			if s.Relays {
				parts = append(parts, FailedOverSection, instances.BacklogSection)
			}
			v.directory, err = s.Members.reader.Read(ctx, s.Members.Rows, parts...)
			return err
		}
	}
	if probe := probes["queues"]; probe != nil {
		probes["queues"] = func(ctx context.Context) error {
			select {
			case <-read:
			case <-time.After(ProbeTimeout / 2): // leaves time for the probe
				return probe(ctx)
			}
			return s.Members.probeBySampling(ctx, v, probe)
		}
	}
	var failed []instances.Problem
	answer.Storage, failed = storageStatusOf(ctx, s.Account, probes)
	v.own = s.Members.Report() // after the probes, which may be what finds a problem
	for _, p := range failed {
		if !slices.ContainsFunc(v.own.Problems, func(known instances.Problem) bool { return known.Code == p.Code }) {
			v.own.Problems = append(slices.Clip(v.own.Problems), p)
		}
	}
	v.others = s.Members.without(v.directory.Live)
	return v
}

// RepairOf returns a sentence with the command that raises an unusable sequence
// above the highest number that is known to be reserved.
func RepairOf(sequence string, highest int64) string {
	return fmt.Sprintf("Instances have reserved numbers up to %d: `kennel sequences raise %s --at-least %d` is above all that they report.", highest, sequence, highest+1)
}
