package cost

import (
	"cmp"
	"slices"
	"strings"
)

// The jobs, as the counter of requests names them, and those of other programs.
const (
	jobNumbers   = "numbers"
	jobGates     = "gates"
	jobChannels  = "channels"
	jobBatches   = "batches"
	jobInstances = "instances"
	jobBill      = "bill"
	jobSignals   = "signals"
	jobRelay     = "relay"
	jobScale     = "scale"
	jobHost      = "host"  // the Functions host on behalf of the app
	jobItems     = "items" // of the designs of the paper
	jobIdle      = "idle"
)

// tally adds up lines. Those of the same job and operation become one.
type tally struct {
	job      string
	modelled bool
	lines    []Line
}

func (t *tally) add(service, name string, count float64) {
	if count != 0 {
		t.lines = append(t.lines, Line{t.job, service, name, count, t.modelled})
	}
}

// Total returns how many operations the lines have, without compute.
func Total(lines []Line) (sum float64) {
	for _, l := range lines {
		if l.isRequest() {
			sum += l.Count
		}
	}
	return sum
}

// isRequest reports whether a line counts requests, and not hours.
func (l Line) isRequest() bool { return l.Service != compute && l.Operation != "hour" }

// times returns the lines so many times.
func times(n float64, lines []Line) []Line {
	lines = slices.Clone(lines)
	for i := range lines {
		lines[i].Count *= n
	}
	return lines
}

// modelled marks lines as modelled.
func modelled(lines []Line) []Line {
	for i := range lines {
		lines[i].Modelled = true
	}
	return lines
}

// sum merges lines of the same job and operation, and sorts them.
func sum(groups ...[]Line) []Line {
	type key struct {
		job, service, name string
		modelled           bool
	}
	counts := make(map[key]float64)
	for _, lines := range groups {
		for _, l := range lines {
			counts[key{l.Job, l.Service, l.Operation, l.Modelled}] += l.Count
		}
	}
	var merged []Line
	for k, n := range counts {
		if n > 0 {
			merged = append(merged, Line{k.job, k.service, k.name, n, k.modelled})
		}
	}
	slices.SortFunc(merged, func(a, b Line) int {
		if order := cmp.Or(strings.Compare(a.Job, b.Job), strings.Compare(a.Service, b.Service), strings.Compare(a.Operation, b.Operation)); order != 0 {
			return order
		}
		if a.Modelled {
			return 1
		}
		return -1
	})
	return merged
}
