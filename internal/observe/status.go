package observe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"kennel/gate"
	"kennel/ids"
	"kennel/internal/azure/requests"
	"kennel/internal/cost/bill"
	"kennel/internal/instances"
	"kennel/internal/table"
	"kennel/internal/version"
)

// ProbeTimeout limits the requests to storage that a status makes, one to each
// service, all at once.
const ProbeTimeout = 2 * time.Second

// A probe makes one cheap request to a service. It returns nil if the service
// responded.
type Probe func(context.Context) error

// Status is what GET /api/status reports: problems, instances and queues
// of the app, and the rest about the instance that answers.
type Status struct {
	Status    string               `json:"status"` // "ok", or "degraded" if an instance has a problem or storage does not respond
	Version   string               `json:"version"`
	Instance  string               `json:"instance"`
	StartedAt time.Time            `json:"startedAt"`
	Go        string               `json:"go"`
	Problems  []ProblemItem        `json:"problems"`          // the first maxProblems of each code
	Instances []InstanceItem       `json:"instances"`         // up to maxInstances
	LeftOut   int                  `json:"leftOut,omitempty"` // instances whose reports cannot be read
	Queues    map[string]QueueItem `json:"queues"`

	ProblemCount  int `json:"problemCount"`  // with those that Problems leaves out
	InstanceCount int `json:"instanceCount"` // with those that Instances leaves out
	SequenceCount int `json:"sequenceCount"` // that this instance uses
	GateCount     int `json:"gateCount"`     // at which this instance has waiters

	Storage   storageStatus           `json:"storage"`
	Signals   SignalsStatus           `json:"signals"`
	Relay     *RelayStatus            `json:"relay,omitempty"` // of all instances; nil without a second namespace
	Sequences map[string]ids.Stats    `json:"sequences"`       // the busiest that this instance uses
	Gates     map[string]gate.Watched `json:"gates"`           // those with the most waiters in this instance

	// Requests counts the requests of this process, by service and operation.
	Requests map[string]map[string]int64 `json:"requests"`

	Bill *bill.Bill `json:"bill,omitempty"` // of the app; nil if storage did not return it
}

const Degraded = "degraded"

// These limits keep a status below about 128 KiB, however many sequences,
// gates, instances and problems the app has.
const (
	maxBusiest   = 20  // sequences, and gates
	maxInstances = 100 // in the answer
	maxProblems  = 10  // of a code
	maxNames     = 20  // of the instances that have a problem
)

// Busiest returns up to maxBusiest of all, those that order puts first. Equal
// ones are in the order of their names.
func Busiest[T any](all map[string]T, order func(a, b T) int) map[string]T {
	if len(all) <= maxBusiest {
		return all
	}
	names := slices.SortedFunc(maps.Keys(all), func(a, b string) int {
		return cmp.Or(order(all[a], all[b]), strings.Compare(a, b))
	})
	some := make(map[string]T, maxBusiest)
	for _, name := range names[:maxBusiest] {
		some[name] = all[name]
	}
	return some
}

type storageStatus struct {
	Account       string         `json:"account"`
	serviceStatus                // of blobs, which every job needs
	Tables        *serviceStatus `json:"tables,omitempty"` // nil without a job that uses tables
	Queues        *serviceStatus `json:"queues,omitempty"`
}

type serviceStatus struct {
	Reachable bool   `json:"reachable"`
	Error     string `json:"error,omitempty"`
}

type SignalsStatus struct {
	Bus       string `json:"bus"`
	Receiving bool   `json:"received"` // otherwise gates are polled
}

// StatusReader reads the status of the app.
type StatusReader struct {
	Account string
	Relays  bool // there is a second namespace
	Members *Members
	Bill    *Billing // nil: the status has none
	Counter *requests.Counter
	Started time.Time

	sampling sync.Mutex // held while this process samples queues
}

// Read returns the status. It takes little longer than probeTimeout.
func (s *StatusReader) Read(ctx context.Context) *Status {
	answer := &Status{
		Status:    "ok",
		Version:   version.Read().Version,
		Instance:  s.Members.Name(),
		StartedAt: s.Started.UTC(),
		Go:        runtime.Version(),
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
	directory, _ := s.Members.Read(ctx, instances.PartSequences) // a failure is a problem of tables
	highest := make(map[string]int64)
	add := func(r instances.Report) {
		for _, used := range r.Sequences {
			highest[used.Name] = max(highest[used.Name], used.Highest)
		}
	}
	add(own)
	for _, i := range append(directory.Live, directory.Gone...) {
		add(i.Report)
	}
	for i, p := range problems {
		if isUnusable(p) && highest[p.Subject] > 0 {
			problems[i].Help += " " + RepairOf(p.Subject, highest[p.Subject])
		}
	}
}

// RepairOf returns a sentence with the command that raises an unusable sequence
// above the highest number that is known to be reserved.
func RepairOf(sequence string, highest int64) string {
	return fmt.Sprintf("Instances have reserved numbers up to %d: `kennel sequences raise %s --at-least %d` is above all that they report.", highest, sequence, highest+1)
}

// observe makes the requests to storage of a status, one to each service where
// possible: the probe of tables is a read of the instance table, and that of
// queues samples them if no recent sample is known. Once a minute it also reads
// the bill.
func (s *StatusReader) observe(ctx context.Context, answer *Status) *view {
	var billing sync.WaitGroup
	defer billing.Wait()
	billing.Go(func() { answer.Bill = s.Bill.Present(ctx) })
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
			parts := []instances.Part{instances.PartProblems, instances.PartQueues}
			if s.Relays {
				parts = append(parts, instances.PartBacklog)
			}
			v.directory, err = instances.Read(ctx, s.Members.Rows, parts...)
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
			return s.probeBySampling(ctx, v, probe)
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

// probeBySampling samples the queues, unless a recent sample is known or this
// process is sampling already. While this process knows of dead letters, a
// sample is recent for a shorter time, so that the status is ok soon after they
// are gone.
func (s *StatusReader) probeBySampling(ctx context.Context, v *view, probe Probe) error {
	known := view{directory: v.directory, others: s.Members.without(slices.Clone(v.directory.Live))}
	known.own.At, known.own.Queues = time.Now(), s.Members.Samples()
	lasts := SampleLasts
	if slices.ContainsFunc(s.Members.Report().Problems, func(p instances.Problem) bool { return p.Code == instances.DeadLetters }) {
		lasts = lettersLast
	}
	if _, ages := known.samples(); newest(ages) < lasts || !s.sampling.TryLock() {
		return probe(ctx)
	}
	defer s.sampling.Unlock()
	sampled := false
	for queues := range s.Members.sampled() {
		samples, err := queues.Sample(ctx)
		s.Members.Publish(samples)
		if err != nil {
			return err
		}
		sampled = true
	}
	if !sampled {
		return probe(ctx)
	}
	return nil
}

// storageStatusOf probes all services at once, so that a silent service does
// not delay the others. It also returns the problems that this finds.
func storageStatusOf(ctx context.Context, account string, probes map[string]Probe) (storageStatus, []instances.Problem) {
	ctx, cancel := context.WithTimeout(ctx, ProbeTimeout)
	defer cancel()
	var mu sync.Mutex
	services := make(map[string]*serviceStatus) // guarded by mu
	var problems []instances.Problem            // guarded by mu
	var probing sync.WaitGroup
	for service, probe := range probes {
		probing.Go(func() {
			err := probe(ctx)
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				services[service] = &serviceStatus{Reachable: true}
				return
			}
			failed := &serviceStatus{Error: probeError(err)}
			services[service] = failed
			problems = append(problems, problemOf(service, err, failed.Error))
		})
	}
	probing.Wait()
	return storageStatus{account, *services["blobs"], services["tables"], services["queues"]}, problems
}

// problemOf returns the problem that a failed probe shows.
func problemOf(service string, err error, cause string) instances.Problem {
	p := instances.Problem{Code: service + "_failing", What: fmt.Sprintf("A request for the status to %s failed: %s.", service, cause), Since: time.Now().UTC(), Count: 1}
	if table.IsRefused(err) {
		p.Code = instances.StorageDenied
	}
	return p
}

// probeError describes why a probe failed, without the name of what it read: an
// operator would look for a sequence or queue that does not exist.
func probeError(err error) string {
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Sprintf("no answer within %v", ProbeTimeout)
	}
	if answer, ok := errors.AsType[table.Refusal](err); ok {
		return answer.Error()
	}
	if cause := errors.Unwrap(err); cause != nil {
		err = cause // stores wrap an error once, with the operation
	}
	return err.Error()
}

func (s storageStatus) Healthy() bool {
	for _, service := range []*serviceStatus{&s.serviceStatus, s.Tables, s.Queues} {
		if service != nil && !service.Reachable {
			return false
		}
	}
	return true
}
