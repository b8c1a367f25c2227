package instances

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"kennel/internal/memory"
	"kennel/internal/table"
)

// node is a process that reports to a table. Its problems can be set.
type node struct {
	*Self
	reporter *Reporter
	stop     context.CancelFunc
	ended    sync.WaitGroup

	mu       sync.Mutex
	problems []Problem // guarded by mu
	log      bytes.Buffer
}

func newNode(rows table.Store, name string) *node {
	n := &node{}
	n.Self = NewSelf(Process{name, Functions, "v1", time.Now().UTC()}, n.present, func(*Report) {})
	n.reporter = NewReporter(n.Self, rows, slog.New(slog.NewTextHandler(&n.log, nil)))
	return n
}

// startNode starts a process in the bubble of a test.
func startNode(t *testing.T, rows table.Store, name string) *node {
	n := newNode(rows, name)
	ctx, stop := context.WithCancel(t.Context())
	n.stop = stop
	n.ended.Go(func() { n.reporter.Run(ctx) })
	return n
}

func (n *node) present() []Problem {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.problems
}

func (n *node) has(problems ...Problem) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.problems = problems
}

// kill ends a process without its Close.
func (n *node) kill() {
	n.stop()
	n.ended.Wait()
}

// end ends a process cleanly.
func (n *node) end(t *testing.T) error {
	n.kill()
	return n.reporter.Close(context.WithoutCancel(t.Context()))
}

// read reads the reports with all parts.
func read(t *testing.T, rows table.Querier) Directory {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	d, err := new(Reader).Read(ctx, rows, all()...)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// groupsOf returns the problems of the live instances.
func groupsOf(d Directory) []ProblemGroup {
	var reports []Report
	for _, i := range d.Live {
		reports = append(reports, i.Report)
	}
	return GroupProblems(reports)
}

func namesOf(all []Instance) string {
	var names []string
	for _, i := range all {
		names = append(names, i.Instance)
	}
	return strings.Join(names, " ")
}

// inBubble runs a test in virtual time on a table in memory.
func inBubble(t *testing.T, o memory.Options, do func(t *testing.T, rows *memory.Table)) {
	t.Helper()
	o.OnMisuse = func(problem string) { t.Error(problem) }
	synctest.Test(t, func(t *testing.T) {
		rows := memory.NewTable(&memory.TableOptions{Options: o})
		do(t, rows)
		rows.Wait()
	})
}

// put stores a row as a process with this report would.
func put(t *testing.T, rows table.Store, r Report) {
	t.Helper()
	written, err := row(r)
	if err != nil {
		t.Fatal(err)
	}
	putRow(t, rows, written)
}

func putRow(t *testing.T, rows table.Store, written table.Row) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := rows.Submit(ctx, table.Write{Verb: table.Upsert, Row: written}); err != nil {
		t.Fatal(err)
	}
}

// parse returns the report in a row, with these parts.
func parse(row table.Row, parts []Part) (Report, error) {
	d, err := decode(row)
	if err != nil {
		return Report{}, err
	}
	r, _, err := d.with(parts, row, unpackers.New().(*unpacker))
	return r, err
}
