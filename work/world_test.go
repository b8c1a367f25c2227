package work_test

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"kennel/internal/memory"
	"kennel/internal/storetest"
	"kennel/internal/table"
	"kennel/queue"
	"kennel/work"
)

// The rows that concern several batches are in partitions of their own.
const activeRows = "+active"

// maxPartitions is how many partition queues a world can have.
const maxPartitions = 4

// world is what outlives all processes: stores, the gate, and what the
// processors did.
type world struct {
	t       testing.TB
	rows    *memory.Table
	staging *memory.Container
	reports *memory.Container
	queues  *memory.Queues
	gate    *toggle

	partitions int         // of the processes in the end
	lose       func() bool // whether the next message that is received is lost; nil: never
	largeFrom  int         // items of a batch before the first large parcel; 0: work.LargeFrom
	maxRow     int         // results of a row that storage accepts; 0: any
	refused    atomic.Int64
	calm       atomic.Bool // faults are over

	claimRows  *memory.Table
	claimBlobs *memory.Container

	*sums
	ledgers ledgers

	messages sync.WaitGroup // that are worked on
}

// newWorld returns a world whose requests fail as fault determines; nil: they
// do not fail and take no time.
func newWorld(t testing.TB, shuffle uint64, fault func(store string) func(memory.Call) memory.Fault) *world {
	options := func(store string) *memory.Options {
		o := &memory.Options{OnMisuse: func(problem string) { t.Error(store, ": ", problem) }, ShuffleSeed: shuffle}
		if fault != nil {
			o.Fault = fault(store)
		}
		return o
	}
	return &world{
		t: t, gate: newToggle(), sums: newSums(), partitions: maxPartitions,
		rows:    memory.NewTable(&memory.TableOptions{Options: *options("rows")}),
		staging: memory.NewContainer(options("staging")), reports: memory.NewContainer(options("reports")),
		queues:     memory.NewQueues(options("queues")),
		claimRows:  memory.NewTable(&memory.TableOptions{Options: *options("claims")}),
		claimBlobs: memory.NewContainer(options("claim blobs")),
	}
}

// wait waits until no request and no message is on its way.
func (w *world) wait() {
	w.messages.Wait()
	for _, wait := range []func(){w.rows.Wait, w.staging.Wait, w.reports.Wait, w.queues.Wait, w.claimRows.Wait, w.claimBlobs.Wait} {
		wait()
	}
}

// calls returns how many requests all stores received.
func (w *world) calls() int64 {
	return w.rows.Calls() + w.staging.Calls() + w.reports.Calls() + w.queues.Calls() + w.claimRows.Calls() + w.claimBlobs.Calls()
}

// queueNames returns the queues of a number of partitions.
func queueNames(partitions int) []string {
	return slices.Clone(allQueues[:1+partitions])
}

var allQueues = []string{work.ExpressQueue, "work-0", "work-1", "work-2", "work-3"}

// left returns how many messages and dead letters the queues have. Copies of
// messages in the queues of former partitions, whose batches are done, expire
// there.
func (w *world) left() (messages, dead int) {
	for _, name := range queueNames(w.partitions) {
		messages += len(w.queues.All(name))
		dead += len(w.queues.All(name + queue.PoisonSuffix))
	}
	return messages, dead
}

// process is the batches as one process sees them.
type process struct {
	*work.Batches
	*storetest.Process
	w          *world
	queues     queue.Store // as the process sees them
	claims     *queue.Claims
	partitions int
}

// start returns a new process, which may be killed.
func (w *world) start(o *work.Options, kill *storetest.Killer) *process {
	if o == nil {
		o = &work.Options{}
	}
	p := &process{Process: storetest.NewProcess(kill), w: w, partitions: cmp.Or(o.Partitions, maxPartitions)}
	p.queues = p.Queues(w.queues)
	p.Batches, p.claims = open(w.t, stores{
		rows: p.Table(observed{w.rows, w}), staging: p.Container(w.staging), reports: p.Container(w.reports),
		claimRows: p.Table(w.claimRows), claimBlobs: p.Container(w.claimBlobs),
		queues: p.queues, peeker: p.Peeker(w.queues),
	}, w.sums, o)
	if w.largeFrom > 0 {
		p.SetLargeFrom(w.largeFrom)
	}
	return p
}

// stores are all stores of batches.
type stores struct {
	rows, claimRows              table.Store
	staging, reports, claimBlobs queue.Container
	queues                       queue.Store
	peeker                       queue.Peeker
}

// open returns the batches in these stores.
func open(t testing.TB, s stores, sums *sums, o *work.Options) (*work.Batches, *queue.Claims) {
	t.Helper()
	return openWith(t, s, map[string]work.Processor{processor: sums}, o)
}

func openWith(t testing.TB, s stores, processors map[string]work.Processor, o *work.Options) (*work.Batches, *queue.Claims) {
	t.Helper()
	claimRows, err := table.New(s.claimRows)
	if err != nil {
		t.Fatal(err)
	}
	claims, err := queue.NewClaims(claimRows, s.claimBlobs)
	if err != nil {
		t.Fatal(err)
	}
	publisher, err := queue.NewPublisher(s.queues, nil)
	if err != nil {
		t.Fatal(err)
	}
	batches, err := work.New(work.Stores{
		Rows: s.rows, Staging: s.staging, Reports: s.reports, Claims: claims, Put: publisher.Publish, Depths: depths{s.queues, s.peeker},
		Surplus: s.queues,
	}, processors, o)
	if err != nil {
		t.Fatal(err)
	}
	return batches, claims
}

type depths struct {
	queue.Counter
	queue.Peeker
}

// ledgers is what was written into the rows of batches.
type ledgers struct {
	mu   sync.Mutex
	done map[string]map[string]bool // the ends that were written, by batch; guarded by mu
}

// observed is a table that records which confirmed writes end a batch. It refuses
// rows with too many results.
type observed struct {
	table.Store
	w *world
}

func (o observed) Submit(ctx context.Context, writes ...table.Write) ([]string, error) {
	if o.w.maxRow > 0 && strings.HasPrefix(writes[0].Row.Key, "r") && writes[0].Verb == table.Insert && results(writes[0].Row) > o.w.maxRow {
		o.w.refused.Add(1)
		return nil, table.ErrRowSize
	}
	versions, err := o.Store.Submit(ctx, writes...)
	if row := writes[0].Row; err == nil && row.Key == "batch" && row.Values["state"] == string(work.Done) {
		o.w.ledgers.mu.Lock()
		defer o.w.ledgers.mu.Unlock()
		if o.w.ledgers.done == nil {
			o.w.ledgers.done = make(map[string]map[string]bool)
		}
		if o.w.ledgers.done[row.Partition] == nil {
			o.w.ledgers.done[row.Partition] = make(map[string]bool)
		}
		o.w.ledgers.done[row.Partition][row.Values["finishedAt"]] = true
	}
	return versions, err
}

// results returns how many results a row has.
func results(row table.Row) (n int) {
	for _, column := range []string{"done", "rejected", "failed"} {
		of, _ := strconv.Atoi(row.Values[column]) // written by work
		n += of
	}
	return n
}

// ends returns how many different ends of a batch were written.
func (l *ledgers) ends(batch string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.done[batch])
}

// toggle is a gate in the hand of the test.
type toggle struct {
	mu      sync.Mutex
	opened  time.Time     // zero while it is closed; guarded by mu
	open    chan struct{} // closed while the gate is open; guarded by mu
	waiting int           // guarded by mu
}

func newToggle() *toggle {
	g := &toggle{opened: time.Now(), open: make(chan struct{})}
	close(g.open)
	return g
}

func (g *toggle) set(open bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case open && g.opened.IsZero():
		g.opened = time.Now()
		close(g.open)
	case !open && !g.opened.IsZero():
		g.opened, g.open = time.Time{}, make(chan struct{})
	}
}

// Opened implements [work.Gate].
func (g *toggle) Opened(context.Context) (time.Time, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.opened, nil
}

// Wait implements [work.Gate].
func (g *toggle) Wait(ctx context.Context, limit time.Duration) (bool, error) {
	g.mu.Lock()
	open := g.open
	g.waiting++
	g.mu.Unlock()
	defer func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.waiting--
	}()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-open:
		return true, nil
	case <-timer.C:
		return false, nil
	case <-ctx.Done():
		return false, ctx.Err()
	}
}

func (g *toggle) waiters() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.waiting
}

var errReset = errors.New("connection reset")
