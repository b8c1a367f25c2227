package channels_test

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"testing"

	"kennel/channels"
	"kennel/internal/memory"
)

var alone = flag.Bool("alone", false, "the process is TestMemory's own")

// TestMemory deletes a million blogs in a process of its own, which has no
// memory left over from other tests, and looks at what that takes. The blogs
// are not there: a table that only says they are takes next to nothing itself,
// so that all growth is the deletion's.
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
	const blogs, most = 1_000_000, 64 << 20
	w := newWorld()
	incarnation := w.fill(t, "news", 0)
	p := w.start(&channels.Options{AcceptFor: -1}, nil)
	if _, err := p.Delete(t.Context(), "news", ""); err != nil {
		t.Fatal(err)
	}
	message := text(t, w.queues.All(cleanupQueue)[0].Body)

	table := &endless{Table: w.blogs, left: blogs, gone: make([]bool, blogs)}
	c := channels.New(w.channels, table, memory.NewOutbox(w.queues, cleanupQueue), nil)
	debug.FreeOSMemory()
	before := resident(t)
	table.look = func() { table.peak = max(table.peak, resident(t)) }

	d, err := c.Handle(t.Context(), message)
	if err != nil || d.State != channels.Done || d.Deleted != blogs || d.Incarnation != incarnation {
		t.Fatalf("handle: %+v, %v, want %d deleted", d, err, blogs)
	}
	grown := table.peak - before
	t.Logf("figure: resident growth as a million blogs are deleted (from %.1f MiB) | %.1f MiB | ≤ 64 MiB", float64(before)/(1<<20), float64(grown)/(1<<20))
	if grown > most {
		t.Errorf("deleting took %d MiB, want at most %d", grown>>20, most>>20)
	}
}

// resident is how much memory the process really has, as the system says, or
// else as the runtime does.
func resident(t *testing.T) int64 {
	status, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.Sys - m.HeapReleased)
	}
	pages, err := strconv.ParseInt(strings.Fields(string(status))[1], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return pages * int64(os.Getpagesize())
}

// endless has a bit for each of its rows, and makes up the rest.
type endless struct {
	channels.Table
	look func()

	mu       sync.Mutex
	first    int // all rows before are gone
	left     int
	gone     []bool
	requests int
	peak     int64
}

func (e *endless) Query(_ context.Context, q channels.Query) (channels.Page, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.look()
	e.requests++
	page := channels.Page{Rows: make([]channels.Row, 0, q.Top)}
	from := e.first
	if q.After != "" {
		from, _ = strconv.Atoi(q.After)
	}
	for i := from; i < len(e.gone); i++ {
		if len(page.Rows) == q.Top {
			page.Next = strconv.Itoa(i)
			break
		}
		if !e.gone[i] {
			page.Rows = append(page.Rows, channels.Row{Partition: q.Partition, Key: fmt.Sprintf("2026%08d", i), Version: "1"})
		}
	}
	return page, nil
}

func (e *endless) Submit(_ context.Context, writes []channels.Write) ([]string, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.requests++; e.requests%10 == 0 {
		e.look()
	}
	for _, w := range writes {
		i, err := strconv.Atoi(strings.TrimPrefix(w.Row.Key, "2026"))
		if err != nil || w.Verb != channels.Delete || e.gone[i] {
			return nil, fmt.Errorf("write %+v: %w", w, channels.ErrNotFound)
		}
		e.gone[i] = true
		e.left--
	}
	for e.first < len(e.gone) && e.gone[e.first] {
		e.first++
	}
	return make([]string, len(writes)), nil
}
