package channels_test

import (
	"context"
	"fmt"
	"os"
	"runtime/debug"
	"testing"

	"kennel/channels"
	"kennel/internal/memory"
	"kennel/internal/storetest"
	"kennel/internal/table"
)

// TestMemory measures how much memory the deletion of a million blogs takes. It
// is not parallel, so that no other test allocates at the same time. The table
// generates the blogs page by page, so that the deletion causes almost all of
// the growth.
func TestMemory(t *testing.T) {
	const limit = 64 << 20
	blogs := storetest.Scale(5_000, 1_000_000)
	w, incarnation := filled(t, 0)
	message := w.deferDeletion(t)
	debug.FreeOSMemory()
	before := resident(t)
	peak := before
	rows := &endless{Table: w.blogs, rows: blogs, before: func() { peak = max(peak, resident(t)) }}
	c := w.with(w.channels, rows, nil)

	d, err := c.Handle(t.Context(), message)
	if err != nil || d.State != channels.Done || d.Deleted != int64(blogs) || d.Incarnation != incarnation {
		t.Fatalf("handle: %+v, %v, want %d deleted", d, err, blogs)
	}
	grown := peak - before
	t.Logf("figure: resident growth during a deletion (%d blogs, from %.1f MiB) | %.1f MiB | ≤ 64 MiB", blogs, float64(before)/(1<<20), float64(grown)/(1<<20))
	if grown > limit {
		t.Errorf("deleting took %d MiB, want at most %d", grown>>20, limit>>20)
	}
}

// resident returns the resident memory of the process in bytes.
func resident(t *testing.T) int64 {
	var size, pages int64
	status, err := os.ReadFile("/proc/self/statm")
	if err == nil {
		_, err = fmt.Sscan(string(status), &size, &pages)
	}
	if err != nil {
		t.Skip("needs /proc: ", err)
	}
	return pages * int64(os.Getpagesize())
}

// endless generates its rows when they are read.
type endless struct {
	*memory.Table
	rows, made int // in all, and so far
	before     func()
}

func (e *endless) Query(ctx context.Context, q table.Query) (table.Page, error) {
	for e.made < e.rows && e.Rows(q.Partition) <= q.Top {
		var writes []table.Write
		for range table.MaxTransaction {
			e.made++
			writes = append(writes, table.Write{Verb: table.Insert, Row: table.Row{Partition: q.Partition, Key: fmt.Sprintf("2026%08d", e.made)}})
		}
		if _, err := e.Submit(ctx, writes...); err != nil {
			return table.Page{}, err
		}
	}
	e.before()
	return e.Table.Query(ctx, q)
}
