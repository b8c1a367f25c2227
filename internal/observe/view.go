package observe

import (
	"math"
	"time"

	"kennel/internal/instances"
)

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
		for queue, sample := range instances.QueueSection.Of(r) {
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
		for queue, running := range instances.RunningSection.Of(r) {
			hands[queue] += running
		}
	}
	return hands
}

// corrected corrects a sample by the number of running invocations: storage
// reports leased messages among the others.
func corrected(s instances.QueueSample, hands int64) instances.QueueSample {
	leased := max(0, hands-s.InFlight)
	s.Ready = max(0, s.Ready-leased)
	s.InFlight += leased
	return s
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
		for _, s := range instances.SequenceSection.Of(i.Report) {
			sum := sums[s.Name]
			sums[s.Name] = usage{sum.PerSecond + s.PerSecond, sum.Lost + s.Lost}
		}
	}
	return sums
}
