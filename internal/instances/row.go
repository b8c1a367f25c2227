package instances

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"kennel/internal/table"
)

// A report is a row of the one partition, with the name of the instance as its
// key. Its parts are columns of JSON, because a column holds 64 KiB.
const (
	partition = "instances"

	// format is the version of the columns' contents. Readers leave out a row
	// of another format.
	format = "1"

	columnFormat    = "format"
	columnReport    = "report"
	columnProblems  = "problems"
	columnSequences = "sequences"
	columnGates     = "gates"
	columnQueues    = "queues"
	columnRequests  = "requests"
	columnWork      = "work"
	columnRecent    = "recent"
	columnRelay     = "relay"
	columnBacklog   = "backlog"
)

// A column of a list holds up to maxItems items.
const (
	maxItems = 250
	maxText  = 300 // characters of a problem's cause and of an error
)

// queueRow is a sample in the column of queues.
type queueRow struct {
	Queue string `json:"queue"`
	QueueSample
}

// workRow is an item of the column of work.
type workRow struct {
	Queue string `json:"queue"`
	Work
}

// recentRow is an item of the column of recent work.
type recentRow struct {
	Queue string `json:"queue"`
	Recent
}

// row returns the row of a report.
func row(r Report) (table.Row, error) {
	backlog := "[]"
	if r.Backlog != nil {
		sample, n := *r.Backlog, 0
		backlog, n = fit(sample.Entities)
		sample.More = sample.More || n < len(sample.Entities)
		r.Backlog = &sample
	}
	report, err := json.Marshal(r)
	if err != nil {
		return table.Row{}, fmt.Errorf("write the report of instance %q: %w", r.Instance, err)
	}
	problems := slices.Clone(r.Problems)
	for i := range problems {
		problems[i].What = shorten(problems[i].What)
	}
	sequences := slices.Clone(r.Sequences[:min(len(r.Sequences), maxItems)])
	for i := range sequences {
		sequences[i].LastError = shorten(sequences[i].LastError)
		sequences[i].PerSecond = rounded(sequences[i].PerSecond)
	}
	var queues []queueRow
	for _, queue := range slices.Sorted(maps.Keys(r.Queues)) {
		queues = append(queues, queueRow{queue, r.Queues[queue]})
	}
	var work []workRow
	for _, queue := range slices.Sorted(maps.Keys(r.Work)) {
		one := workRow{queue, r.Work[queue]}
		one.AgeSeconds, one.HandSeconds = rounded(one.AgeSeconds), rounded(one.HandSeconds)
		work = append(work, one)
	}
	var recent []recentRow
	for _, queue := range slices.Sorted(maps.Keys(r.Recent)) {
		recent = append(recent, recentRow{queue, r.Recent[queue]})
	}
	relay := slices.Clone(r.Relay)
	for i := range relay {
		relay[i].LastError = shorten(relay[i].LastError)
	}
	return table.Row{Partition: partition, Key: r.Instance, Values: map[string]string{
		columnFormat:    format,
		columnReport:    string(report),
		columnProblems:  list(problems),
		columnSequences: pack(list(sequences)),
		columnGates:     list(r.Gates),
		columnQueues:    list(queues),
		columnRequests:  list(r.Requests),
		columnWork:      list(work),
		columnRecent:    list(recent),
		columnRelay:     list(relay),
		columnBacklog:   backlog,
	}}, nil
}

// list returns the JSON of as many items as a column holds.
func list[T any](items []T) string {
	text, _ := fit(items)
	return text
}

// fit is list, and also returns how many items of the beginning it holds.
func fit[T any](items []T) (column string, n int) {
	text := []byte("[")
	for _, item := range items[:min(len(items), maxItems)] {
		n++
		one, err := json.Marshal(item)
		if err != nil {
			continue // a number that JSON cannot express
		}
		if len(text)+1+len(one) >= maxColumn {
			n--
			break
		}
		if len(text) > 1 {
			text = append(text, ',')
		}
		text = append(text, one...)
	}
	return string(append(text, ']')), n
}

func shorten(text string) string {
	runes := 0
	for at := range text {
		if runes++; runes > maxText {
			return text[:at] + "…"
		}
	}
	return text
}

// parse returns the report in a row, with these parts.
func parse(row table.Row, parts []Part) (r Report, err error) {
	if found := row.Values[columnFormat]; found != format {
		return r, fmt.Errorf("the format is %.20q, not %q", found, format)
	}
	var queues []queueRow
	var work []workRow
	var recent []recentRow
	var waiting []BacklogEntity
	for column, part := range map[string]any{
		columnReport:    &r,
		columnProblems:  &r.Problems,
		columnSequences: &r.Sequences,
		columnGates:     &r.Gates,
		columnQueues:    &queues,
		columnRequests:  &r.Requests,
		columnWork:      &work,
		columnRecent:    &recent,
		columnRelay:     &r.Relay,
		columnBacklog:   &waiting,
	} {
		if column != columnReport && !slices.Contains(parts, Part(column)) {
			continue
		}
		list, err := unpack(row.Values[column])
		switch {
		case err != nil:
		case column == columnSequences:
			r.Sequences, err = parseSequences(list)
		default:
			err = json.Unmarshal(list, part)
		}
		if err != nil {
			return r, fmt.Errorf("column %s: %w", column, err)
		}
	}
	r.Instance = row.Key
	if len(queues) > 0 {
		r.Queues = make(map[string]QueueSample, len(queues))
	}
	for _, q := range queues {
		r.Queues[q.Queue] = q.QueueSample
	}
	if len(work) > 0 {
		r.Work = make(map[string]Work, len(work))
	}
	for _, w := range work {
		r.Work[w.Queue] = w.Work
	}
	if len(recent) > 0 {
		r.Recent = make(map[string]Recent, len(recent))
	}
	for _, one := range recent {
		r.Recent[one.Queue] = one.Recent
	}
	if r.Backlog != nil {
		r.Backlog.Entities = waiting
	}
	return r, nil
}
