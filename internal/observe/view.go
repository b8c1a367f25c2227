package observe

import (
	"math"
	"slices"
	"strings"
	"time"

	"kennel/internal/instances"
)

// SampleLasts is how long a sample of the queues answers a status. After that
// the process that answers the next one samples again, and its row shows the
// result to the others within seconds. So queues are sampled while a status is
// read, by one process at a time, and not at all otherwise.
//
// A sample with dead letters lasts for lettersLast.
const (
	SampleLasts = 30 * time.Second
	lettersLast = 2 * time.Second
)

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

// view is what this process knows of the app at one moment.
type view struct {
	own       instances.Report
	others    []instances.Instance
	directory instances.Directory
}

// reports returns those of all live instances.
func (v *view) reports() []instances.Report {
	all := []instances.Report{v.own}
	for _, i := range v.others {
		all = append(all, i.Report)
	}
	return all
}

// samples returns the newest sample of each queue with its age. Each age is
// measured by the clock that stamped the sample: that of this process for its
// own, and the store's for those of others.
func (v *view) samples() (samples map[string]instances.QueueSample, ages map[string]time.Duration) {
	samples = make(map[string]instances.QueueSample)
	ages = make(map[string]time.Duration)
	add := func(r instances.Report, now time.Time) {
		for queue, sample := range r.Queues {
			age := now.Sub(sample.At)
			if known, ok := ages[queue]; !ok || age < known {
				samples[queue], ages[queue] = sample, age
			}
		}
	}
	add(v.own, v.own.At)
	for _, i := range v.others {
		add(i.Report, v.directory.ReadAt)
	}
	return samples, ages
}

// newest returns the lowest of the ages, or a very high one without any.
func newest(ages map[string]time.Duration) time.Duration {
	lowest := time.Duration(math.MaxInt64)
	for _, age := range ages {
		lowest = min(lowest, age)
	}
	return lowest
}

// hands returns how many invocations run, by queue.
func (v *view) hands() map[string]int64 {
	hands := make(map[string]int64)
	for _, r := range v.reports() {
		for queue, running := range r.Running {
			hands[queue] += running
		}
	}
	return hands
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
	return InstanceItem{r.Instance, r.Kind, r.Version, r.StartedAt.UTC(), seen.UTC(), r.CPU, r.Memory, r.Hands()}
}

// corrected corrects a sample by the number of running invocations: storage
// reports leased messages among the others.
func corrected(s instances.QueueSample, hands int64) instances.QueueSample {
	leased := max(0, hands-s.InFlight)
	s.Ready = max(0, s.Ready-leased)
	s.InFlight += leased
	return s
}

func describeQueue(s instances.QueueSample) QueueItem {
	return QueueItem{Ready: s.Ready, InFlight: s.InFlight, Delayed: s.Delayed, OldestSeconds: s.OldestSeconds, Poison: s.Poison, At: s.At.UTC()}
}

// usage is what live instances report of one sequence, all together.
type usage struct {
	PerSecond float64
	Lost      int64
}

// UsageOf sums up what instances report of sequences.
func UsageOf(all []instances.Instance) map[string]usage {
	sums := make(map[string]usage)
	for _, i := range all {
		for _, s := range i.Sequences {
			sum := sums[s.Name]
			sums[s.Name] = usage{sum.PerSecond + s.PerSecond, sum.Lost + s.Lost}
		}
	}
	return sums
}
