package bill

import (
	"context"
	"errors"
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

// foldAfter is how long a row must not have been written before it is folded.
const foldAfter = time.Hour

// fold adds rows of processes that ended to the row of their day, as many as a
// transaction takes, and deletes them. Each process does it, so that no process
// has to be there for it; if two do it at once, one of them changes nothing.
func (l *Ledger) fold(ctx context.Context, now time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, 4*callTimeout)
	defer cancel()
	err := l.foldMonth(ctx, now)
	// The last day of a month may be folded in the next one.
	if before := now.Add(-2 * 24 * time.Hour); before.UTC().Month() != now.UTC().Month() {
		err = errors.Join(err, l.foldMonth(ctx, before))
	}
	return err
}

func (l *Ledger) foldMonth(ctx context.Context, month time.Time) error {
	all, at, err := readMonth(ctx, l.rows, month)
	if err != nil {
		return err
	}
	type days struct {
		sum     Usage
		deletes []table.Write
	}
	ended := make(map[time.Time]*days)
	totals := make(map[time.Time]table.Row)
	for _, row := range all {
		k, u, err := parseRow(row)
		if err != nil {
			continue
		}
		d := ended[k.day]
		if d == nil {
			d = &days{}
			ended[k.day] = d
		}
		switch {
		case k.name == "":
			totals[k.day] = row
			d.sum = d.sum.and(u)
		case at.Sub(row.WrittenAt) > foldAfter && len(d.deletes) < table.MaxTransaction-1:
			d.sum = d.sum.and(u)
			d.deletes = append(d.deletes, table.Write{Verb: table.Delete, Row: table.Row{Partition: row.Partition, Key: row.Key}, If: row.Version})
		}
	}
	for day, d := range ended {
		if len(d.deletes) == 0 {
			continue
		}
		sum := table.Write{Verb: table.Insert, Row: rowOf(key{day: day}, d.sum)}
		if total, ok := totals[day]; ok {
			sum.Verb, sum.If = table.Replace, total.Version
		}
		_, err := l.rows.Submit(ctx, append(d.deletes, sum)...)
		if err != nil && !table.IsConflict(err) {
			return err
		}
	}
	return nil
}

// Month is the usage of all processes in a month until now, by day of the
// month.
type Month struct {
	Days    map[int]Usage
	Today   int // the day of the month
	LeftOut int // rows that cannot be read: another build wrote them, or another program
}

// Read returns the usage of the present month, with one request for up to a
// thousand rows. That of this process is current; the others report theirs
// every five minutes.
func (l *Ledger) Read(ctx context.Context) (Month, error) {
	now := time.Now().UTC()
	m := Month{Days: make(map[int]Usage), Today: now.Day()}
	l.mu.Lock()
	from := l.row.from
	l.mu.Unlock()
	own, usage := keyOf(from.at, l.process.Name), l.usage(from, snapshot{now, l.counts()})
	if own.partition() == now.Format(monthFormat) {
		m.Days[own.day.Day()] = usage
	}
	if l.rows == nil {
		return m, nil
	}
	all, _, err := readMonth(ctx, l.rows, now)
	if err != nil {
		return m, fmt.Errorf("read the bill: %w", err)
	}
	for _, row := range all {
		k, u, err := parseRow(row)
		switch {
		case err != nil:
			m.LeftOut++
		case k != own:
			m.Days[k.day.Day()] = m.Days[k.day.Day()].and(u)
		}
	}
	return m, nil
}
