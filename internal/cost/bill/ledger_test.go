package bill

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"kennel/internal/memory"
	"kennel/internal/storetest"
	"kennel/internal/table"
)

var (
	gets = Operation{"blob", "get", "numbers"}
	puts = Operation{"queue", "put", "batches"}
)

// process is a process of the app that counts.
type process struct {
	*Ledger
	stop func() // ends Run

	mu     sync.Mutex
	counts Counts // guarded by mu
}

// start starts a process in the bubble of a test.
func start(t *testing.T, rows table.Store, name string) *process {
	t.Helper()
	p := &process{counts: Counts{Operations: make(map[Operation]int64)}}
	p.Ledger = NewLedger(rows, Process{Name: name, Hosted: true, Bus: true}, p.read, slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := p.Run(ctx); err != nil {
			t.Error(err)
		}
	}()
	p.stop = sync.OnceFunc(func() { cancel(); <-ended })
	t.Cleanup(p.stop)
	return p
}

func (p *process) read() Counts {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.counts.since(Counts{}) // a copy
}

func (p *process) count(o Operation, n int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.counts.Operations[o] += n
	p.counts.Messages += n
}

// end stops a process in order.
func (p *process) end(t *testing.T) {
	t.Helper()
	p.stop()
	if err := p.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// totals returns what a month has in all days.
func totals(m Month) (sum Usage) {
	for _, u := range m.Days {
		sum = sum.and(u)
	}
	return sum
}

// reader reads the ledger as a process that has counted nothing.
func reader(rows table.Store) *Ledger {
	return NewLedger(rows, Process{Name: "reader"}, func() Counts { return Counts{} }, slog.New(slog.DiscardHandler))
}

func mustRead(t *testing.T, l *Ledger) Month {
	t.Helper()
	m, err := l.Read(withDeadline(t))
	if err != nil || m.LeftOut != 0 {
		t.Fatalf("%+v, %v", m, err)
	}
	return m
}

func newTable(t *testing.T, fault func(memory.Call) memory.Fault) *memory.Table {
	return memory.NewTable(&memory.TableOptions{Options: memory.Options{Fault: fault, OnMisuse: func(problem string) { t.Error(problem) }}})
}

// TestLedger: several processes run for days, end in order and are replaced,
// while requests are lost, or executed without an answer. What they counted is in
// the sum exactly once, and a day has one row when its processes have ended.
func TestLedger(t *testing.T) {
	storetest.Simulate(t, storetest.Scale(1, 10), func(t *storetest.Simulation) {
		var mu sync.Mutex
		faults, healed := t.Chance("faults", 0), false // healed is guarded by mu
		rows := newTable(t.T, func(memory.Call) memory.Fault {
			mu.Lock()
			defer mu.Unlock()
			switch n := faults.Below(10); {
			case healed || n > 1:
				return memory.Fault{}
			default:
				return memory.Fault{Err: errReset, Lost: n == 0}
			}
		})
		random := t.Chance("processes", 0)
		want := make(map[Operation]int64)
		var all []*process
		end := func(i int) {
			all[i].stop()
			for all[i].Close(t.Context()) != nil {
			}
			all = append(all[:i], all[i+1:]...)
		}
		for step := range 300 {
			if len(all) < 3 {
				all = append(all, start(t.T, rows, fmt.Sprintf("vm-%d", step)))
			}
			operation, n := []Operation{gets, puts}[random.Below(2)], int64(random.Below(2000))
			all[random.Below(len(all))].count(operation, n)
			want[operation] += n
			time.Sleep(random.UpTo(20 * time.Minute))
			if random.Below(10) == 0 {
				end(random.Below(len(all)))
			}
		}
		for len(all) > 0 {
			end(0)
		}
		days := time.Now().UTC().Day()
		last := start(t.T, rows, "last")
		time.Sleep(6 * foldEvery)
		mu.Lock()
		healed = true
		mu.Unlock()
		got := totals(mustRead(t.T, reader(rows)))
		if !maps.Equal(got.Operations, want) || got.Messages != want[gets]+want[puts] {
			t.Errorf("%v and %d messages, want %v", got.Operations, got.Messages, want)
		}
		last.end(t.T)
		if n := rows.Rows("2000-01"); n > days+2 {
			t.Errorf("%d rows of %d days and a process", n, days)
		}
	})
}

// errReset is the error of a request whose outcome is unknown.
var errReset = errors.New("reset")

// TestCosts: an idle process writes 12 times an hour, and one that counts much
// twice a minute.
func TestCosts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rows := newTable(t, nil)
		time.Sleep(3 * 24 * time.Hour) // on the first two days of a month, the one before is read, too
		p := start(t, rows, "vm-1")
		time.Sleep(10 * time.Hour)
		if writes, reads := rows.CallsOf("Submit"), rows.CallsOf("Query"); writes < 115 || writes > 125 || reads > 12 {
			t.Errorf("%d writes and %d reads in ten idle hours, want 12 and 1 an hour", writes, reads)
		}
		before := rows.CallsOf("Submit")
		for range 3600 {
			p.count(puts, 20)
			time.Sleep(time.Second)
		}
		if writes := rows.CallsOf("Submit") - before; writes < 115 || writes > 121 {
			t.Errorf("%d writes for 72,000 operations in an hour, want 120", writes)
		}
		before = rows.CallsOf("Submit")
		time.Sleep(time.Hour)
		if writes := rows.CallsOf("Submit") - before; writes > 14 {
			t.Errorf("%d writes in the idle hour afterwards, want 12", writes)
		}
		p.end(t)
		before = rows.CallsOf("Submit")
		start(t, rows, "vm-2").end(t)
		if writes := rows.CallsOf("Submit") - before; writes != 0 {
			t.Errorf("%d writes of a process that made no request", writes)
		}
	})
}

// TestKill: a process that is killed loses what it counted since its last write:
// a hundred operations or those of 40 seconds, and five and a half minutes.
func TestKill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rows := newTable(t, nil)
		slow, fast := start(t, rows, "vm-1"), start(t, rows, "vm-2")
		const seconds = 1799
		for i := range seconds {
			if i%10 == 0 {
				slow.count(gets, 1)
			}
			fast.count(puts, 20)
			time.Sleep(time.Second)
		}
		slow.stop()
		fast.stop()
		got := totals(mustRead(t, reader(rows)))
		if lost := seconds/10 + 1 - got.Operations[gets]; lost < 0 || lost > 36 {
			t.Errorf("the slow one lost %d operations of one in ten seconds, want those of five and a half minutes at most", lost)
		}
		if lost := 20*seconds - got.Operations[puts]; lost < 0 || lost > 20*41 {
			t.Errorf("the fast one lost %d operations, want those of 40 seconds at most", lost)
		}
	})
}

// TestSilent: a process that cannot write for hours is folded by another one.
// What it counts later is added, and nothing twice; what it tried to write before
// it was folded may be lost.
func TestSilent(t *testing.T) {
	for _, tt := range []struct {
		name     string
		after    time.Duration // of which the process is cut off
		executed bool          // one more write, without an answer
		min      int64
	}{
		{"lost", 10 * time.Minute, false, 1100},
		{"executed", 10 * time.Minute, true, 1100},
		{"the first write is lost", time.Minute, false, 1000},
		{"the first write is executed", time.Minute, true, 1100},
		{"the first write is refused", time.Minute, false, 1111},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rows := newTable(t, nil)
				var cut, late atomic.Bool
				err := errReset
				if strings.Contains(tt.name, "refused") {
					err = table.ErrRefused
				}
				silent := start(t, faulty{rows, err, &cut, &late}, "vm-1")
				other := start(t, rows, "vm-2")
				silent.count(gets, 99)
				time.Sleep(tt.after)
				silent.count(gets, 1)
				late.Store(tt.executed)
				cut.Store(true)
				time.Sleep(10 * time.Minute)
				silent.count(gets, 10)
				time.Sleep(3 * time.Hour)
				cut.Store(false)
				silent.count(gets, 1)
				time.Sleep(10 * time.Minute)
				silent.count(gets, 1000)
				silent.end(t)
				other.end(t)
				got := totals(mustRead(t, reader(rows))).Operations[gets]
				if got > 1111 || got < tt.min {
					t.Errorf("the sum is %d, want 1,111, or less what was tried before", got)
				}
			})
		})
	}
}

// faulty is the table as a process sees it that is cut off.
type faulty struct {
	table.Store
	err  error
	cut  *atomic.Bool
	late *atomic.Bool // the next request that is cut off is executed
}

func (f faulty) Submit(ctx context.Context, writes ...table.Write) ([]string, error) {
	if !f.cut.Load() {
		return f.Store.Submit(ctx, writes...)
	}
	if f.late.Swap(false) {
		f.Store.Submit(ctx, writes...)
	}
	return nil, f.err
}

func (f faulty) Query(ctx context.Context, q table.Query) (table.Page, error) {
	if f.cut.Load() {
		return table.Page{}, errReset
	}
	return f.Store.Query(ctx, q)
}

// TestDays: what a process counts on a day is in the row of that day, also if
// the month ends. Its spans and hours end with the day.
func TestDays(t *testing.T) {
	storetest.OnlyInProve(t)
	synctest.Test(t, func(t *testing.T) {
		rows := newTable(t, nil)
		p := start(t, rows, "vm-1")
		time.Sleep(29*24*time.Hour + 12*time.Hour)
		for day := 30; day <= 33; day++ {
			p.count(gets, int64(day))
			if day == 31 {
				m := mustRead(t, reader(rows))
				if u := m.Days[30]; m.Today != 31 || u.Operations[gets] != 30 || u.HostedHours < 23.99 || u.HostedHours > 24 || u.Hosted.hours() < 23.99 || u.Bus.hours() < 23.99 {
					t.Errorf("day 30: %+v, want 30 operations in 24 hours", u)
				}
				if own := mustRead(t, p.Ledger).Days[31]; own.Operations[gets] != 31 || own.HostedHours < 11.99 || own.HostedHours > 12.01 {
					t.Errorf("today: %+v, want what was counted just now, in 12 hours", own)
				}
			}
			time.Sleep(24 * time.Hour)
		}
		p.end(t)
		february := mustRead(t, reader(rows))
		if len(february.Days) != 3 || february.Days[1].Operations[gets] != 32 || february.Days[2].Operations[gets] != 33 {
			t.Errorf("%+v, want the first two days of february, and the third without operations", february.Days)
		}
		// Those of January are folded in February.
		january, _, err := readMonth(withDeadline(t), rows, time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC))
		if err != nil || len(january) != 31 {
			t.Errorf("January has %d rows, %v, want one for each day", len(january), err)
		}
		for _, row := range january {
			if k, _, err := parseRow(row); err != nil || k.name != "" {
				t.Errorf("row %s of January: %v, want it folded", row.Key, err)
			}
		}
	})
}

func withDeadline(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// TestWithoutTable: a process without a table knows only itself.
func TestWithoutTable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, nil, "vm-1")
		p.count(gets, 5)
		time.Sleep(time.Hour)
		if got := mustRead(t, p.Ledger).Days[1]; got.Operations[gets] != 5 || !near(got.HostedHours, 1) {
			t.Errorf("%+v, want its own usage", got)
		}
		p.end(t)
	})
}

func near(a, b float64) bool { return math.Abs(a-b) < 1e-6 }
