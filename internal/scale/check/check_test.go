package check

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"kennel/internal/instances"
	"kennel/internal/memory"
	"kennel/internal/table"
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
	worker := idle()
	instances.RunningSection.Add(&worker, map[string]int64{"work-0": 20})
	instances.RecentSection.Add(&worker, map[string]instances.Recent{"work-0": {Completed: 120, HandSeconds: 1200, Latencies: []int64{0, 0, 0, 0, 0, 100, 20, 0, 0, 0}}})
	return Facts{
		Reports: []instances.Report{
			{Process: instances.Process{Instance: "http", Kind: instances.Functions}, CPU: 2, CPUs: 2, Window: 60},
			worker,
		},
		Depths: map[string]instances.QueueSample{
			"work-0": {Ready: 5000, InFlight: 20, OldestSeconds: 100}, "work-1": {Ready: 7, Held: true}, "cleanup": {},
		},
	}
}

// idle is the worker without work.
func idle() instances.Report {
	r := instances.Report{Process: instances.Process{Instance: "worker", Kind: instances.Worker}, CPU: 1, CPUs: 2, Window: 60}
	instances.WorkSection.Add(&r, map[string]instances.Work{"work-0": {Pool: 32}, "cleanup": {Pool: 16}})
	return r
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

// TestRulesForHands: the rules for hands are known from the start. A process that
// does not check takes those of the last check with the row that it reads anyway,
// and keeps them while they cannot be read, or another build wrote them.
func TestRulesForHands(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var fails atomic.Bool
		rows, blobs := memory.NewTable(nil), memory.NewContainer(&memory.Options{Fault: func(memory.Call) memory.Fault {
			if fails.Load() {
				return memory.Fault{Lost: true, Err: errors.New("reset by peer")}
			}
			return memory.Fault{}
		}})
		leader, standby := newProcess(t, rows, blobs, nil), newProcess(t, rows, blobs, nil)
		want := func(when string, p *process, messages int64, oldest time.Duration, hands int) {
			t.Helper()
			if n := p.HandsFor(messages, oldest); n != hands {
				t.Errorf("%s: %d hands, want %d", when, n, hands)
			}
		}
		put := func(text string) {
			if _, err := leader.PutRules(t.Context(), []byte(text)); err != nil {
				t.Fatal(err)
			}
		}
		fails.Store(true)
		standby.Begin(t.Context())
		want("unreadable at the start, many messages", standby, 5000, 0, 32)
		want("unreadable at the start, few messages", standby, 5, 0, 16)
		fails.Store(false)
		put(`{"version":1,"depth":[{"from":0,"hands":2}],"ageSeconds":[{"from":0,"below":60,"hands":1},{"from":60,"hands":7}],"windows":[{"from":"00:00","to":"23:59","instances":2}]}`)
		leader.Begin(t.Context())
		want("at the start", leader, 5000, 0, 2)
		want("an old message", leader, 1, time.Minute, 7)

		reads := blobs.Calls()
		leader.mustRun(t, true)
		checked := blobs.Calls() - reads
		standby.mustRun(t, false)
		want("after a look", standby, 5000, 0, 2)
		want("after a look, an old message", standby, 1, time.Minute, 7)
		if n := blobs.Calls() - reads; n != checked {
			t.Errorf("a look made %d requests for the rules, want none", n-checked)
		}
		put(`{"version":1,"depth":[{"from":0,"hands":3}]}`)
		fails.Store(true)
		time.Sleep(time.Minute)
		leader.mustRun(t, true)
		standby.mustRun(t, false)
		want("unreadable", leader, 1, 0, 2)
		want("unreadable for the one that checks", standby, 1, 0, 2)
		fails.Store(false)
		time.Sleep(time.Minute)
		leader.mustRun(t, true)
		standby.mustRun(t, false)
		want("readable again", leader, 1, 0, 3)
		want("changed", standby, 1, 0, 3)

		k, _, err := leader.load(t.Context())
		if err == nil {
			_, err = rows.Submit(t.Context(), table.Write{Verb: table.Merge, If: k.version, Row: table.Row{Partition: partition, Key: stateKey, Values: map[string]string{rulesColumn: `{"version":2}`}}})
		}
		if err != nil {
			t.Fatal(err)
		}
		standby.mustRun(t, false)
		want("of another build", standby, 1, 0, 3)
	})
}

// TestHandsUnderTheHost: where a Functions host works on a queue, its settings
// decide about hands, and the advice says so.
func TestHandsUnderTheHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProcess(t, memory.NewTable(nil), memory.NewContainer(nil), nil)
		instances.WorkSection.Add(&p.facts.Reports[0], map[string]instances.Work{"work-1": {}})
		p.mustRun(t, true)
		const host = "; under the Functions host, host.json decides."
		for i, want := range []bool{false, false, true} { // cleanup, work-0, work-1
			if a := p.latest(t).Advice[i+1]; strings.HasSuffix(a.Reason, host) != want {
				t.Errorf("%s: %q", a.Queue, a.Reason)
			}
		}
		p.facts.Reports = p.facts.Reports[:1]
		time.Sleep(time.Minute)
		p.mustRun(t, true)
		for _, a := range p.latest(t).Advice[1:] {
			if !strings.HasSuffix(a.Reason, host) {
				t.Errorf("without workers, %s: %q", a.Queue, a.Reason)
			}
		}
	})
}

// TestHandsOfOwnQueues: the Concurrency in the program decides about a queue of its
// own, so there is no advice that nobody would follow.
func TestHandsOfOwnQueues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProcess(t, memory.NewTable(nil), memory.NewContainer(nil), nil)
		p.facts.Depths["emails"] = instances.QueueSample{Ready: 168, Own: true}
		p.mustRun(t, true)
		isOwn := func(queue string) bool { return queue == "emails" }
		latest := p.latest(t)
		if slices.ContainsFunc(latest.Advice, func(a Advice) bool { return isOwn(a.Queue) }) || len(latest.Advice) < 2 {
			t.Errorf("advice %v, want that for the other queues", latest.Advice)
		}
		if !slices.ContainsFunc(latest.Samples, func(s Sample) bool { return isOwn(s.Queue) }) {
			t.Error("the queue has no sample")
		}
	})
}

// New returns an error for a missing store or an invalid option.
func TestNew(t *testing.T) {
	rows, blobs := memory.NewTable(nil), memory.NewContainer(nil)
	read := func(context.Context) (Facts, error) { return Facts{}, nil }
	for want, make := range map[string]func() (*Check, error){
		"the table, the blobs or the facts are nil": func() (*Check, error) { return New(nil, blobs, read, nil) },
		"check.Options.Latency is -1ns":             func() (*Check, error) { return New(rows, blobs, read, &Options{Latency: -1}) },
		"check.Options.Keep is -1ns":                func() (*Check, error) { return New(rows, blobs, read, &Options{Keep: -1}) },
	} {
		if c, err := make(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v, %v, want an error with %q", c, err, want)
		}
	}
}
