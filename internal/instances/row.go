package instances

import (
	"encoding/json"
	"fmt"
	"maps"
	"time"

	"kennel/internal/table"
)

// A report is a row of the one partition, with the name of the instance as its
// key. Its problems and sections are columns of JSON, because a column holds
// 64 KiB.
const (
	partition = "instances"

	// format is the version of the columns' contents. Readers leave out a row
	// of another format.
	format = "2"

	columnFormat = "format"
	columnReport = "report"
)

// row returns the row of a report.
func row(r Report) (table.Row, error) {
	report, err := json.Marshal(r)
	if err != nil {
		return table.Row{}, fmt.Errorf("write the report of instance %q: %w", r.Instance, err)
	}
	values := map[string]string{
		columnFormat:   format,
		columnReport:   string(report),
		columnProblems: problemList.encode(r.Problems),
	}
	for column, fact := range r.facts {
		values[column] = fact.encoded()
	}
	return table.Row{Partition: partition, Key: r.Instance, Values: values}, nil
}

// A decoded row is a report, and the parts of it that were read. Reports share
// what it has, so it is replaced and never changed.
type decoded struct {
	writtenAt time.Time
	text      string // of the report
	report    Report // without parts
	parts     map[Part]fact
}

// decode returns a row without parts.
func decode(row table.Row) (*decoded, error) {
	if found := row.Values[columnFormat]; found != format {
		return nil, fmt.Errorf("the format is %.20q, not %q", found, format)
	}
	d := &decoded{writtenAt: row.WrittenAt, text: row.Values[columnReport]}
	if err := json.Unmarshal([]byte(d.text), &d.report); err != nil {
		return nil, fmt.Errorf("column %s: %w", columnReport, err)
	}
	d.report.Instance = row.Key
	return d, nil
}

// is reports whether the row was decoded as it was written at this time, with
// this report. A process writes all columns at once, and no two of its reports
// are equal: each has the time when it was made.
func (d *decoded) is(writtenAt time.Time, report string) bool {
	return d != nil && d.writtenAt.Equal(writtenAt) && d.text == report
}

// with returns the report in a row, with these parts, and the row with these
// beside those that were decoded before. A section that the process does not
// report has no column.
func (d *decoded) with(parts []Part, row table.Row, u *unpacker) (Report, *decoded, error) {
	r, all := d.report, d
	r.facts = make(map[string]fact, len(parts))
	for _, part := range parts {
		f, ok := d.parts[part]
		if !ok {
			text, ok := row.Values[part.column()]
			if !ok {
				continue
			}
			list, err := u.unpack(text)
			if err == nil {
				f, err = part.parse(list)
			}
			if err != nil {
				return r, nil, fmt.Errorf("column %s: %w", part.column(), err)
			}
			if part.isKept() {
				if all == d {
					all = d.and(nil)
				}
				all.parts[part] = f
			}
		}
		part.add(&r, f)
	}
	return r, all, nil
}

// and returns the row with the parts of another one as well.
func (d *decoded) and(other *decoded) *decoded {
	all := *d
	all.parts = make(map[Part]fact)
	maps.Copy(all.parts, d.parts)
	if other != nil {
		maps.Copy(all.parts, other.parts)
	}
	return &all
}
