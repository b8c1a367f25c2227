package check

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"kennel/internal/instances"
	"kennel/internal/memory"
	"kennel/internal/table"
)

// spoil writes an invalid text into a column of the row of the check.
func spoil(t *testing.T, rows *memory.Table, version, column string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, err := rows.Submit(ctx, table.Write{Verb: table.Merge, If: version, Row: table.Row{Partition: partition, Key: stateKey, Values: map[string]string{column: "{"}}})
	if err != nil {
		t.Fatal(err)
	}
}

const twoToFour = `{"version": 1, "instances": {"min": 2, "max": 4}, "depth": [{"from": 0, "hands": 8}]}`

// TestRules: new rules are used by the next check of any process. Invalid ones
// are a problem while they are stored, and the last valid ones stay in use.
func TestRules(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rows, blobs := memory.NewTable(nil), memory.NewContainer(nil)
		p := newProcess(t, rows, blobs, nil)
		p.facts = Facts{}
		advises := func(p *process, want int) {
			t.Helper()
			time.Sleep(5 * time.Minute) // the changes before are over
			p.mustRun(t, true)
			if n := *p.latest(t).Advice[0].Instances; n != want {
				t.Errorf("%d instances advised, want %d", n, want)
			}
		}
		put := func(text string) {
			t.Helper()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			if err := blobs.Put(ctx, rulesBlob, []byte(text)); err != nil {
				t.Fatal(err)
			}
		}
		advises(p, 1)
		if _, err := p.PutRules(t.Context(), []byte(`{"version": 1, "depth": []}`)); !errors.Is(err, ErrRules) || !strings.Contains(err.Error(), "depth") {
			t.Errorf("invalid rules: %v", err)
		}
		if _, err := p.PutRules(t.Context(), []byte(twoToFour)); err != nil {
			t.Fatal(err)
		}
		advises(p, 2)
		for _, invalid := range []string{"{", `{"version": 2}`, strings.Repeat(" ", maxRules+1)} {
			put(invalid)
			other := newProcess(t, rows, blobs, nil)
			other.facts = Facts{}
			for _, p := range []*process{p, other} {
				advises(p, 2)
				if got := p.Problems(); len(got) != 1 || got[0].Code != instances.RulesInvalid {
					t.Errorf("rules %.20q: problems %+v", invalid, got)
				}
				if used, err := p.rules.load(t.Context()); err != nil || !strings.Contains(marshal(t, used), `"min":2`) {
					t.Errorf("rules %.20q: a check uses %v, %v", invalid, marshal(t, used), err)
				}
				if rules, err := p.Rules(t.Context()); err != nil || !strings.Contains(marshal(t, rules), `"min":2`) {
					t.Errorf("rules %.20q: the rules in use are %v, %v", invalid, marshal(t, rules), err)
				}
			}
		}
		time.Sleep(problemLasts + time.Second)
		if got := p.Problems(); len(got) != 0 {
			t.Errorf("problems %+v of a process that does not check any more", got)
		}
		put(strings.Replace(twoToFour, `"min": 2`, `"min": 3`, 1))
		advises(p, 3)
		if got := p.Problems(); len(got) != 0 {
			t.Errorf("problems %+v after the rules were corrected", got)
		}
	})
}

// silent is blobs whose reads call a function first.
type silent struct {
	*memory.Container
	read func(context.Context)
}

func (s silent) Get(ctx context.Context, name string, limit int) ([]byte, error) {
	s.read(ctx)
	return s.Container.Get(ctx, name, limit)
}

// TestProblemsDoNotWait: the problems are known while a check waits for the
// rules, so that a status is not late if blobs do not respond.
func TestProblemsDoNotWait(t *testing.T) {
	var c *Check
	blobs := silent{memory.NewContainer(nil), func(ctx context.Context) {
		answered := make(chan bool)
		go func() { c.Problems(); close(answered) }()
		select {
		case <-answered:
		case <-ctx.Done(): // at the end of the check
			t.Error("the problems wait for the rules")
		}
	}}
	var err error
	if c, err = New(memory.NewTable(nil), blobs, func(context.Context) (Facts, error) { return Facts{}, nil }, nil); err != nil {
		t.Fatal(err)
	}
	if ran, err := c.Run(t.Context()); !ran || err != nil {
		t.Errorf("ran %t, %v", ran, err)
	}
}

func marshal(t *testing.T, rules interface{ MarshalJSON() ([]byte, error) }) string {
	t.Helper()
	text, err := rules.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// target is a target whose requests may fail.
type target struct {
	minimum, maximum  int
	readErr, writeErr error
	changes           int
}

func (g *target) Replicas(context.Context) (int, int, error) { return g.minimum, g.maximum, g.readErr }

func (g *target) SetMinimum(_ context.Context, n int) error {
	if g.changes++; g.writeErr == nil {
		g.minimum = n
	}
	return g.writeErr
}

// TestApply: advice changes a target only if that is allowed, and whatever the
// target answers, the check goes on.
func TestApply(t *testing.T) {
	for _, tt := range []struct {
		name    string
		target  target
		apply   bool
		state   string
		minimum int // afterwards
		changes int
	}{
		{"as advised", target{minimum: 2, maximum: 5}, true, Unchanged, 2, 0},
		{"a dry run", target{minimum: 1, maximum: 5}, false, DryRun, 1, 0},
		{"a change", target{minimum: 1, maximum: 5}, true, Applied, 2, 1},
		{"above its maximum", target{minimum: 1, maximum: 1}, true, Unchanged, 1, 0},
		{"reading is denied", target{readErr: fmt.Errorf("403: %w", ErrDenied)}, true, Denied, 0, 0},
		{"changing is denied", target{minimum: 1, maximum: 5, writeErr: ErrDenied}, true, Denied, 1, 1},
		{"another change is under way", target{minimum: 1, maximum: 5, writeErr: ErrBusy}, true, Busy, 1, 1},
		{"no answer", target{minimum: 1, maximum: 5, writeErr: context.DeadlineExceeded}, true, Failed, 1, 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			rows, blobs := memory.NewTable(nil), memory.NewContainer(nil)
			p := newProcess(t, rows, blobs, &Options{Target: &tt.target, TargetName: "worker", Apply: tt.apply})
			p.facts = Facts{}
			if _, err := p.PutRules(t.Context(), []byte(twoToFour)); err != nil {
				t.Fatal(err)
			}
			p.mustRun(t, true)
			o := p.latest(t).Outcome
			if o == nil || o.State != tt.state || tt.target.minimum != tt.minimum || tt.target.changes != tt.changes || (o.Error != "") != (o.State == Denied || o.State == Busy || o.State == Failed) {
				t.Errorf("%s: %+v, the target has %d after %d changes, want %s, %d, %d", tt.name, o, tt.target.minimum, tt.target.changes, tt.state, tt.minimum, tt.changes)
			}
			tt.target.readErr, tt.target.writeErr = nil, nil
			for range 2 {
				time.Sleep(time.Minute)
				p.mustRun(t, true)
			}
			if tt.apply && tt.target.maximum > 1 && (tt.target.minimum != 2 || p.latest(t).Outcome.State != Unchanged) {
				t.Errorf("%s: later the target has %d, %+v", tt.name, tt.target.minimum, p.latest(t).Outcome)
			}
		})
	}
}

// TestOutcomeIsKept: the outcome has the first check at which it was the same,
// also if what differs is the minimum of the target alone.
func TestOutcomeIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		goal := &target{minimum: 5, maximum: 9}
		p := newProcess(t, memory.NewTable(nil), memory.NewContainer(nil), &Options{Target: goal})
		p.facts = Facts{}
		for _, minimum := range []int{5, 3} {
			goal.minimum = minimum
			began := time.Now()
			for range 3 {
				p.mustRun(t, true)
				if o := p.latest(t).Outcome; o.State != DryRun || *o.Minimum != minimum || !o.At.Equal(began) {
					t.Errorf("%+v with a minimum of %d, want %d since %v", o, *o.Minimum, minimum, began)
				}
				time.Sleep(time.Minute)
			}
		}
	})
}

// TestTargetRemoved: without a target there is no outcome.
func TestTargetRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rows, blobs := memory.NewTable(nil), memory.NewContainer(nil)
		for _, goal := range []Target{&target{minimum: 5, maximum: 9}, nil} {
			p := newProcess(t, rows, blobs, &Options{Target: goal})
			p.mustRun(t, true)
			if o := p.latest(t).Outcome; (o == nil) != (goal == nil) {
				t.Errorf("target %v: %+v", goal, o)
			}
			time.Sleep(time.Minute)
		}
	})
}

// TestDenied: a target that denies what is needed is a problem until it allows
// it, or until another process checks.
func TestDenied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		g := &target{maximum: 5, readErr: fmt.Errorf("%w: 403.", ErrDenied)}
		p := newProcess(t, memory.NewTable(nil), memory.NewContainer(nil), &Options{Target: g, TargetName: "worker"})
		check := func(problems int) {
			t.Helper()
			p.mustRun(t, true)
			if got := p.Problems(); len(got) != problems {
				t.Errorf("problems %+v, want %d", got, problems)
			}
			time.Sleep(time.Minute)
		}
		for range 3 {
			check(1)
		}
		got := p.Problems()[0]
		if got.Code != instances.ScaleDenied || got.Subject != "worker" || got.Count != 3 || !got.Since.Equal(began) || !strings.HasSuffix(got.What, "may not read or change the target: 403.") {
			t.Errorf("%+v, want three denials of worker", got)
		}
		g.readErr = ErrBusy
		check(0)
		g.readErr = ErrDenied
		check(1)
		time.Sleep(problemLasts)
		if got := p.Problems(); len(got) != 0 {
			t.Errorf("problems %+v of a process that does not check any more", got)
		}
		g.readErr = nil
		check(0)
	})
}

// TestVanishedQueue: a queue that was deleted, even with a backlog, stops no check
// and keeps no instance.
func TestVanishedQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProcess(t, memory.NewTable(nil), memory.NewContainer(nil), nil)
		run := func(minutes int) Record {
			t.Helper()
			for range minutes {
				p.mustRun(t, true)
				time.Sleep(time.Minute)
			}
			return p.latest(t)
		}
		before := run(10)
		p.facts.Depths = map[string]instances.QueueSample{"cleanup": {}}
		p.facts.Reports[1] = idle()
		after := run(30)
		if len(after.Samples) != 1 || *before.Advice[0].Instances < 2 || *after.Advice[0].Instances != 1 {
			t.Errorf("%+v after %+v, want one instance", after.Advice[0], before.Advice[0])
		}
		p.facts.Depths = nil // all of them
		if none := run(1); len(none.Samples) != 0 || *none.Advice[0].Instances != 1 {
			t.Errorf("%+v without queues", none)
		}
	})
}

// TestTargetCounts: of a target, only workers are instances.
func TestTargetCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, tt := range []struct {
			target Target
			want   int
		}{{nil, 2}, {&target{maximum: 5}, 1}} {
			p := newProcess(t, memory.NewTable(nil), memory.NewContainer(nil), &Options{Target: tt.target})
			instances.WorkSection.Add(&p.facts.Reports[0], map[string]instances.Work{"work-0": {Done: 1}}) // it serves a queue, too
			p.mustRun(t, true)
			if n := p.latest(t).Running; n != tt.want {
				t.Errorf("target %v: %d instances, want %d", tt.target, n, tt.want)
			}
		}
	})
}

// TestHistory: the history is read by pages and by times, and rows that are too
// old are removed.
func TestHistory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rows := memory.NewTable(&memory.TableOptions{Scan: func(top int) int { return max(top/2, 1) }}) // pages may be short
		p := newProcess(t, rows, memory.NewContainer(nil), &Options{Keep: 3 * time.Hour})
		began := time.Now()
		for range 5 * 60 {
			p.mustRun(t, true)
			time.Sleep(time.Minute)
		}
		if n := len(p.history(t)); n < 180 || n > 241 {
			t.Errorf("%d checks are left, want those of three hours", n)
		}
		for _, tt := range []struct {
			from, to time.Duration
			want     int
		}{
			{4 * time.Hour, 4*time.Hour + 10*time.Minute, 10},
			{4*time.Hour + time.Nanosecond, 4*time.Hour + 10*time.Minute + time.Nanosecond, 10},
			{4 * time.Hour, 4 * time.Hour, 0},
			{5*time.Hour - 3*time.Minute, 9 * time.Hour, 3},
		} {
			got, _, err := p.History(t.Context(), Page{From: began.Add(tt.from), To: began.Add(tt.to), Top: 100})
			if err != nil || len(got) != tt.want {
				t.Errorf("from %v to %v: %d checks, %v, want %d", tt.from, tt.to, len(got), err, tt.want)
			}
		}
		if _, _, err := p.History(t.Context(), Page{Top: 1, Continuation: "x"}); !errors.Is(err, ErrContinuation) {
			t.Errorf("a continuation that no list returned: %v", err)
		}
	})
}

// TestWrongClock: the clock of the process that checks changes neither when it
// checks nor how old messages seem; if it is late, their age is unknown.
func TestWrongClock(t *testing.T) {
	for _, ahead := range []time.Duration{-time.Hour, 0, time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			facts := busy()
			sample := facts.Depths["work-0"]
			sample.OldestSeconds = max(0, sample.OldestSeconds+ahead.Seconds()) // as this process measures it
			facts.Depths["work-0"] = sample
			c, err := New(memory.ClockOff{Table: memory.NewTable(nil), By: -ahead}, memory.NewContainer(nil), func(context.Context) (Facts, error) { return facts, nil }, nil)
			if err != nil {
				t.Fatal(err)
			}
			for minute := range 4 {
				if ran, err := c.Run(t.Context()); !ran || err != nil {
					t.Fatalf("%v ahead: ran %t, %v", ahead, ran, err)
				}
				r, err := c.Latest(t.Context())
				if err != nil || !r.At.Equal(time.Now().Add(-ahead)) {
					t.Errorf("%v ahead, minute %d: %v, %v, want the store's time", ahead, minute, r.At, err)
				}
				if got := r.Samples[1].OldestSeconds; ahead >= 0 && (got < 95 || got > 105) || ahead < 0 && got != 0 {
					t.Errorf("%v ahead: the oldest message is %v s old", ahead, got)
				}
				time.Sleep(time.Minute)
			}
		})
	}
}
