package instances

import "time"

const (
	// LiveFor is how long a row counts after it was written. A process writes
	// its row four times in it.
	LiveFor = 2 * time.Minute

	// keepFor is how long rows are kept.
	keepFor = 24 * time.Hour

	// maxLate is how late a write may reach the store for the times in the row
	// to be believed.
	maxLate = 10 * time.Second
)

// Directory has the reports of the processes of the app.
type Directory struct {
	ReadAt     time.Time  // by the store's clock
	Live       []Instance // in the order of their names
	Gone       []Instance // that have not reported for LiveFor, and neither stopped cleanly
	Unreadable int        // live rows that another build wrote, or another program; they are left out
}

// Instance is the last report of a process. Its times are those of the store's
// clock if the clock of the process is wrong.
type Instance struct {
	Report
	SeenAt time.Time // when the report was stored
}

// shift corrects all times by the error of the clock of the process.
func (r *Report) shift(d time.Duration) {
	r.StartedAt, r.At = r.StartedAt.Add(d), r.At.Add(d)
	r.Problems = problemList.shift(r.Problems, d)
	facts := make(map[string]fact, len(r.facts))
	for name, fact := range r.facts {
		facts[name] = fact.shifted(d)
	}
	r.facts = facts
}
