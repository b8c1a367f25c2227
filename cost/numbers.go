package cost

// Numbers is a demand for order numbers of one sequence.
type Numbers struct {
	Numbers float64
	Range   float64 // numbers of a range; see RangeSize

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
	minRange   = 1000
	maxRange   = 1_000_000
	rangeLasts = 60 // seconds
)

// RangeSize returns the numbers of a range at so many numbers a second and
// instance.
func RangeSize(perSecond float64) float64 {
	return min(max(minRange, perSecond*rangeLasts), maxRange)
}

// Lines returns the requests. An instance reads the blob when it begins and
// writes it for each range, of which it has one ahead. When it ends, it returns
// the numbers that are left.
func (n Numbers) Lines() []Line {
	t := tally{job: jobNumbers}
	ranges := n.Numbers / n.Range
	reads := n.Starts + n.New
	if n.Shared {
		reads += ranges
	}
	t.add("blob", "get", reads)
	t.add("blob", "put", ranges+2*n.Starts+n.New) // with the range ahead, and the numbers returned
	return t.lines
}
