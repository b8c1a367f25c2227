package check

import (
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"kennel/internal/instances"
	"kennel/internal/scale"
)

// Record is one check.
type Record struct {
	At      time.Time `json:"at"`
	Running int       `json:"running"` // instances that work on the queues
	Advice  []Advice  `json:"advice"`  // the first one is for all queues together
	Samples []Sample  `json:"samples"`
	Outcome *Outcome  `json:"outcome,omitempty"` // of the last advice that was compared with the target
}

// Advice is a number of instances, or of hands of each instance for a queue.
type Advice struct {
	Target    string `json:"target"`
	Queue     string `json:"queue,omitempty"`
	Hands     *int   `json:"hands,omitempty"`
	Instances *int   `json:"instances,omitempty"`
	Reason    string `json:"reason"`
}

// Sample is a queue at the time of the check.
type Sample struct {
	Queue                string  `json:"queue"`
	Ready                int64   `json:"ready"`
	InFlight             int64   `json:"inFlight"`
	Delayed              int64   `json:"delayed"`
	OldestSeconds        float64 `json:"oldestSeconds"`
	Held                 bool    `json:"held"`
	ArrivalsPerSecond    float64 `json:"arrivalsPerSecond"`
	CompletionsPerSecond float64 `json:"completionsPerSecond"`
	P95LatencySeconds    float64 `json:"p95LatencySeconds"`
	ResponseSeconds      float64 `json:"responseSeconds"`
	Working              int64   `json:"working"`
	CPU                  float64 `json:"cpu"`
}

// The states of an outcome.
const (
	Unchanged = "unchanged" // the target was as advised
	DryRun    = "dryRun"    // the target would be changed
	Applied   = "applied"
	Denied    = "denied"
	Busy      = "busy" // another change is under way, or there were too many requests; a later check tries again
	Failed    = "failed"
)

// Outcome reports whether advice reached a target.
type Outcome struct {
	At        time.Time `json:"at"` // of the check
	State     string    `json:"state"`
	Instances int       `json:"instances"`         // the minimum as advised, within the maximum of the target
	Minimum   *int      `json:"minimum,omitempty"` // that the target had
	Error     string    `json:"error,omitempty"`
}

// counts reports whether a process is one of the instances that the advice
// counts: those that work on queues, and of a target only workers.
func (c *Check) counts(r *instances.Report) bool {
	return len(instances.WorkSection.Of(*r)) > 0 && (c.opt.Target == nil || r.Kind == instances.Worker)
}

// readingOf returns the reading for package scale. Completed messages of all
// processes count, but only the instances that count have hands and messages.
func (c *Check) readingOf(at time.Time, f Facts) scale.Reading {
	reading := scale.Reading{At: at, LatencyTarget: c.opt.Latency}
	hands, cpu, measured := 0, 0.0, 0
	for _, r := range f.Reports {
		if !c.counts(&r) {
			continue
		}
		reading.Instances++
		pool := int64(0) // the largest: queues of several pools rarely have backlogs at once
		for _, w := range instances.WorkSection.Of(r) {
			pool = max(pool, w.Pool)
		}
		hands += int(pool)
		if r.CPUs > 0 {
			cpu += r.CPU / float64(r.CPUs)
			measured++
		}
	}
	reading.Hands = hands / max(reading.Instances, 1)
	cpu /= float64(max(measured, 1))
	for _, name := range slices.Sorted(maps.Keys(f.Depths)) {
		s := c.sampleOf(name, f)
		s.CPU = cpu
		reading.Samples = append(reading.Samples, s)
	}
	return reading
}

// maxLate is how late the answer with the store's time may be for the clock of
// this process to be believed.
const maxLate = 10 * time.Second

// correct corrects the ages of messages, which this process measured with a clock
// that is ahead of the store's by skew. An age of 0 may be a negative one, set to
// 0 because the clock was late; it is unknown and stays.
func correct(reading *scale.Reading, skew time.Duration) {
	if skew.Abs() <= maxLate {
		return
	}
	for i := range reading.Samples {
		if s := &reading.Samples[i]; s.OldestSeconds > 0 {
			s.OldestSeconds = max(0, s.OldestSeconds-skew.Seconds())
		}
	}
}

// sampleOf adds up the reports of the processes on a queue. Each rate is one of
// the clock of one process.
func (c *Check) sampleOf(name string, f Facts) scale.Sample {
	d := f.Depths[name]
	s := scale.Sample{Queue: name, Ready: d.Ready, InFlight: d.InFlight, Delayed: d.Delayed, OldestSeconds: d.OldestSeconds, Held: d.Held}
	var completed int64
	var handSeconds float64
	var latencies []int64
	for _, r := range f.Reports {
		if c.counts(&r) {
			s.Working += instances.RunningSection.Of(r)[name]
		}
		recent, ok := instances.RecentSection.Of(r)[name]
		if !ok || recent.Completed == 0 || r.Window <= 0 {
			continue
		}
		s.CompletionsPerSecond += float64(recent.Completed) / r.Window
		completed += recent.Completed
		handSeconds += recent.HandSeconds
		for i, n := range recent.Latencies {
			if i == len(latencies) {
				latencies = append(latencies, 0)
			}
			latencies[i] += n
		}
	}
	if completed > 0 {
		s.ResponseSeconds = handSeconds / float64(completed)
	}
	s.P95LatencySeconds = quantile(latencies, 0.95).Seconds()
	return s
}

// hosted reports whether a Functions host works on a queue, where the settings
// of the host decide about hands.
func hosted(queue string, reports []instances.Report) bool {
	workers := false
	for _, r := range reports {
		if _, works := instances.WorkSection.Of(r)[queue]; works && r.Kind == instances.Functions {
			return true
		}
		workers = workers || r.Kind == instances.Worker
	}
	return !workers
}

// record returns the record of a check.
func (c *Check) record(reading scale.Reading, advice scale.Advice, f Facts, outcome *Outcome) Record {
	if c.opt.Target == nil {
		outcome = nil // of a target that was removed
	}
	target := c.opt.TargetName
	r := Record{At: reading.At.UTC(), Running: reading.Instances, Samples: []Sample{}, Outcome: outcome,
		Advice: []Advice{{Target: target, Instances: &advice.Instances, Reason: advice.Reason}}}
	for i, q := range advice.Queues {
		if !f.Depths[q.Queue].Own { // nobody would follow it
			reason := q.Reason
			if hosted(q.Queue, f.Reports) {
				reason = strings.TrimSuffix(reason, ".") + "; under the Functions host, host.json decides."
			}
			r.Advice = append(r.Advice, Advice{Target: target, Queue: q.Queue, Hands: &q.Hands, Reason: reason})
		}
		s := reading.Samples[i]
		r.Samples = append(r.Samples, Sample{
			Queue: s.Queue, Ready: s.Ready, InFlight: s.InFlight, Delayed: s.Delayed, OldestSeconds: rounded(s.OldestSeconds), Held: s.Held,
			ArrivalsPerSecond: rounded(q.ArrivalsPerSecond), CompletionsPerSecond: rounded(s.CompletionsPerSecond),
			P95LatencySeconds: rounded(s.P95LatencySeconds), ResponseSeconds: rounded(s.ResponseSeconds), Working: s.Working, CPU: rounded(s.CPU),
		})
	}
	return r
}

// rounded keeps three decimals, so that the number is short in JSON.
func rounded(x float64) float64 { return math.Round(x*1000) / 1000 }
