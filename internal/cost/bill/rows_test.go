package bill

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"kennel/internal/table"
)

// TestCrowd: more processes end in an hour than one transaction folds.
func TestCrowd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rows := newTable(t, nil)
		const crowd = 250
		for i := range crowd {
			p := start(t, rows, fmt.Sprintf("vm-%d", i))
			p.count(gets, 1)
			p.end(t)
		}
		last := start(t, rows, "last")
		time.Sleep(6 * foldEvery)
		if n := rows.Rows(""); n > 2 {
			t.Errorf("%d rows are left, want the one of the day, and that of the process", n)
		}
		last.end(t)
		if got := totals(mustRead(t, reader(rows))).Operations[gets]; got != crowd {
			t.Errorf("the sum is %d, want %d", got, crowd)
		}
	})
}

// TestUnreadable: rows of another build are neither read nor folded.
func TestUnreadable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rows := newTable(t, nil)
		var writes []table.Write
		for i, values := range []map[string]string{
			{columnFormat: "2", columnUsage: "{}"},
			{columnFormat: format, columnUsage: "no JSON"},
			{columnFormat: format, columnUsage: `{"operations":[{"service":"blob","op":"get","n":-1}]}`},
			{columnFormat: format, columnUsage: `{"messages":-1}`},
			{},
		} {
			writes = append(writes, table.Write{Verb: table.Insert, Row: table.Row{Partition: "2000-01", Key: fmt.Sprintf("01-vm-%d", i), Values: values}})
		}
		writes = append(writes, table.Write{Verb: table.Insert, Row: table.Row{Partition: "2000-01", Key: "99", Values: map[string]string{columnFormat: format, columnUsage: "{}"}}})
		if _, err := rows.Submit(withDeadline(t), writes...); err != nil {
			t.Fatal(err)
		}
		p := start(t, rows, "vm-9")
		p.count(gets, 5)
		time.Sleep(5 * time.Hour)
		p.end(t)
		if m, err := reader(rows).Read(withDeadline(t)); err != nil || m.LeftOut != len(writes) || totals(m).Operations[gets] != 5 {
			t.Errorf("%+v, %v, want %d rows left out", m, err, len(writes))
		}
	})
}
