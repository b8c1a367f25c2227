package instances

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"kennel/internal/memory"
	"kennel/internal/table"
)

// TestSteadyCost counts the requests of processes that have no problems.
func TestSteadyCost(t *testing.T) {
	const processes, hours = 4, 12
	inBubble(t, memory.Options{}, func(t *testing.T, rows *memory.Table) {
		var nodes []*node
		for i := range processes {
			nodes = append(nodes, startNode(t, rows, fmt.Sprint("p", i)))
		}
		time.Sleep(hours * time.Hour)
		perMinute := float64(rows.Calls()) / (processes * hours * 60)
		if perMinute > 2.1 || perMinute < 1.8 {
			t.Errorf("%.3f requests a minute and process, want about 2 and not more than 2.1", perMinute)
		}
		if sweeps := rows.CallsOf("Query"); sweeps < processes*hours*9/10-processes {
			t.Errorf("%d sweeps, want about one an hour and process", sweeps)
		}
		t.Logf("figure: requests to the instance table, each minute and process | %.2f | ≤ 2.1", perMinute)
		if d := read(t, rows); len(d.Live) != processes || len(d.Gone) != 0 {
			t.Errorf("%d live, %d gone", len(d.Live), len(d.Gone))
		}
		for _, n := range nodes {
			if err := n.end(t); err != nil {
				t.Error(err)
			}
		}
		if n := rows.Rows(""); n != 0 {
			t.Errorf("%d rows are left after a clean stop", n)
		}
	})
}

// TestRowsAreFresh: no row is older than 30 s, from the first seconds of a
// process on. What sequences compare with after a restore rests on that.
func TestRowsAreFresh(t *testing.T) {
	inBubble(t, memory.Options{}, func(t *testing.T, rows *memory.Table) {
		n := startNode(t, rows, "p")
		time.Sleep(10 * time.Second)
		for range 4 * 60 * 60 {
			d := read(t, rows)
			if age := d.ReadAt.Sub(d.Live[0].SeenAt); age > 30*time.Second {
				t.Fatalf("a row is %v old", age)
			}
			time.Sleep(time.Second)
		}
		if err := n.end(t); err != nil {
			t.Error(err)
		}
	})
}

// TestProblemIsSeen: a problem of one process is read by another soon after it
// begins, and no longer soon after it ends.
func TestProblemIsSeen(t *testing.T) {
	inBubble(t, memory.Options{}, func(t *testing.T, rows *memory.Table) {
		var seen, cured time.Duration
		for round := range 40 {
			n := startNode(t, rows, "p")
			time.Sleep(time.Duration(round) * 1700 * time.Millisecond) // also at the start of the process
			wait := func(want int) time.Duration {
				began := time.Now()
				for len(groupsOf(read(t, rows))) != want {
					if time.Since(began) > time.Minute {
						t.Fatalf("round %d: %d problems are not reported", round, want)
					}
					time.Sleep(100 * time.Millisecond)
				}
				return time.Since(began)
			}
			n.has(Problem{Code: GateUnreadable, Subject: "hounds", What: "it is corrupt", Since: time.Now(), Count: 1})
			seen = max(seen, wait(1))
			n.has(Problem{Code: GateUnreadable, Subject: "hounds", Since: time.Now(), Count: 1}, Problem{Code: GateUnreadable, Subject: "cats", Since: time.Now()})
			seen = max(seen, wait(2))
			n.has()
			cured = max(cured, wait(0))
			if err := n.end(t); err != nil {
				t.Fatal(err)
			}
		}
		if seen > 35*time.Second || cured > 35*time.Second {
			t.Errorf("a problem is seen after %v and gone %v after its end, want 35 s", seen, cured)
		}
		t.Logf("figure: until another instance reads a problem, and that it has ended | %v, %v | ≤ 35 s", seen, cured)
	})
}

// TestFlappingProblem: a problem that comes and goes does not cause a write
// each time.
func TestFlappingProblem(t *testing.T) {
	inBubble(t, memory.Options{}, func(t *testing.T, rows *memory.Table) {
		n := startNode(t, rows, "p")
		time.Sleep(10 * time.Second)
		before := rows.CallsOf("Submit")
		const minutes = 30
		for i := range minutes * 60 {
			if i%2 == 0 {
				n.has(Problem{Code: BlobsFailing, Since: time.Now()})
			} else {
				n.has()
			}
			time.Sleep(time.Second)
		}
		if writes := rows.CallsOf("Submit") - before; writes > minutes*12 {
			t.Errorf("%d writes within %d minutes, want one in 5 s at most", writes, minutes)
		}
		// Only the set counts: a growing count is no news.
		n.has()
		time.Sleep(time.Minute)
		before = rows.CallsOf("Submit")
		for i := range 600 {
			n.has(Problem{Code: BlobsFailing, What: fmt.Sprint(i), Since: time.Now(), Count: int64(i)})
			time.Sleep(time.Second)
		}
		if writes := rows.CallsOf("Submit") - before; writes > 25 {
			t.Errorf("%d writes within 10 minutes of one problem", writes)
		}
		n.kill()
	})
}

// TestRenew: a report that is renewed is in the row soon, also if the one before
// was.
func TestRenew(t *testing.T) {
	inBubble(t, memory.Options{}, func(t *testing.T, rows *memory.Table) {
		n := startNode(t, rows, "p")
		time.Sleep(40 * time.Second)
		for range 2 {
			renewed := time.Now()
			n.Renew()
			time.Sleep(7 * time.Second)
			if d := read(t, rows); len(d.Live) != 1 || d.Live[0].At.Before(renewed) {
				t.Errorf("%+v, want a report of the last 7 s", d)
			}
		}
		n.kill()
	})
}

// TestKilledProcess: the problems of a killed process end after two minutes,
// and its row is removed after a day.
func TestKilledProcess(t *testing.T) {
	inBubble(t, memory.Options{}, func(t *testing.T, rows *memory.Table) {
		a, b := startNode(t, rows, "a"), startNode(t, rows, "b")
		b.has(Problem{Code: SequenceMissing, Subject: "orders", What: "it was deleted", Since: time.Now(), Count: 3})
		time.Sleep(time.Minute)
		b.kill()
		killed := time.Now()
		for d := read(t, rows); len(d.Live) == 2; d = read(t, rows) {
			if groups := groupsOf(d); len(groups) != 1 {
				t.Fatalf("%v after the kill: problems %v", time.Since(killed), groups)
			}
			time.Sleep(time.Second)
		}
		counted := time.Since(killed)
		if counted < LiveFor-35*time.Second || counted > LiveFor+time.Second {
			t.Errorf("a killed process counts for %v, want %v since its last report", counted, LiveFor)
		}
		d := read(t, rows)
		if namesOf(d.Live) != "a" || namesOf(d.Gone) != "b" || len(groupsOf(d)) != 0 {
			t.Errorf("live %q, gone %q, problems %v", namesOf(d.Live), namesOf(d.Gone), groupsOf(d))
		}
		for rows.Rows("") == 2 {
			time.Sleep(time.Minute)
		}
		removed := time.Since(killed)
		if removed < keepFor-time.Minute || removed > keepFor+67*time.Minute {
			t.Errorf("the row of a killed process is removed after %v, want %v", removed, keepFor)
		}
		t.Logf("figure: a killed process counts, and its row is kept | %.0f s, %.1f h | ≤ 121 s, ≤ 25.2 h", counted.Seconds(), removed.Hours())
		if d := read(t, rows); namesOf(d.Live) != "a" {
			t.Errorf("live %q, want the process that sweeps", namesOf(d.Live))
		}
		a.kill()
	})
}

// TestTableFails: a table that refuses or is silent costs no more requests than
// one that works, disturbs nothing, and is used again afterwards.
func TestTableFails(t *testing.T) {
	for _, tt := range []struct {
		name  string
		fault memory.Fault
	}{
		{"refused", memory.Fault{Err: table.ErrRefused, Lost: true}},
		{"silent", memory.Fault{Lost: true}},
		{"replies are lost", memory.Fault{Err: errReset}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var fails atomic.Bool
			inBubble(t, memory.Options{Fault: func(memory.Call) memory.Fault {
				if fails.Load() {
					return tt.fault
				}
				return memory.Fault{}
			}}, func(t *testing.T, rows *memory.Table) {
				fails.Store(true)
				n := startNode(t, rows, "p")
				n.has(Problem{Code: TablesFailing, Since: time.Now()})
				const minutes = 120
				time.Sleep(minutes * time.Minute)
				if perMinute := float64(rows.Calls()) / minutes; perMinute > 2.1 {
					t.Errorf("%.2f requests a minute, want 2.1 at most", perMinute)
				}
				fails.Store(false)
				time.Sleep(40 * time.Second)
				if d := read(t, rows); len(d.Live) != 1 {
					t.Errorf("%+v, want the instance 40 s after the table works", d)
				}
				fails.Store(true)
				if err := n.end(t); err == nil {
					t.Error("closed without an error although the row could not be removed")
				}
				for line := range strings.Lines(n.log.String()) {
					if !strings.Contains(line, "level=WARN") || !strings.Contains(line, "error=") {
						t.Errorf("log line %s, want a warning with its error, which is logged once a minute", line)
					}
				}
			})
		})
	}
}

// unlucky is a table to which one request of a process goes wrong.
type unlucky struct {
	*memory.Table
	how  string
	at   int64
	sent atomic.Int64
	late sync.WaitGroup
}

func (u *unlucky) strikes() bool { return u.sent.Add(1) == u.at }

var errReset = errors.New("connection reset")

func (u *unlucky) Submit(ctx context.Context, writes ...table.Write) ([]string, error) {
	if !u.strikes() {
		return u.Table.Submit(ctx, writes...)
	}
	ctx = context.WithoutCancel(ctx)
	apply := func() {
		ctx, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		u.Table.Submit(ctx, writes...)
	}
	switch u.how {
	case "reply lost":
		apply()
	case "late":
		u.late.Go(func() {
			time.Sleep(20 * time.Second)
			apply()
		})
	}
	return nil, errReset
}

func (u *unlucky) Query(ctx context.Context, q table.Query) (table.Page, error) {
	if u.strikes() {
		return table.Page{}, errReset
	}
	return u.Table.Query(ctx, q)
}

// TestFaultAtEachRequest loses each request of a process in turn, or its reply,
// or lets it arrive late, and kills the process or ends it cleanly afterwards.
// Then the process is seen as it is, and nothing of it or of others is lost or
// kept.
func TestFaultAtEachRequest(t *testing.T) {
	runs := 0
	for _, how := range []string{"lost", "reply lost", "late"} {
		for at, sent := int64(1), int64(1); at <= sent; at++ {
			for _, clean := range []bool{false, true} {
				inBubble(t, memory.Options{}, func(t *testing.T, rows *memory.Table) {
					fail := func(format string, args ...any) {
						t.Errorf("%s, request %d, clean %t: "+format, append([]any{how, at, clean}, args...)...)
					}
					put(t, rows, Report{Process: Process{Instance: "old1"}})
					put(t, rows, Report{Process: Process{Instance: "old2"}})
					time.Sleep(keepFor + time.Minute)
					put(t, rows, Report{Process: Process{Instance: "young"}})
					u := &unlucky{Table: rows, how: how, at: at}
					n := startNode(t, u, "p")
					time.Sleep(time.Minute)
					n.reporter.sweep(t.Context())
					n.has(Problem{Code: BlobsFailing, Since: time.Now()})
					time.Sleep(70 * time.Second)
					if d := read(t, rows); !strings.Contains(namesOf(d.Live), "p") || len(groupsOf(d)) != 1 {
						fail("live %q, problems %v", namesOf(d.Live), groupsOf(d))
					}
					if clean {
						n.end(t) // its error is logged
					} else {
						n.kill()
					}
					sent = u.sent.Load()
					time.Sleep(LiveFor + 30*time.Second)
					if d := read(t, rows); len(d.Live) != 0 || !strings.Contains(namesOf(d.Gone), "young") {
						fail("live %q, gone %q after the end", namesOf(d.Live), namesOf(d.Gone))
					}
					time.Sleep(keepFor)
					newNode(rows, "q").reporter.sweep(t.Context())
					if n := rows.Rows(""); n != 0 {
						fail("%d rows are left", n)
					}
					u.late.Wait()
				})
				runs++
			}
		}
	}
	if runs < 3*2*8 {
		t.Errorf("only %d runs", runs)
	}
	t.Logf("figure: wrong or left rows after a fault at each request of a reporter, which is then killed or stopped (%d runs) | 0 | 0", runs)
}

// Two processes that sweep at the same time do not disturb each other, and do
// not remove a row that is written at that moment.
func TestSweepsTogether(t *testing.T) {
	inBubble(t, memory.Options{}, func(t *testing.T, rows *memory.Table) {
		for i := range 250 {
			put(t, rows, Report{Process: Process{Instance: fmt.Sprintf("old%03d", i)}})
		}
		time.Sleep(keepFor + time.Minute)
		back := &meddling{Table: rows, before: func() { put(t, rows, Report{Process: Process{Instance: "old101"}}) }}
		n := newNode(back, "a")
		n.reporter.sweep(t.Context())
		if left := rows.Rows(""); left != 100 {
			t.Errorf("%d rows are left, want the 100 of the transaction with a row that was written", left)
		}
		newNode(rows, "b").reporter.sweep(t.Context())
		if d := read(t, rows); namesOf(d.Live) != "old101" || len(d.Gone) != 0 || n.log.Len() > 0 {
			t.Errorf("live %q, %d gone, log %s", namesOf(d.Live), len(d.Gone), &n.log)
		}
	})
}

// meddling does something before the second write.
type meddling struct {
	*memory.Table
	before func()
	writes int
}

func (m *meddling) Submit(ctx context.Context, writes ...table.Write) ([]string, error) {
	if m.writes++; m.writes == 2 {
		m.before()
	}
	return m.Table.Submit(ctx, writes...)
}
