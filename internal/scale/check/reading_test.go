package check

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"kennel/internal/instances"
	"kennel/internal/memory"
)

// TestReading: what instances have is taken from those that work on queues, and
// messages that any process did count.
func TestReading(t *testing.T) {
	c, err := New(memory.NewTable(nil), memory.NewContainer(nil), nothing, &Options{Target: &target{maximum: 9}})
	if err != nil {
		t.Fatal(err)
	}
	report := func(name, kind string, cpu float64, completed int64, window float64) instances.Report {
		r := instances.Report{Process: instances.Process{Instance: name, Kind: kind}, CPU: cpu, CPUs: 2, Window: window}
		instances.RunningSection.Add(&r, map[string]int64{"q": 4})
		instances.WorkSection.Add(&r, map[string]instances.Work{"q": {Pool: 32}, "cleanup": {Pool: 16}})
		instances.RecentSection.Add(&r, map[string]instances.Recent{"q": {Completed: completed, HandSeconds: float64(completed)}})
		return r
	}
	unknown := report("c", instances.Worker, 0, 60, 0) // it has just started
	unknown.CPUs = 0
	r := c.readingOf(time.Now(), Facts{
		Reports: []instances.Report{
			report("a", instances.Worker, 2, 60, 60), report("b", instances.Worker, 1, 30, 30), unknown,
			report("app", instances.Functions, 2, 120, 60), // not a part of the target
		},
		Depths: map[string]instances.QueueSample{"q": {Ready: 5}},
	})
	if s := r.Samples[0]; r.Instances != 3 || r.Hands != 32 || s.Working != 12 || s.CPU != 0.75 || s.CompletionsPerSecond != 4 || s.ResponseSeconds != 1 {
		t.Errorf("%+v, want 3 instances with 32 hands each, 12 at work, 75 %% CPU, and 4 messages a second", r)
	}
}

func nothing(context.Context) (Facts, error) { return Facts{}, nil }

// TestRequests: a check makes three requests to the table and one to blobs; old
// rows are looked for once an hour.
func TestRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rows, blobs := memory.NewTable(nil), memory.NewContainer(nil)
		p := newProcess(t, rows, blobs, nil)
		if _, err := p.PutRules(t.Context(), []byte(twoToFour)); err != nil {
			t.Fatal(err)
		}
		for range 60 {
			p.mustRun(t, true)
			time.Sleep(time.Minute)
		}
		if ofRows, ofBlobs := rows.Calls(), blobs.Calls(); ofRows != 60*3+1 || ofBlobs != 60+2 { // the rules, and their copy
			t.Errorf("%d requests to the table and %d to blobs for 60 checks", ofRows, ofBlobs)
		}
	})
}

// TestLongRecords: a page of the history ends before it is too long, and the
// pages together have each check once.
func TestLongRecords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProcess(t, memory.NewTable(nil), memory.NewContainer(nil), nil)
		for i := range 36 {
			p.facts.Depths[fmt.Sprintf("work-%d", i)] = instances.QueueSample{Ready: 5000}
		}
		const checks = 100
		for range checks {
			p.mustRun(t, true)
			time.Sleep(time.Minute)
		}
		all, pages := 0, 0
		for continuation := ""; pages == 0 || continuation != ""; pages++ {
			some, next, err := p.History(t.Context(), Page{Top: checks, Continuation: continuation})
			if err != nil {
				t.Fatal(err)
			}
			all, continuation = all+len(some), next
		}
		if all != checks || pages < 2 {
			t.Errorf("%d checks on %d pages, want %d on several", all, pages, checks)
		}
	})
}
