package instances

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"kennel/internal/memory"
	"kennel/internal/table"
)

// TestPartsAreRead: a read of some parts takes only their columns from storage,
// also from a row that has none of the others.
func TestPartsAreRead(t *testing.T) {
	inBubble(t, memory.Options{}, func(t *testing.T, rows *memory.Table) {
		whole := full("p", 2)
		put(t, rows, whole)
		asked := &asked{Querier: rows}
		for part, set := range map[Part]func(*Report){
			PartProblems:  func(r *Report) { r.Problems = whole.Problems },
			PartSequences: func(r *Report) { r.Sequences = whole.Sequences },
			PartGates:     func(r *Report) { r.Gates = whole.Gates },
			PartQueues:    func(r *Report) { r.Queues = whole.Queues },
			PartRequests:  func(r *Report) { r.Requests = whole.Requests },
			PartWork:      func(r *Report) { r.Work = whole.Work },
			PartRecent:    func(r *Report) { r.Recent = whole.Recent },
			PartRelay:     func(r *Report) { r.Relay = whole.Relay },
			PartBacklog:   func(r *Report) { r.Backlog = whole.Backlog },
		} {
			want := whole
			want.Problems, want.Sequences, want.Gates, want.Queues, want.Requests, want.Work, want.Recent, want.Relay = nil, nil, nil, nil, nil, nil, nil, nil
			want.Backlog = &Backlog{At: whole.Backlog.At, More: whole.Backlog.More}
			set(&want)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			d, err := Read(ctx, asked, part)
			cancel()
			if err != nil || len(d.Live) != 1 {
				t.Fatalf("%s: %+v, %v", part, d, err)
			}
			if diff := cmp.Diff(want, d.Live[0].Report, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("%s (-want +got):\n%s", part, diff)
			}
			if want := []string{columnFormat, columnReport, string(part)}; !slices.Equal(asked.columns, want) {
				t.Errorf("%s: read columns %q, want %q", part, asked.columns, want)
			}
		}
	})
}

// TestLongLists: a long list of sequences is stored packed, a short one as it is,
// and both are read, also a long one that is not packed. A packed one that is
// damaged or too long makes the row unreadable.
func TestLongLists(t *testing.T) {
	inBubble(t, memory.Options{}, func(t *testing.T, rows *memory.Table) {
		long := full("long", 140)
		written, err := row(long)
		if err != nil {
			t.Fatal(err)
		}
		if n, whole := len(written.Values[columnSequences]), len(list(long.Sequences)); n > whole/3 || !strings.HasPrefix(written.Values[columnSequences], packedList) {
			t.Errorf("%d bytes of a list of %d", n, whole)
		}
		plain, err := row(full("plain", 140))
		if err != nil {
			t.Fatal(err)
		}
		plain.Values[columnSequences] = list(long.Sequences)
		putRow(t, rows, written)
		putRow(t, rows, plain)
		put(t, rows, full("short", 2))
		for i, damaged := range []string{packedList + "?", packedList + "AAAA", pack("[" + strings.Repeat(" ", maxColumn) + "]")} {
			other, err := row(full(fmt.Sprint("damaged ", i), 0))
			if err != nil {
				t.Fatal(err)
			}
			other.Values[columnSequences] = damaged
			putRow(t, rows, other)
		}
		d := read(t, rows)
		if namesOf(d.Live) != "long plain short" || d.Unreadable != 3 {
			t.Fatalf("%s, and %d unreadable", namesOf(d.Live), d.Unreadable)
		}
		for _, i := range d.Live[:2] {
			if diff := cmp.Diff(long.Sequences, i.Sequences); diff != "" {
				t.Errorf("%s (-want +got):\n%s", i.Instance, diff)
			}
		}
	})
}

// asked is a table that keeps the columns of the last query.
type asked struct {
	table.Querier
	columns []string
}

func (a *asked) Query(ctx context.Context, q table.Query) (table.Page, error) {
	a.columns = q.Columns
	return a.Querier.Query(ctx, q)
}
