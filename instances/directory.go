package instances

import (
	"context"
	"time"

	"kennel/table"
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

// Directory is what the processes of the app have reported.
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

// Read reads the instance table, without Sequences, which take most of the time
// to parse. Up to a thousand rows take one request.
func Read(ctx context.Context, rows table.Querier) (Directory, error) {
	return readTable(ctx, rows, false)
}

// ReadAll is Read with Sequences.
func ReadAll(ctx context.Context, rows table.Querier) (Directory, error) {
	return readTable(ctx, rows, true)
}

func readTable(ctx context.Context, rows table.Querier, sequences bool) (d Directory, err error) {
	all, at, err := table.ReadPartition(ctx, rows, partition)
	if err != nil {
		return d, err
	}
	d.ReadAt = at
	for _, row := range all {
		report, err := parse(row, sequences)
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
		if i := (Instance{report, row.WrittenAt}); live {
			d.Live = append(d.Live, i)
		} else {
			d.Gone = append(d.Gone, i)
		}
	}
	return d, nil
}
