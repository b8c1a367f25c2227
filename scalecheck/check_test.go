package scalecheck

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"kennel/instances"
	"kennel/internal/memory"
)

// process is a process of the app that checks.
type process struct {
	*Check
	facts Facts
	err   error
	woken []string
	reads atomic.Int64
	log   *bytes.Buffer
}

func newProcess(t *testing.T, rows *memory.Table, blobs *memory.Container, o *Options) *process {
	t.Helper()
	p := &process{facts: busy(), log: &bytes.Buffer{}}
	if o == nil {
		o = &Options{}
	}
	o.Wake = func(queue string) { p.woken = append(p.woken, queue) }
	o.Log = slog.New(slog.NewTextHandler(p.log, nil))
	var err error
	if p.Check, err = New(rows, blobs, func(context.Context) (Facts, error) { p.reads.Add(1); return p.facts, p.err }, o); err != nil {
		t.Fatal(err)
	}
	return p
}

func (p *process) mustRun(t *testing.T, want bool) {
	t.Helper()
	if ran, err := p.Run(t.Context()); err != nil || ran != want {
		t.Fatalf("ran %t, %v, want %t", ran, err, want)
	}
}

func (p *process) latest(t *testing.T) Record {
	t.Helper()
	r, err := p.Latest(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func (p *process) history(t *testing.T) (all []Record) {
	t.Helper()
	for continuation := ""; ; {
		some, next, err := p.History(t.Context(), Page{Top: 7, Continuation: continuation})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, some...)
		if continuation = next; next == "" {
			return all
		}
	}
}

// busy is a worker with a backlog, beside a process that serves HTTP.
func busy() Facts {
	return Facts{
		Reports: []instances.Report{
			{Process: instances.Process{Instance: "http", Kind: instances.Functions}, CPU: 2, CPUs: 2, Window: 60},
			{Process: instances.Process{Instance: "worker", Kind: instances.Worker}, CPU: 1, CPUs: 2, Window: 60,
				Running: map[string]int64{"work-0": 20},
				Work:    map[string]instances.Work{"work-0": {Pool: 32}, "cleanup": {Pool: 16}},
				Recent:  map[string]instances.Recent{"work-0": {Completed: 120, HandSeconds: 1200, Latencies: []int64{0, 0, 0, 0, 0, 100, 20, 0, 0, 0}}}},
		},
		Depths: map[string]instances.QueueSample{
			"work-0": {Ready: 5000, InFlight: 20, OldestSeconds: 100}, "work-1": {Ready: 7, Held: true}, "cleanup": {},
		},
	}
}

// TestRun: a check turns what processes report into advice, signals the queues
// with waiting work, and keeps what it found.
func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rows, blobs := memory.NewTable(nil), memory.NewContainer(nil)
		p := newProcess(t, rows, blobs, nil)
		if _, err := p.Latest(t.Context()); !errors.Is(err, ErrNone) {
			t.Errorf("before the first check: %v", err)
		}
		p.mustRun(t, true)
		if got := strings.Join(p.woken, " "); got != "work-0" {
			t.Errorf("signalled %q, want the queue with messages that are not held", got)
		}
		for range 4 {
			time.Sleep(time.Minute)
			p.mustRun(t, true)
		}
		r := p.latest(t)
		if r.Running != 1 || len(r.Advice) != 4 || len(r.Samples) != 3 || !r.At.Equal(time.Now()) {
			t.Fatalf("%+v, want one instance, and advice on three queues", r)
		}
		if n := *r.Advice[0].Instances; n < 2 || r.Advice[0].Queue != "" || r.Advice[0].Target != "instances" || !strings.Contains(r.Advice[0].Reason, "5,000 messages") {
			t.Errorf("%+v, want more instances for 5,000 messages", r.Advice[0])
		}
		want := Sample{Queue: "work-0", Ready: 5000, InFlight: 20, OldestSeconds: 100, ArrivalsPerSecond: 2, CompletionsPerSecond: 2,
			P95LatencySeconds: 720, ResponseSeconds: 10, Working: 20, CPU: 0.5}
		if r.Samples[1] != want || !r.Samples[2].Held {
			t.Errorf("%+v, want %+v, and the other queue held", r.Samples, want)
		}
		if r.Advice[2].Queue != "work-0" || r.Advice[2].Hands == nil || *r.Advice[2].Hands != 32 {
			t.Errorf("%+v, want 32 hands", r.Advice[2])
		}
		if got := p.history(t); len(got) != 5 || got[4].At != r.At || got[4].Samples[1] != want {
			t.Errorf("history of %d checks, want five", len(got))
		}
		other := newProcess(t, rows, blobs, nil)
		time.Sleep(time.Minute)
		other.mustRun(t, true)
		if n := *other.latest(t).Advice[0].Instances; n < *r.Advice[0].Instances {
			t.Errorf("another process advises %d instances: it lost the state", n)
		}
	})
}

// TestOneAtATime: many processes check once a minute, all together, and cost few
// requests. If the one that checks ends, another one does.
func TestOneAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const crowd = 20
		rows, blobs := memory.NewTable(nil), memory.NewContainer(nil)
		var processes []*process
		var running sync.WaitGroup
		defer running.Wait()
		ends := make(map[*process]context.CancelFunc)
		for range crowd {
			p := newProcess(t, rows, blobs, nil)
			ctx, cancel := context.WithCancel(t.Context())
			processes, ends[p] = append(processes, p), cancel
			running.Go(func() { p.Loop(ctx) })
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		var leader *process
		for _, p := range processes {
			if leader == nil || p.reads.Load() > leader.reads.Load() {
				leader = p
			}
		}
		ends[leader]()
		time.Sleep(time.Hour)
		for _, end := range ends {
			end()
		}
		synctest.Wait()
		checks := leader.history(t)
		if n := len(checks); n < 110 || n > 121 {
			t.Errorf("%d checks in two hours, want one a minute", n)
		}
		for i, r := range checks[1:] {
			if pause := r.At.Sub(checks[i].At); pause < minPause || pause > 5*time.Minute {
				t.Errorf("check %d came %v after the one before", i+1, pause)
			}
		}
		// Each check makes four requests, and each other process looks every
		// three minutes, on average.
		if n := rows.Calls(); n > 2*60*(4+crowd/2) {
			t.Errorf("%d requests of %d processes in two hours", n, crowd)
		}
	})
}

// TestAtOnce: of processes that check at the same time, one does.
func TestAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rows, blobs := memory.NewTable(&memory.TableOptions{Options: memory.Options{Fault: func(memory.Call) memory.Fault { return memory.Fault{Delay: 10 * time.Millisecond} }}}), memory.NewContainer(nil)
		var processes []*process
		for range 10 {
			processes = append(processes, newProcess(t, rows, blobs, nil))
		}
		for range 10 {
			var running sync.WaitGroup
			for _, p := range processes {
				running.Go(func() {
					if _, err := p.Run(t.Context()); err != nil {
						t.Error(err)
					}
				})
			}
			running.Wait()
			time.Sleep(time.Minute)
		}
		reads := int64(0)
		for _, p := range processes {
			reads += p.reads.Load()
		}
		if n := len(processes[0].history(t)); n != 10 || reads != 10 {
			t.Errorf("%d checks read the queues %d times, want 10", n, reads)
		}
	})
}

// TestFaultAtEachRequest: after a fault or the end of a process at each request,
// the next check works, and the history has each check once.
func TestFaultAtEachRequest(t *testing.T) {
	for _, kind := range []memory.Fault{
		{Lost: true, Err: errors.New("no answer")},
		{Err: errors.New("no answer")}, // but it was executed
	} {
		for at := range 12 {
			synctest.Test(t, func(t *testing.T) {
				call := 0
				o := memory.Options{Fault: func(memory.Call) memory.Fault {
					if call++; call > at && call <= at+4 { // and its repeats
						return kind
					}
					return memory.Fault{}
				}}
				rows, blobs := memory.NewTable(&memory.TableOptions{Options: o}), memory.NewContainer(&o)
				p := newProcess(t, rows, blobs, nil)
				for range 6 {
					p.Run(t.Context()) // may fail
					time.Sleep(time.Minute)
				}
				q := newProcess(t, rows, blobs, nil)
				q.mustRun(t, true)
				checks := q.history(t)
				if len(checks) < 3 || !checks[len(checks)-1].At.Equal(q.latest(t).At) {
					t.Errorf("fault %+v at request %d: %d checks are left", kind, at, len(checks))
				}
				for i := range checks[1:] {
					if !checks[i+1].At.After(checks[i].At) {
						t.Errorf("fault %+v at request %d: two checks at %v", kind, at, checks[i].At)
					}
				}
				if n := *q.latest(t).Advice[0].Instances; n < 2 {
					t.Errorf("fault %+v at request %d: %d instances advised", kind, at, n)
				}
			})
		}
	}
}

// TestUnreadable: what another build left is replaced, and a failed read of the
// queues leaves the last check as it was.
func TestUnreadable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rows, blobs := memory.NewTable(nil), memory.NewContainer(nil)
		p := newProcess(t, rows, blobs, nil)
		p.mustRun(t, true)
		first := p.latest(t)
		time.Sleep(time.Minute)
		p.err = errors.New("queues are down")
		if ran, err := p.Run(t.Context()); ran || err == nil {
			t.Errorf("ran %t, %v without the queues", ran, err)
		}
		if got := p.latest(t); !got.At.Equal(first.At) {
			t.Errorf("the last check is that of %v, want %v", got.At, first.At)
		}
		p.err = nil
		for _, column := range []string{stateColumn, recordColumn, formatColumn} {
			time.Sleep(time.Minute)
			p.mustRun(t, true)
			k, _, err := p.load(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			spoil(t, rows, k.version, column)
			if _, err := p.Latest(t.Context()); column == formatColumn && !errors.Is(err, ErrNone) {
				t.Errorf("%v, want no check: another build wrote the row", err)
			}
			time.Sleep(time.Minute)
			p.mustRun(t, true)
			p.latest(t)
		}
	})
}
