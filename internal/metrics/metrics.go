// Package metrics writes what processes of the app report about themselves in
// the text format of Prometheus.
//
// The numbers are those of [instances.Report], so metrics, status and the
// advice on scaling agree. docs/operations.md lists the families.
package metrics

import (
	"io"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/common/expfmt"

	"kennel/bill"
	"kennel/instances"
)

var format = expfmt.NewFormat(expfmt.TypeTextPlain)

// ContentType is that of the text.
var ContentType = string(format)

// Set is what one scrape returns.
type Set struct {
	Reports []instances.Report
	Queues  map[string]instances.QueueSample // depths, by queue; they concern no process
	Bill    *bill.Bill                       // of the app; nil: none
	Backlog *instances.Backlog               // of the app; nil: it was not sampled

	// ByProcess adds the name and the kind of its process to each series. A
	// scraper adds labels of its own to what it reads from a single process.
	ByProcess bool

	// Runtime adds metrics of this process that the Go runtime and the system
	// know.
	Runtime bool
}

// Write writes the metrics.
func (s Set) Write(w io.Writer) error {
	registry := prometheus.NewRegistry()
	all := []prometheus.Collector{collector{s}}
	if s.Runtime {
		all = append(all, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	}
	for _, c := range all {
		if err := registry.Register(c); err != nil {
			return err
		}
	}
	gathered, err := registry.Gather()
	if err != nil {
		return err
	}
	encoder := expfmt.NewEncoder(w, format)
	for _, f := range gathered {
		if err := encoder.Encode(f); err != nil {
			return err
		}
	}
	return nil
}

// collector is a set whose series have constant values.
type collector struct{ Set }

// Describe implements [prometheus.Collector].
func (c collector) Describe(descs chan<- *prometheus.Desc) {
	for _, f := range families {
		descs <- c.desc(f)
	}
}

// Collect implements [prometheus.Collector].
func (c collector) Collect(metrics chan<- prometheus.Metric) {
	for _, f := range families {
		desc := c.desc(f)
		add := func(value float64, labels ...string) { metrics <- metric(desc, f.kind, value, labels) }
		switch {
		case f.ofQueues != nil:
			f.ofQueues(c.Queues, add)
		case f.ofBill != nil:
			if c.Bill != nil {
				f.ofBill(*c.Bill, add)
			}
		case f.ofBacklog != nil:
			if c.Backlog != nil {
				f.ofBacklog(*c.Backlog, add)
			}
		default:
			for _, r := range c.Reports {
				for _, m := range c.ofReport(desc, f, r) {
					metrics <- m
				}
			}
		}
	}
}

// desc describes a family.
func (c collector) desc(f family) *prometheus.Desc {
	return prometheus.NewDesc(f.name, f.help, append(c.added(f), f.labels...), nil)
}

// labelProcess and labelKind identify a process.
const (
	labelProcess = "process"
	labelKind    = "kind"
)

// added returns the labels of a family besides its own.
func (c collector) added(f family) []string {
	if !c.ByProcess || f.isOfApp() {
		return nil
	}
	return slices.DeleteFunc([]string{labelProcess, labelKind}, func(label string) bool { return slices.Contains(f.labels, label) })
}

// ofReport returns the series of a family in a report.
func (c collector) ofReport(desc *prometheus.Desc, f family, r instances.Report) (all []prometheus.Metric) {
	var added []string
	for _, label := range c.added(f) {
		added = append(added, map[string]string{labelProcess: r.Instance, labelKind: r.Kind}[label])
	}
	if f.ages != nil {
		f.ages(r, func(h histogram, labels ...string) {
			m, err := prometheus.NewConstHistogram(desc, h.count, h.sum, h.below, append(slices.Clip(added), labels...)...)
			if err != nil {
				m = prometheus.NewInvalidMetric(desc, err)
			}
			all = append(all, m)
		})
		return all
	}
	// A report may have several values for the same labels, such as the requests
	// of several jobs.
	sums := make(map[string]float64)
	f.of(r, func(value float64, labels ...string) { sums[strings.Join(labels, "\xff")] += value })
	for key, value := range sums {
		labels := slices.Clip(added)
		if len(f.labels) > 0 {
			labels = append(labels, strings.Split(key, "\xff")...)
		}
		all = append(all, metric(desc, f.kind, value, labels))
	}
	return all
}

func metric(desc *prometheus.Desc, kind prometheus.ValueType, value float64, labels []string) prometheus.Metric {
	m, err := prometheus.NewConstMetric(desc, kind, value, labels...)
	if err != nil {
		return prometheus.NewInvalidMetric(desc, err)
	}
	return m
}
