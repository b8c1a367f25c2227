package metrics

import (
	"cmp"
	"slices"
	"strings"

	"kennel/internal/cost/bill"
	"kennel/internal/instances"
)

// family is a metric with all its series.
type family struct {
	name, help string
	kind       kind
	labels     []string

	// One of these returns the series. Values with equal labels are added.
	of       func(instances.Report, func(value float64, labels ...string))
	ages     func(instances.Report, func(d distribution, labels ...string))
	ofQueues func(map[string]instances.QueueSample, func(value float64, labels ...string))
	ofBill   func(bill.Bill, func(value float64, labels ...string))

	ofBacklog func(instances.Backlog, func(value float64, labels ...string))
}

// maxNames is how many sequences and gates of a process have series: those with
// the most numbers or waiters. Callers choose the names.
const maxNames = 100

// labelProcess and labelKind identify a process.
const (
	labelProcess = "process"
	labelKind    = "kind"
)

// series is one of a family.
type series struct {
	labels []label // in the order of their names
	value  float64
	ages   distribution // of a histogram
}

// found are series by the values of their labels. No two have the same ones,
// whatever reports contain: a scraper would reject the whole text.
type found map[string]*series

// adder returns a function that adds to the series with these values of labels:
// a report may have several numbers for one, such as the requests of all jobs.
func (s found) adder(names []string, added []label) func(value float64, values ...string) {
	return func(value float64, values ...string) { s.at(names, values, added).value += value }
}

// at returns the series with these labels.
func (s found) at(names, values []string, added []label) *series {
	labels := slices.Clone(added)
	for i, name := range names {
		labels = append(labels, label{name, values[i]})
	}
	slices.SortFunc(labels, func(a, b label) int { return cmp.Compare(a.name, b.name) })
	var key strings.Builder
	for i := range labels {
		labels[i].value = strings.ToValidUTF8(labels[i].value, "\uFFFD")
		key.WriteString(labels[i].value)
		key.WriteByte(0xff) // which UTF-8 does not have
	}
	if s[key.String()] == nil {
		s[key.String()] = &series{labels: labels}
	}
	return s[key.String()]
}

func byValue(a, b label) int { return cmp.Compare(a.value, b.value) }
