package observe

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"kennel/gate"
	"kennel/ids"
	"kennel/internal/control"
	"kennel/internal/cost/bill"
	"kennel/internal/instances"
)

// Status is what GET /api/status reports: problems, instances and queues
// of the app, and the rest about the instance that answers.
type Status struct {
	Status    string                    `json:"status"` // "ok", or "degraded" if an instance has a problem or storage does not respond
	Version   string                    `json:"version"`
	Instance  string                    `json:"instance"`
	StartedAt time.Time                 `json:"startedAt"`
	Go        string                    `json:"go"`
	Problems  []ProblemItem             `json:"problems"`          // the first maxProblems of each code
	Instances []InstanceItem            `json:"instances"`         // up to maxInstances
	LeftOut   int                       `json:"leftOut,omitempty"` // instances whose reports cannot be read
	Queues    map[string]QueueItem      `json:"queues"`
	Paused    map[string]*control.Pause `json:"paused,omitempty"` // the program's queues that people have paused

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

// Degraded is the status of an app that is not "ok".
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

// SignalsStatus is the signals of gates in the status.
type SignalsStatus struct {
	Bus       string `json:"bus"`
	Receiving bool   `json:"received"` // otherwise gates are polled
}

// InstanceItem is an instance in the status.
type InstanceItem struct {
	Instance  string    `json:"instance"`
	Kind      string    `json:"kind"`
	Version   string    `json:"version"`
	StartedAt time.Time `json:"startedAt"`
	SeenAt    time.Time `json:"seenAt"` // when it reported last
	CPU       float64   `json:"cpu"`    // processors in use
	Memory    int64     `json:"memory"` // resident bytes
	Hands     int64     `json:"hands"`  // invocations of queues that run now
}

// ProblemItem is a problem in the status, with the first maxNames of the
// instances that have it.
type ProblemItem struct {
	instances.ProblemGroup
	InstanceCount int `json:"instanceCount"`
}

// QueueItem is the depth of a queue in the status.
type QueueItem struct {
	Ready         int64     `json:"ready"`
	InFlight      int64     `json:"inFlight"`
	Delayed       int64     `json:"delayed"`
	OldestSeconds float64   `json:"oldestSeconds"`
	Poison        int64     `json:"poison"`
	At            time.Time `json:"at"` // of the sample
}

// describe fills in what a status reports of the whole app.
func (v *view) describe(answer *Status) {
	v.describeProblems(answer, instances.GroupProblems(v.reports()))
	answer.LeftOut = v.directory.Unreadable
	answer.Instances = []InstanceItem{describeInstance(v.own, v.own.At)}
	for _, i := range v.others {
		answer.Instances = append(answer.Instances, describeInstance(i.Report, i.SeenAt))
	}
	byName := func(a, b InstanceItem) int { return strings.Compare(a.Instance, b.Instance) }
	slices.SortFunc(answer.Instances, byName)
	if answer.InstanceCount = len(answer.Instances); answer.InstanceCount > maxInstances {
		troubled := map[string]bool{v.own.Instance: true}
		for _, r := range v.reports() {
			troubled[r.Instance] = troubled[r.Instance] || len(r.Problems) > 0
		}
		rank := func(i InstanceItem) int {
			switch {
			case i.Instance == v.own.Instance:
				return 0
			case troubled[i.Instance]:
				return 1
			}
			return 2
		}
		slices.SortStableFunc(answer.Instances, func(a, b InstanceItem) int { return rank(a) - rank(b) })
		answer.Instances = answer.Instances[:maxInstances]
		slices.SortFunc(answer.Instances, byName)
	}
	hands := v.hands()
	samples, _ := v.samples()
	answer.Queues = make(map[string]QueueItem, len(samples))
	for queue, sample := range samples {
		answer.Queues[queue] = describeQueue(corrected(sample, hands[queue]))
	}
}

// describeProblems fills in the first problems of each code, so that many
// sequences with a problem hide no other.
func (v *view) describeProblems(answer *Status, all []instances.ProblemGroup) {
	answer.ProblemCount = len(all)
	answer.Problems = []ProblemItem{}
	ofCode := make(map[string]int)
	for _, p := range all {
		if ofCode[p.Code]++; ofCode[p.Code] > maxProblems {
			continue
		}
		item := ProblemItem{p, len(p.Instances)}
		item.Instances = p.Instances[:min(len(p.Instances), maxNames)]
		answer.Problems = append(answer.Problems, item)
	}
}

func describeInstance(r instances.Report, seen time.Time) InstanceItem {
	return InstanceItem{r.Instance, r.Kind, r.Version, r.StartedAt.UTC(), seen.UTC(), r.CPU, r.Memory, instances.HandsOf(r)}
}

func describeQueue(s instances.QueueSample) QueueItem {
	return QueueItem{Ready: s.Ready, InFlight: s.InFlight, Delayed: s.Delayed, OldestSeconds: s.OldestSeconds, Poison: s.Poison, At: s.At.UTC()}
}
