package instances

import (
	"encoding/json"
	"fmt"

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

// parse returns the report in a row, with these parts. A section that the
// process does not report has no column.
func parse(row table.Row, parts []Part) (r Report, err error) {
	if found := row.Values[columnFormat]; found != format {
		return r, fmt.Errorf("the format is %.20q, not %q", found, format)
	}
	if err := json.Unmarshal([]byte(row.Values[columnReport]), &r); err != nil {
		return r, fmt.Errorf("column %s: %w", columnReport, err)
	}
	r.Instance = row.Key
	for _, part := range parts {
		text, ok := row.Values[part.column()]
		if !ok {
			continue
		}
		list, err := unpack(text)
		if err == nil {
			err = part.read(&r, list)
		}
		if err != nil {
			return r, fmt.Errorf("column %s: %w", part.column(), err)
		}
	}
	return r, nil
}
