package cost

// Numbers is a demand for order numbers of one sequence.
type Numbers struct {
	Numbers float64
	Range   float64 // numbers of a range; see rangeSize

	// Starts is how often an instance begins with the sequence: after its start,
	// and after ten minutes without use.
	Starts float64

	// New is how many sequences begin: each gets a marker, which is first read.
	New float64

	// Shared is whether several instances reserve at the same time: then each
	// reservation begins with a read.
	Shared bool
}

// Bounds of a range, as the defaults of package ids.
const (
	minRange   = 10
	growth     = 4 // of a range, at most
	maxRange   = 1_000_000
	rangeLasts = 60 // seconds

	// waitReads is how often an instance that ends reads whether others returned
	// the numbers above its own.
	waitReads = 4

	// remembered is how many instances the blob remembers. If more share it,
	// each reservation also reads their reports.
	remembered = 16
)

// rangeSize returns the numbers of a range at so many numbers a second and
// instance.
func rangeSize(perSecond float64) float64 {
	return min(max(minRange, perSecond*rangeLasts), maxRange)
}

// Lines returns the requests. An instance reads the blob when it begins and
// writes it for each range, of which it has one ahead. When it ends, it returns
// the numbers that are left. Before its first range it also reads the reports
// of the others.
func (n Numbers) Lines() []Line {
	t := tally{job: jobNumbers}
	ranges := n.Numbers / n.Range
	reads, reports := n.Starts+n.New, n.Starts
	if n.Starts > remembered {
		reports += ranges
	}
	if n.Shared {
		reads += ranges
	}
	for size := float64(minRange); size < n.Range; size *= growth { // the ranges at the start are smaller
		ranges += n.Starts * (1 - size/n.Range)
	}
	if n.Shared {
		reads += waitReads * n.Starts
	}
	t.add("blob", "get", reads)
	t.add("blob", "put", ranges+2*n.Starts+n.New) // with the range ahead, and the numbers returned
	i := tally{job: jobInstances}
	i.add("table", "query", reports)
	return append(t.lines, i.lines...)
}
