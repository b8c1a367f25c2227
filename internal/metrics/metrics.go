// Package metrics writes the reports of the app's processes in the text format
// of Prometheus.
//
// The numbers are those of [instances.Report], so metrics, status and the
// advice on scaling agree. docs/operations.md lists the families.
package metrics

import (
	"cmp"
	"maps"
	"slices"

	"kennel/internal/cost/bill"
	"kennel/internal/instances"
)

// Set is the result of one scrape.
type Set struct {
	Reports []instances.Report
	Queues  map[string]instances.QueueSample // depths, by queue; they concern no process
	Bill    *bill.Bill                       // of the app; nil: none
	Backlog *instances.Backlog               // of the app; nil: it was not sampled

	// ByProcess adds the name and the kind of its process to each series. A
	// scraper adds labels of its own to the series of a single process.
	ByProcess bool

	// Runtime adds metrics of this process that the Go runtime and the system
	// know.
	Runtime bool
}

// Parts returns what the metrics of processes read of their reports.
func Parts() []instances.Part {
	return []instances.Part{instances.Problems, instances.SequenceSection, instances.GateSection, instances.RequestSection,
		instances.RunningSection, instances.WorkSection, instances.RelaySection, instances.SendSection, instances.MessagingSection}
}

// Text returns the metrics: families in the order of their names, series in the
// order of their labels.
func (s Set) Text() []byte {
	var all []block
	for _, f := range families {
		all = append(all, block{f.name, f.help, f.kind, s.samples(f)})
	}
	if s.Runtime {
		all = append(all, runtimeBlocks()...)
		all = append(all, processBlocks()...)
	}
	slices.SortFunc(all, func(a, b block) int { return cmp.Compare(a.name, b.name) })
	var text []byte
	for _, b := range all {
		if len(b.samples) > 0 {
			text = b.appendTo(text)
		}
	}
	return text
}

// samples returns the lines of a family.
func (s Set) samples(f family) (all []sample) {
	found := make(found)
	switch {
	case f.ofQueues != nil:
		f.ofQueues(s.Queues, found.adder(f.labels, nil))
	case f.ofBill != nil:
		if s.Bill != nil {
			f.ofBill(*s.Bill, found.adder(f.labels, nil))
		}
	case f.ofBacklog != nil:
		if s.Backlog != nil {
			f.ofBacklog(*s.Backlog, found.adder(f.labels, nil))
		}
	default:
		for _, r := range s.Reports {
			added := s.added(f, r)
			if f.ages != nil {
				f.ages(r, func(d distribution, values ...string) { found.at(f.labels, values, added).ages = d })
			} else {
				f.of(r, found.adder(f.labels, added))
			}
		}
	}
	for _, one := range slices.SortedFunc(maps.Values(found), func(a, b *series) int { return slices.CompareFunc(a.labels, b.labels, byValue) }) {
		if f.ages != nil {
			all = append(all, one.ages.samples(one.labels)...)
		} else {
			all = append(all, sample{labels: one.labels, value: one.value})
		}
	}
	return all
}

// added returns the labels of a report's series besides those of their family.
func (s Set) added(f family, r instances.Report) []label {
	if !s.ByProcess {
		return nil
	}
	all := []label{{labelProcess, r.Instance}, {labelKind, r.Kind}}
	return slices.DeleteFunc(all, func(l label) bool { return slices.Contains(f.labels, l.name) })
}
