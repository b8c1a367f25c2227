package ids_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"kennel/ids"
	"kennel/internal/memory"
	"kennel/internal/storetest"
)

// rows are what processes have reported of one sequence.
type rows struct {
	mu   sync.Mutex
	rows map[int]ids.Reported
	read int
}

func (r *rows) report(process int, s ids.Stats) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.rows == nil {
		r.rows = make(map[int]ids.Reported)
	}
	r.rows[process] = ids.Reported{Writer: s.Writer, Serial: s.Serial, From: s.From, End: s.End, Used: s.Used}
}

// of returns what a process reads: the rows of the others.
func (r *rows) of(process int) func(context.Context) (map[string][]ids.Reported, error) {
	return func(context.Context) (map[string][]ids.Reported, error) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.read++
		var all []ids.Reported
		for other, row := range r.rows {
			if other != process {
				all = append(all, row)
			}
		}
		return map[string][]ids.Reported{"orders": all}, nil
	}
}

// A process that had reserved more than a restored copy holds refuses at its
// next reservation, however many others have written since, and however far.
func TestRestoreIsNoticed(t *testing.T) {
	for _, others := range []int{1, 16, 17, 200} {
		for _, count := range []int{1, 5000} {
			t.Run(fmt.Sprintf("%d others, %d at a time", others, count), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { noticed(t, others, count) })
			})
		}
	}
}

// reserveAgain draws until the process reserves, or cannot.
func reserveAgain(t *testing.T, g *ids.Generator) (err error) {
	for before := g.Stats().Serial; err == nil && g.Stats().Serial == before; {
		_, err = g.Lease(t.Context(), 500)
		synctest.Wait()
	}
	return err
}

func noticed(t *testing.T, others, count int) {
	store := memory.NewSequences(nil)
	var table rows
	first := newGenerator(t, store, &ids.Options{Reported: table.of(-1)})
	next(t, first)
	copied, _ := store.Get("orders")
	var had []*ids.Generator
	for i := range 3 {
		g := newGenerator(t, store, &ids.Options{Reported: table.of(i)})
		for range 3 {
			if _, err := g.Lease(t.Context(), 1000); err != nil {
				t.Fatal(err)
			}
		}
		had = append(had, g)
	}
	synctest.Wait()
	store.Restore("orders", copied)
	// The others know neither what was lost nor any report of it.
	for i := range others {
		g := newGenerator(t, store, nil)
		for range 1 + i%2 {
			if _, err := g.Lease(t.Context(), count); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		table.report(100+i, g.Stats())
		defer closeNow(g)
	}
	time.Sleep(30 * time.Second) // by then all have written their rows
	for i, g := range had {
		for range 2 {
			if err := reserveAgain(t, g); !errors.Is(err, ids.ErrCorrupt) {
				t.Errorf("process %d reserved after the restore: %v, want ErrCorrupt", i, err)
			}
		}
		table.report(i, g.Stats())
	}
	time.Sleep(10 * time.Second)
	// One that starts later refuses, because of what they reported.
	late := newGenerator(t, store, &ids.Options{Reported: table.of(-2)})
	if r, err := late.Lease(t.Context(), 1); !errors.Is(err, ids.ErrCorrupt) {
		t.Errorf("a new process reserved %v, %v, want ErrCorrupt", r, err)
	}
	if _, err := ids.Raise(t.Context(), store, "orders", 10_000_000, false); err != nil {
		t.Fatal(err)
	}
	for _, g := range append(had, late) {
		if r, err := g.Lease(t.Context(), 2000); err != nil || r.First < 10_000_000 {
			t.Errorf("after the raise: %v, %v", r, err)
		}
	}
	for _, g := range append(had, late, first) {
		closeNow(g)
	}
}

// TestRestoreKeepsTime: a tool that restores a copy may keep its time, so it does
// not show as one. A process that has not looked for minutes, and had seen less
// than the copy, still compares it with the rows before it reserves.
func TestRestoreKeepsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewSequences(nil)
		var table rows
		idle := newGenerator(t, store, &ids.Options{Reported: table.of(0)})
		defer closeNow(idle)
		busy := newGenerator(t, store, &ids.Options{Reported: table.of(1)})
		defer closeNow(busy)
		lease := func(g *ids.Generator) {
			t.Helper()
			if _, err := g.Lease(t.Context(), 1000); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		lease(idle)
		lease(busy)
		copied, _ := store.Get("orders")
		lease(busy)
		lease(busy)
		time.Sleep(5 * time.Minute)
		table.report(1, busy.Stats())
		copied.Version = "" // of no write that the store knows
		store.Restore("orders", copied)
		time.Sleep(10 * time.Second)
		if err := reserveAgain(t, idle); !errors.Is(err, ids.ErrCorrupt) {
			t.Errorf("a process that had not looked for minutes reserved below the rows: %v, want ErrCorrupt", err)
		}
	})
}

// Reports are read once by a process, and not again while it is in use.
func TestReportsAreReadOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewSequences(&memory.Options{Fault: distant})
		var table rows
		var all []*ids.Generator
		for i := range 16 {
			all = append(all, newGenerator(t, store, &ids.Options{Reported: table.of(i)}))
		}
		warm := 0
		for second := range 900 {
			if second == 300 {
				warm = table.read
			}
			for i, g := range all {
				if _, err := g.Lease(t.Context(), 10); err != nil {
					t.Fatal(err)
				}
				table.report(i, g.Stats())
			}
			time.Sleep(time.Second)
		}
		if warm > len(all) || table.read > warm {
			t.Errorf("16 processes read the reports %d times at the start, and %d times later, want once each, and 0", warm, table.read-warm)
		}
		for _, g := range all {
			closeNow(g)
		}
		store.Wait()
	})
}

// TestRestores runs 2 to 40 processes that draw, pause, end and start, each with
// a row that it writes within 30 s, while a copy of up to three minutes is
// restored, which may be that of a time of rest. Numbers are issued twice only if they were issued in the 30 s before
// the restore. A process that had reserved above a copy of 30 s or more reserves
// nothing until the raise.
func TestRestores(t *testing.T) {
	t.Parallel()
	all := storetest.Simulate(t, storetest.Scale(8, 530), func(run *storetest.Simulation) {
		refused, wentOn := restore(run)
		run.Count("refusals", refused)
		run.Count("went on", wentOn)
	})
	t.Logf("figure: restores after which a process that knew better went on (%d runs) | %d | 0", all.Runs, all.Of("went on"))
	all.Want("refusals", 0)
}

// process is one process of a simulated restore.
type process struct {
	*ids.Generator
	id    int
	knew  bool // had reserved above the copy when it was restored
	rowAt time.Time
}

func restore(t *storetest.Simulation) (refused, wentOn int) {
	c := t.Chance("restore", 0)
	store := memory.NewSequences(nil)
	var table rows
	nodes, started := 2+c.Below(39), 0
	start := func() *process {
		started++
		g := newGenerator(t, store, &ids.Options{Reported: table.of(started)})
		g.SetJitter(t.Chance("jitter", started).UpTo)
		return &process{Generator: g, id: started, rowAt: time.Now().Add(time.Duration(1+c.Below(5)) * time.Second)}
	}
	all := make([]*process, nodes)
	for i := range all {
		all[i] = start()
	}
	type draw struct {
		at   time.Time
		r    ids.Range
		from int
	}
	var draws []draw
	var copied ids.Value
	var copiedAt, restoredAt time.Time
	copyAt, restoreAt, end := 5+c.Below(40), 0, 0
	restoreAt = copyAt + 1 + c.Below(180)
	end = restoreAt + 60 + c.Below(60)
	// In one of two, only writes of the last seconds follow the copy, which no row
	// shows yet, and a few processes that made them pause.
	calm := t.Chance("calm", 0)
	busyAgain, pauseEnds := copyAt, restoreAt
	if calm.Below(2) == 0 {
		busyAgain = max(copyAt, restoreAt-1-calm.Below(5))
		pauseEnds = restoreAt + 30 + calm.Below(60)
	}
	for second := range end {
		now := time.Now()
		switch second {
		case copyAt:
			copied, _ = store.Get("orders")
			copiedAt = now
		case restoreAt:
			if ids.MarkOf(copied).History == "" {
				break
			}
			store.Restore("orders", copied)
			restoredAt = now
			text, _ := strconv.ParseInt(copied.Text, 10, 64)
			for _, p := range all {
				p.knew = p.Stats().End > text
			}
		}
		for range 1 + c.Below(8) {
			i := c.Below(nodes)
			p := all[i]
			if second >= copyAt && second < busyAgain || second >= restoreAt && second < pauseEnds && p.knew {
				continue
			}
			if c.Below(40) == 0 { // killed, and replaced
				closeNow(p.Generator)
				all[i] = start()
				continue
			}
			before := p.Stats().Serial
			r, err := draw1(t, p, 1+c.Below(400))
			synctest.Wait()
			switch {
			case errors.Is(err, ids.ErrCorrupt):
				refused++
			case err != nil:
				t.Fatal(err)
			default:
				draws = append(draws, draw{now, r, p.id})
			}
			if p.knew && p.Stats().Serial != before && restoredAt.Sub(copiedAt) >= ids.CopyAge {
				wentOn++
				t.Errorf("process %d had reserved above the copy (%s at %v), and reserved again at %v after the restore at %v", p.id, copied.Text, copiedAt, now, restoredAt)
			}
		}
		for _, p := range all {
			if !now.Before(p.rowAt) {
				table.report(p.id, p.Stats())
				p.rowAt = now.Add(time.Duration(24+c.Below(7)) * time.Second)
			}
		}
		time.Sleep(time.Second)
	}
	slices.SortFunc(draws, func(a, b draw) int { return int(a.r.First - b.r.First) })
	for i := range draws {
		for j := i + 1; j < len(draws) && draws[j].r.First <= draws[i].r.Last; j++ {
			early := draws[i].at
			if draws[j].at.Before(early) {
				early = draws[j].at
			}
			if restoredAt.IsZero() || early.Before(restoredAt.Add(-30*time.Second)) {
				t.Errorf("%v and %v were issued to %d and %d; copied %v, first %v, restored %v", draws[i].r, draws[j].r, draws[i].from, draws[j].from, copiedAt, early, restoredAt)
				return refused, wentOn
			}
		}
	}
	for _, p := range all {
		closeNow(p.Generator)
	}
	return refused, wentOn
}

func draw1(t testing.TB, p *process, n int) (ids.Range, error) {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	return draw(ctx, p.Generator, n)
}

// A raise is no restore, and excuses only what it is above: a process whose
// write a restored copy lacks refuses after a raise below it, too.
func TestRaiseKeepsHistory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewSequences(nil)
		a, b := newGenerator(t, store, nil), newGenerator(t, store, nil)
		next(t, a)
		copied, _ := store.Get("orders")
		if err := reserveAgain(t, b); err != nil {
			t.Fatal(err)
		}
		for _, to := range []int64{100_000, 300_000} { // also one below what others reserve
			if _, err := ids.Raise(t.Context(), store, "orders", to, false); err != nil {
				t.Fatal(err)
			}
			for _, g := range []*ids.Generator{a, b} {
				if err := reserveAgain(t, g); err != nil {
					t.Errorf("after a raise to %d: %v", to, err)
				}
			}
		}
		store.Restore("orders", copied)
		if _, err := ids.Raise(t.Context(), store, "orders", 200_000, false); err != nil {
			t.Fatal(err)
		}
		c := newGenerator(t, store, nil)
		if r, err := c.Lease(t.Context(), 500_000); err != nil {
			t.Errorf("%v, %v", r, err)
		}
		for _, g := range []*ids.Generator{a, b} {
			if err := reserveAgain(t, g); !errors.Is(err, ids.ErrCorrupt) {
				t.Errorf("after a raise below what was reserved: %v, want ErrCorrupt", err)
			}
		}
		if m, _ := store.Get("orders"); ids.MarkOf(m).History == "" {
			t.Error("the history is lost")
		}
		for _, g := range []*ids.Generator{a, b, c} {
			closeNow(g)
		}
	})
}

// A raise keeps the writers, so a process that the next restore concerns still
// finds itself in the history.
func TestRaiseKeepsWriters(t *testing.T) {
	store := memory.NewSequences(nil)
	g := newGenerator(t, store, nil)
	next(t, g)
	before := g.Stats().Writer
	if _, err := ids.Raise(t.Context(), store, "orders", 5000, false); err != nil {
		t.Fatal(err)
	}
	if m, _ := store.Get("orders"); !strings.Contains(ids.MarkOf(m).History, before) {
		t.Errorf("after a raise the history is %q, want it with %s", ids.MarkOf(m).History, before)
	}
	closeNow(g)
}

// A process that has written after a mark was loaded, and before its report was
// read, does not make the mark corrupt.
func TestReportsNewerThanMark(t *testing.T) {
	store := memory.NewSequences(nil)
	other := newGenerator(t, store, nil)
	next(t, other)
	g := newGenerator(t, store, &ids.Options{Reported: func(ctx context.Context) (map[string][]ids.Reported, error) {
		if _, err := other.Lease(ctx, 5000); err != nil {
			return nil, err
		}
		s := other.Stats()
		return map[string][]ids.Reported{"orders": {{Writer: s.Writer, Serial: s.Serial, End: s.End}}}, nil
	}})
	if n, err := g.Next(t.Context()); err != nil || n < 5000 {
		t.Errorf("Next = %d, %v, want a number above those of the other", n, err)
	}
	closeNow(g)
	closeNow(other)
}

// Numbers flow although reports cannot be read.
func TestReportsFail(t *testing.T) {
	fail := true
	g := newGenerator(t, memory.NewSequences(nil), &ids.Options{Reported: func(context.Context) (map[string][]ids.Reported, error) {
		if fail {
			return nil, errLost
		}
		return map[string][]ids.Reported{"orders": {{Writer: "x", Serial: 1 << 40, End: 1 << 40}}}, nil
	}})
	if n := next(t, g); n != 1 {
		t.Errorf("Next = %d", n)
	}
	closeNow(g)
}
