package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"kennel/gate"
	"kennel/ids"
	"kennel/internal/azure"
	"kennel/internal/azure/requests"
	"kennel/internal/config"
	"kennel/internal/cost/bill"
	"kennel/internal/instances"
	"kennel/internal/version"
)

// probeTimeout limits the requests to storage that a status makes, one to each
// service, all at once.
const probeTimeout = 2 * time.Second

// A probe makes one cheap request to a service. It returns nil if the service
// responded.
type probe func(context.Context) error

// statusAnswer is what GET /api/status reports: problems, instances and queues
// of the app, and the rest about the instance that answers.
type statusAnswer struct {
	Status    string               `json:"status"` // "ok", or "degraded" if an instance has a problem or storage does not respond
	Version   string               `json:"version"`
	Instance  string               `json:"instance"`
	StartedAt time.Time            `json:"startedAt"`
	Go        string               `json:"go"`
	Problems  []problemItem        `json:"problems"`          // the first maxProblems of each code
	Instances []instanceItem       `json:"instances"`         // up to maxInstances
	LeftOut   int                  `json:"leftOut,omitempty"` // instances whose reports cannot be read
	Queues    map[string]queueItem `json:"queues"`

	ProblemCount  int `json:"problemCount"`  // with those that Problems leaves out
	InstanceCount int `json:"instanceCount"` // with those that Instances leaves out
	SequenceCount int `json:"sequenceCount"` // that this instance uses
	GateCount     int `json:"gateCount"`     // at which this instance has waiters

	Storage   storageStatus           `json:"storage"`
	Signals   signalsStatus           `json:"signals"`
	Relay     *relayStatus            `json:"relay,omitempty"` // of all instances; nil without a second namespace
	Sequences map[string]ids.Stats    `json:"sequences"`       // the busiest that this instance uses
	Gates     map[string]gate.Watched `json:"gates"`           // those with the most waiters in this instance

	// Requests counts the requests of this process, by service and operation.
	Requests map[string]map[string]int64 `json:"requests"`

	Bill *bill.Bill `json:"bill,omitempty"` // of the app; nil if storage did not return it
}

const degraded = "degraded"

// These limits keep a status below about 128 KiB, however many sequences,
// gates, instances and problems the app has.
const (
	maxBusiest   = 20  // sequences, and gates
	maxInstances = 100 // in the answer
	maxProblems  = 10  // of a code
	maxNames     = 20  // of the instances that have a problem
)

// busiest returns up to maxBusiest of all, those that order puts first. Equal
// ones are in the order of their names.
func busiest[T any](all map[string]T, order func(a, b T) int) map[string]T {
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

type signalsStatus struct {
	Bus       string `json:"bus"`
	Receiving bool   `json:"received"` // otherwise gates are polled
}

// health serves GET /api/health: the process is up. It makes no request, so
// that a platform does not restart healthy processes while storage is down.
func health(w http.ResponseWriter, r *http.Request) {
	w.Header()["Content-Type"] = jsonType
	w.Write([]byte("{\"status\":\"ok\"}\n"))
}

// statusFunctions serve the status.
type statusFunctions struct {
	account string
	jobs    []job
	relays  bool             // there is a second namespace
	probes  map[string]probe // of all jobs, by service
	members *members
	bill    *billing // nil: the status has none
	counter *requests.Counter
	started time.Time

	sampling sync.Mutex // held while this process samples queues
}

func newStatus(cfg config.Config, jobs []job, m *members, b *billing, counter *requests.Counter, started time.Time) *statusFunctions {
	s := &statusFunctions{account: cfg.Storage.String(), jobs: jobs, relays: cfg.ServiceBusSecondary.Given(), probes: make(map[string]probe), members: m, bill: b, counter: counter, started: started}
	for _, j := range jobs {
		maps.Copy(s.probes, j.probes)
	}
	return s
}

// ServeHTTP serves GET /api/status. The answer is 200 also if the app is
// degraded: callers read the body.
func (s *statusFunctions) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	answer := statusAnswer{
		Status:    "ok",
		Version:   version.Read().Version,
		Instance:  s.members.Name(),
		StartedAt: s.started.UTC(),
		Go:        runtime.Version(),
	}
	view := s.observe(r.Context(), &answer)
	for _, j := range s.jobs {
		if j.report != nil {
			j.report(&answer)
		}
	}
	view.describe(&answer)
	s.addRepairs(r.Context(), view.own, answer.Problems)
	if s.relays {
		answer.Relay = relayStatusOf(view.reports())
	}
	if !answer.Storage.healthy() || len(answer.Problems) > 0 {
		answer.Status = degraded
	}
	answer.Requests = s.counter.Operations() // including the probes of this call
	writeJSON(w, http.StatusOK, answer)
}

// addRepairs adds to the problems of unusable sequences the commands that raise
// them above every number that an instance has reported. Only for these it reads
// what the instances report of sequences.
func (s *statusFunctions) addRepairs(ctx context.Context, own instances.Report, problems []problemItem) {
	isUnusable := func(p problemItem) bool {
		return p.Subject != "" && (p.Code == instances.SequenceMissing || p.Code == instances.SequenceCorrupt)
	}
	if !slices.ContainsFunc(problems, isUnusable) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	directory, _ := s.members.read(ctx, instances.PartSequences) // a failure is a problem of tables
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
			problems[i].Help += " " + repairOf(p.Subject, highest[p.Subject])
		}
	}
}

// observe makes the requests to storage of a status, one to each service where
// possible: the probe of tables is a read of the instance table, and that of
// queues samples them if no recent sample is known. Once a minute it also reads
// the bill.
func (s *statusFunctions) observe(ctx context.Context, answer *statusAnswer) *view {
	var billing sync.WaitGroup
	defer billing.Wait()
	billing.Go(func() { answer.Bill = s.bill.present(ctx) })
	v := &view{}
	probes := maps.Clone(s.probes)
	read := make(chan struct{}) // closed when the read of the instance table has ended
	if s.members.rows == nil {
		close(read)
	} else {
		probes["tables"] = func(ctx context.Context) error {
			defer close(read)
			var err error
			parts := []instances.Part{instances.PartProblems, instances.PartQueues}
			if s.relays {
				parts = append(parts, instances.PartBacklog)
			}
			v.directory, err = instances.Read(ctx, s.members.rows, parts...)
			return err
		}
	}
	if probe := probes["queues"]; probe != nil {
		probes["queues"] = func(ctx context.Context) error {
			select {
			case <-read:
			case <-time.After(probeTimeout / 2): // leaves time for the probe
				return probe(ctx)
			}
			return s.probeBySampling(ctx, v, probe)
		}
	}
	var failed []instances.Problem
	answer.Storage, failed = storageStatusOf(ctx, s.account, probes)
	v.own = s.members.Report() // after the probes, which may be what finds a problem
	for _, p := range failed {
		if !slices.ContainsFunc(v.own.Problems, func(known instances.Problem) bool { return known.Code == p.Code }) {
			v.own.Problems = append(slices.Clip(v.own.Problems), p)
		}
	}
	v.others = s.members.without(v.directory.Live)
	return v
}

// probeBySampling samples the queues, unless a recent sample is known or this
// process is sampling already. While this process knows of dead letters, a
// sample is recent for a shorter time, so that the status is ok soon after they
// are gone.
func (s *statusFunctions) probeBySampling(ctx context.Context, v *view, probe probe) error {
	known := view{directory: v.directory, others: s.members.without(slices.Clone(v.directory.Live))}
	known.own.At, known.own.Queues = time.Now(), s.members.Samples()
	lasts := sampleLasts
	if slices.ContainsFunc(s.members.Report().Problems, func(p instances.Problem) bool { return p.Code == instances.DeadLetters }) {
		lasts = lettersLast
	}
	if _, ages := known.samples(); newest(ages) < lasts || !s.sampling.TryLock() {
		return probe(ctx)
	}
	defer s.sampling.Unlock()
	sampled := false
	for _, j := range s.jobs {
		if j.sample == nil {
			continue
		}
		samples, err := j.sample(ctx)
		s.members.Publish(samples)
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
func storageStatusOf(ctx context.Context, account string, probes map[string]probe) (storageStatus, []instances.Problem) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
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
	if isRefused(err) {
		p.Code = instances.StorageDenied
	}
	return p
}

// probeError describes why a probe failed, without what it read: an operator
// would look for a sequence or queue that does not exist.
func probeError(err error) string {
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Sprintf("no answer within %v", probeTimeout)
	}
	if answer, ok := errors.AsType[*azure.Error](err); ok {
		return answer.Error()
	}
	if cause := errors.Unwrap(err); cause != nil {
		err = cause // stores wrap an error once, with the operation
	}
	return err.Error()
}

func (s storageStatus) healthy() bool {
	for _, service := range []*serviceStatus{&s.serviceStatus, s.Tables, s.Queues} {
		if service != nil && !service.Reachable {
			return false
		}
	}
	return true
}

// probeQueues receives from a queue that need not exist and that has no other
// use: from another queue it would hide a message for a while.
func probeQueues(queues *azure.Queues) probe {
	return func(ctx context.Context) error {
		_, err := queues.Receive(ctx, "kennel-status", 1, time.Second)
		return err
	}
}
