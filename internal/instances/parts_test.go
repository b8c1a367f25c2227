package instances

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"kennel/internal/memory"
	"kennel/internal/table"
)

// TestPartsAreRead: a read of some parts takes only their columns from storage.
// All others are empty.
func TestPartsAreRead(t *testing.T) {
	inBubble(t, memory.Options{}, func(t *testing.T, rows *memory.Table) {
		whole := full("p", 2)
		put(t, rows, whole)
		asked := &asked{Querier: rows}
		for _, part := range all() {
			want := whole
			want.facts = map[string]fact{part.column(): whole.facts[part.column()]}
			if part != Problems {
				want.Problems = nil
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			d, err := new(Reader).Read(ctx, asked, part)
			cancel()
			if err != nil || len(d.Live) != 1 {
				t.Fatalf("%s: %+v, %v", part.column(), d, err)
			}
			if diff := diff(want, d.Live[0].Report); diff != "" {
				t.Errorf("%s (-want +got):\n%s", part.column(), diff)
			}
			if want := []string{columnFormat, columnReport, part.column()}; !slices.Equal(asked.columns, want) {
				t.Errorf("%s: read columns %q, want %q", part.column(), asked.columns, want)
			}
		}
	})
}

// TestLongLists: a long list is stored packed, a short one as it is,
// and both are read, also a long one that is not packed. A packed one that is
// damaged or too long makes the row unreadable.
func TestLongLists(t *testing.T) {
	inBubble(t, memory.Options{}, func(t *testing.T, rows *memory.Table) {
		long := full("long", 140)
		written, err := row(long)
		if err != nil {
			t.Fatal(err)
		}
		if n, whole := len(written.Values["sequences"]), len(list(SequenceSection.Of(long))); n > whole/3 || !strings.HasPrefix(written.Values["sequences"], packedList) {
			t.Errorf("%d bytes of a list of %d", n, whole)
		}
		plain, err := row(full("plain", 140))
		if err != nil {
			t.Fatal(err)
		}
		plain.Values["sequences"] = list(SequenceSection.Of(long))
		putRow(t, rows, written)
		putRow(t, rows, plain)
		put(t, rows, full("short", 2))
		for i, damaged := range []string{packedList + "?", packedList + "AAAA", pack("[" + strings.Repeat(" ", maxColumn) + "]")} {
			other, err := row(full(fmt.Sprint("damaged ", i), 0))
			if err != nil {
				t.Fatal(err)
			}
			other.Values["sequences"] = damaged
			putRow(t, rows, other)
		}
		d := read(t, rows)
		if namesOf(d.Live) != "long plain short" || d.Unreadable != 3 {
			t.Fatalf("%s, and %d unreadable", namesOf(d.Live), d.Unreadable)
		}
		for _, i := range d.Live[:2] {
			if diff := cmp.Diff(SequenceSection.Of(long), SequenceSection.Of(i.Report)); diff != "" {
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
