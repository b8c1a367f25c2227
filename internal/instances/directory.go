package instances

import (
	"context"
	"runtime"
	"sync"
	"time"

	"kennel/internal/table"
)

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

// Read reads the instance table: the reports with these parts. Other parts are
// empty. Each takes up to 20 KB in a row, so a caller names only those that it
// needs. A thousand rows take one request, or more if they are longer than 4 MiB.
func Read(ctx context.Context, rows table.Querier, parts ...Part) (d Directory, err error) {
	columns := []string{columnFormat, columnReport}
	for _, part := range parts {
		columns = append(columns, part.column())
	}
	all, at, err := table.ReadPartition(ctx, rows, partition, columns...)
	if err != nil {
		return d, err
	}
	d.ReadAt = at
	reports, errs := parseAll(all, parts)
	for i, row := range all {
		report, err := reports[i], errs[i]
		live := at.Sub(row.WrittenAt) < LiveFor
		switch {
		case err != nil && live:
			d.Unreadable++
			continue
		case err != nil:
			continue
		}
		if wrong := row.WrittenAt.Sub(report.At); wrong.Abs() > maxLate {
			report.shift(wrong)
		}
		if one := (Instance{report, row.WrittenAt}); live {
			d.Live = append(d.Live, one)
		} else {
			d.Gone = append(d.Gone, one)
		}
	}
	return d, nil
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

// parseAll parses rows on all processors: the lists of hundreds of processes
// have 10 MB, and a person waits for them.
func parseAll(rows []table.Row, parts []Part) (reports []Report, errs []error) {
	reports, errs = make([]Report, len(rows)), make([]error, len(rows))
	var parsing sync.WaitGroup
	n := min(runtime.GOMAXPROCS(0), len(rows))
	for first := range n {
		parsing.Go(func() {
			for i := first; i < len(rows); i += n {
				reports[i], errs[i] = parse(rows[i], parts)
			}
		})
	}
	parsing.Wait()
	return reports, errs
}
