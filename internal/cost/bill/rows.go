package bill

import (
	"context"
	"fmt"
	"strings"
	"time"

	"kennel/internal/table"
)

// A month is a partition. The row of a process has the day and its name as the
// key, and the row of all processes that ended the day alone.
const (
	monthFormat = "2006-01"
	dayFormat   = "02"

	// format is the version of the content of the column of usage. Readers
	// leave out a row of another format, and it is never folded.
	format = "1"

	columnFormat = "format"
	columnUsage  = "usage"
)

// key identifies a row.
type key struct {
	day  time.Time // its begin
	name string    // of the process; "": all that ended
}

func keyOf(at time.Time, name string) key { return key{dayOf(at), name} }

// dayOf returns the begin of the day.
func dayOf(at time.Time) time.Time { return at.UTC().Truncate(24 * time.Hour) }

func (k key) partition() string { return k.day.Format(monthFormat) }

func (k key) text() string {
	if k.name == "" {
		return k.day.Format(dayFormat)
	}
	return k.day.Format(dayFormat) + "-" + k.name
}

func rowOf(k key, u Usage) table.Row {
	return table.Row{Partition: k.partition(), Key: k.text(), Values: map[string]string{columnFormat: format, columnUsage: u.marshal()}}
}

// parseRow reads a row.
func parseRow(row table.Row) (k key, u Usage, err error) {
	if found := row.Values[columnFormat]; found != format {
		return k, u, fmt.Errorf("the format is %.20q, not %q", found, format)
	}
	day, name, _ := strings.Cut(row.Key, "-")
	if k.day, err = time.Parse(monthFormat+"-"+dayFormat, row.Partition+"-"+day); err != nil {
		return k, u, err
	}
	k.name = name
	u, err = parseUsage(row.Values[columnUsage])
	return k, u, err
}

// readMonth returns all rows of the month that has the day, and the time by the
// store's clock.
func readMonth(ctx context.Context, rows table.Store, day time.Time) (all []table.Row, at time.Time, err error) {
	return table.ReadPartition(ctx, rows, day.UTC().Format(monthFormat))
}
