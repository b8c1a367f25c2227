package channels_test

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"testing"

	"kennel/channels"
	"kennel/internal/storetest"
	"kennel/table"
)

var alone = flag.Bool("alone", false, "the process is TestMemory's own")

// TestMemory deletes a million blogs in a process of its own, which has no
// memory left over from other tests, and measures how much that takes. The
// blogs are made up by a table that takes almost no memory itself, so that all
// growth is the deletion's.
func TestMemory(t *testing.T) {
	if !*alone {
		self, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		out, err := exec.CommandContext(t.Context(), self, "-test.run=^TestMemory$", "-test.v", "-alone").CombinedOutput()
		if err != nil || !bytes.Contains(out, []byte("figure: ")) {
			t.Errorf("%v", err)
		}
		t.Logf("%s", out)
		return
	}
	const limit = 64 << 20
	blogs := storetest.Scale(100_000, 1_000_000)
	w, incarnation := filled(t, 0)
	message := w.handedOver(t)
	rows := &endless{Store: w.blogs, gone: make([]bool, blogs)}
	c := w.with(w.channels, rows, nil)
	debug.FreeOSMemory()
	before := resident(t)
	rows.look = func() { rows.peak = max(rows.peak, resident(t)) }

	d, err := c.Handle(t.Context(), message)
	if err != nil || d.State != channels.Done || d.Deleted != int64(blogs) || d.Incarnation != incarnation {
		t.Fatalf("handle: %+v, %v, want %d deleted", d, err, blogs)
	}
	grown := rows.peak - before
	t.Logf("figure: resident growth as %d blogs are deleted (from %.1f MiB) | %.1f MiB | ≤ 64 MiB", blogs, float64(before)/(1<<20), float64(grown)/(1<<20))
	if grown > limit {
		t.Errorf("deleting took %d MiB, want at most %d", grown>>20, limit>>20)
	}
}

// resident is how much memory the process has.
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

// endless has a bit for each of its rows, and makes up the rest.
type endless struct {
	table.Store
	look func()

	mu    sync.Mutex
	first int // all rows before are gone
	gone  []bool
	peak  int64
}

func (e *endless) Query(_ context.Context, q table.Query) (table.Page, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.look()
	page := table.Page{Rows: make([]table.Row, 0, q.Top)}
	for ; e.first < len(e.gone) && e.gone[e.first]; e.first++ {
	}
	for i := e.first; i < len(e.gone) && page.Next == ""; i++ {
		if len(page.Rows) == q.Top {
			page.Next = "more"
		} else if !e.gone[i] {
			page.Rows = append(page.Rows, table.Row{Partition: q.Partition, Key: fmt.Sprintf("2026%08d", i), Version: "1"})
		}
	}
	return page, nil
}

func (e *endless) Submit(_ context.Context, writes []table.Write) ([]string, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.look()
	for _, w := range writes {
		i, err := strconv.Atoi(strings.TrimPrefix(w.Row.Key, "2026"))
		if err != nil || w.Verb != table.Delete || e.gone[i] {
			return nil, fmt.Errorf("write %+v: %w", w, table.ErrNotFound)
		}
		e.gone[i] = true
	}
	return make([]string, len(writes)), nil
}
