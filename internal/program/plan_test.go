package program

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

// describedQueues returns the description of a program with these queues.
func describedQueues(queues ...*Queue) Description {
	return (&Declared{Name: "shop", Queues: queues}).Describe()
}

// TestPlanOfQueues: what would leave messages without a handler is found, and
// nothing else.
func TestPlanOfQueues(t *testing.T) {
	full := RunningQueue{Name: "emails", StorageQueue: "emails", Handled: true, Counted: true, Waiting: 3, DeadLetters: 1}
	with := func(change func(*RunningQueue)) RunningQueue {
		q := full
		change(&q)
		return q
	}
	shared := with(func(q *RunningQueue) { q.Name, q.StorageQueue = "bills", "jobs" })
	for _, tt := range []struct {
		name    string
		running RunningQueue
		build   []*Queue
		is      string // "": no change
		strands bool
	}{
		{"still there", full, []*Queue{{Name: "emails", Handled: 1}}, "", false},
		{"gone with messages", full, nil, IsGone, true},
		{"gone with dead letters alone", with(func(q *RunningQueue) { q.Waiting = 0 }), nil, IsGone, true},
		{"gone and empty", with(func(q *RunningQueue) { q.Waiting, q.DeadLetters = 0, 0 }), nil, IsGone, false},
		{"gone and not counted", with(func(q *RunningQueue) { q.Waiting, q.DeadLetters, q.Counted = 0, 0, false }), nil, IsGone, true},
		{"renamed with its former name", full, []*Queue{{Name: "mails", Handled: 1, FormerNames: []string{"emails"}}}, "", false},
		{"renamed and kept in its storage queue", full, []*Queue{{Name: "mails", Handled: 1, StorageQueue: "emails"}}, "", false},
		{"a former name of a queue that is only sent to", full, []*Queue{{Name: "mails", SendOnly: true, FormerNames: []string{"emails"}}}, IsGone, true},
		{"only sent to now", full, []*Queue{{Name: "emails", SendOnly: true}}, IsUnhandled, true},
		{"only sent to, then and now", with(func(q *RunningQueue) { q.Handled = false }), []*Queue{{Name: "emails", SendOnly: true}}, "", false},
		{"no longer sent to", with(func(q *RunningQueue) { q.Handled = false }), nil, IsGone, false},
		{"another storage queue", full, []*Queue{{Name: "emails", Handled: 1, StorageQueue: "jobs"}}, IsUnhandled, true},
		{"another storage queue, drained", full, []*Queue{{Name: "emails", Handled: 1, StorageQueue: "jobs", FormerNames: []string{"emails"}}}, "", false},
		{"one of two that share a storage queue", shared, []*Queue{{Name: "mails", Handled: 1, StorageQueue: "jobs"}}, IsGone, true},
		{"renamed in a shared storage queue", shared, []*Queue{{Name: "invoices", Handled: 1, StorageQueue: "jobs", FormerNames: []string{"bills"}}}, "", false},
		{"out of a shared storage queue, drained", shared, []*Queue{{Name: "bills", Handled: 1, FormerNames: []string{"jobs"}}}, "", false},
	} {
		d := describedQueues(tt.build...)
		p, err := d.Plan(Running{Queues: []RunningQueue{tt.running}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		at := slices.IndexFunc(p.Queues, func(q QueueChange) bool { return q.Queue == tt.running.Name })
		switch {
		case at < 0 && tt.is != "", at >= 0 && p.Queues[at].Is != tt.is:
			t.Errorf("%s: %+v", tt.name, p.Queues)
		case len(p.Stranded()) > 0 != tt.strands:
			t.Errorf("%s: stranded %+v", tt.name, p.Stranded())
		}
		if tt.is == "" {
			if _, err := d.Plan(Running{Queues: []RunningQueue{tt.running}}, []string{tt.running.Name}); err == nil {
				t.Errorf("%s: a drop of a queue that is handled was accepted", tt.name)
			}
			continue
		}
		if p, err := d.Plan(Running{Queues: []RunningQueue{tt.running}}, []string{tt.running.Name}); err != nil || len(p.Stranded()) > 0 || !p.Queues[at].Dropped {
			t.Errorf("%s, dropped: %+v, %v", tt.name, p.Queues, err)
		}
	}
}

// TestPlanOfParts: queues of built-in parts that are not used any more are left,
// whatever the number of partitions.
func TestPlanOfParts(t *testing.T) {
	running := Running{}
	for _, name := range []string{"work-0", "work-7", "work-express", "delete-channel-and-blogs"} {
		running.Queues = append(running.Queues, RunningQueue{Name: name, StorageQueue: name, BuiltIn: true, Handled: true, Counted: true, Waiting: 1})
	}
	d := &Declared{Name: "shop"}
	d.Use(Batches)
	p, err := d.Describe().Plan(running, nil)
	if err != nil || len(p.Stranded()) != 1 || p.Stranded()[0].Queue != "delete-channel-and-blogs" {
		t.Errorf("%+v, %v", p.Stranded(), err)
	}
	if p, err := describedQueues().Plan(running, nil); err != nil || len(p.Stranded()) != 4 {
		t.Errorf("%+v, %v", p.Stranded(), err)
	}
}

// TestPlanOfTheRest: timers are compared with those that run, the rest with the
// last description.
func TestPlanOfTheRest(t *testing.T) {
	d := &Declared{Name: "shop",
		Timers:   []*Timer{{Name: "same", Schedule: "0 6 * * *"}, {Name: "moved", Schedule: "0 7 * * *", Zone: "Europe/Berlin"}, {Name: "added", Schedule: "0 8 * * *"}},
		Settings: []*Setting{{Name: "SMTP_URL", Secret: true}, {Name: "LIMIT", Default: "7"}, {Name: "NOTE", Optional: true}},
	}
	d.Use(Messages)
	last := (&Declared{Name: "shop", Settings: []*Setting{{Name: "LIMIT", Default: "5"}, {Name: "NOTE", Optional: true}, {Name: "OLD", Optional: true}},
		Timers: []*Timer{{Name: "same", Schedule: "0 6 * * *"}, {Name: "moved", Schedule: "0 6 * * *"}}}).Describe()
	running := Running{Last: &last, Timers: []RunningTimer{{"same", "0 6 * * *", "UTC"}, {"moved", "0 6 * * *", "UTC"}, {"removed", "@every 10m", "UTC"}}}
	p, err := d.Describe().Plan(running, nil)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`"queues":[]`,
		`"timers":[{"name":"added","is":"new","to":"0 8 * * * UTC"},{"name":"moved","is":"changed","from":"0 6 * * * UTC","to":"0 7 * * * Europe/Berlin"},{"name":"removed","is":"gone","from":"@every 10m UTC"}]`,
		`"settings":[{"name":"LIMIT","is":"changed","from":"default 5","to":"default 7"},{"name":"OLD","is":"gone"},{"name":"SMTP_URL","is":"new","to":"required, secret"}]`,
		`"roles":[{"name":"Azure Service Bus Data Owner","is":"new"}]`,
		`{"name":"Timer-moved","is":"changed"}`, `{"name":"Timer-added","is":"new"}`, `{"name":"Relay","is":"new"}`,
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("%s lacks %s", text, want)
		}
	}
	if strings.Contains(string(text), "Timer-same") || strings.Contains(string(text), "NOTE") {
		t.Errorf("%s has what is the same", text)
	}
}
