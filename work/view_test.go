package work

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"kennel/work/internal/base"
	"kennel/work/internal/format"
	"kennel/work/internal/model"
)

// TestGet checks the state and the lateness of a batch through its life.
func TestGet(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, nil, 0)
		gate := newDoor()
		in, d := s.one(&Options{Gate: gate, Latency: 10 * time.Minute, HostShare: 0.5}, item(1, ""), item(2, "reject"))
		check := func(step string, state State, late time.Duration) {
			t.Helper()
			b, err := in.Get(t.Context(), d.ID)
			if err != nil || b.State != state || b.LateBy != late.Seconds() || (b.FinishedAt != nil) != (state == Done) || !b.Modelled {
				t.Errorf("%s: batch %+v, %v, want it %s and %v late", step, b, err, state, late)
			}
		}
		time.Sleep(time.Hour)
		check("the gate is closed", Held, 0)
		gate.open()
		time.Sleep(10 * time.Minute)
		check("the gate opened", Running, 0)
		time.Sleep(2 * time.Minute)
		check("it is late", Running, 2*time.Minute)
		if _, err := in.Report(t.Context(), d.ID, false); !errors.Is(err, ErrRunning) {
			t.Errorf("report: %v, want %v", err, ErrRunning)
		}
		in.handle(t.Context(), ExpressQueue, in.receive(t, ExpressQueue), 1)
		time.Sleep(time.Hour)
		check("it is done", Done, 2*time.Minute)
		s.check(d, []string{item(1, ""), item(2, "reject")})
		for _, id := range []string{"", "x", model.NewID(time.Now())} {
			if _, err := in.Get(t.Context(), id); !errors.Is(err, ErrNotFound) {
				t.Errorf("get %q: %v, want %v", id, err, ErrNotFound)
			}
		}
	})
}

// TestReportFails checks that a batch whose report cannot be made fails, with its
// results kept.
func TestReportFails(t *testing.T) {
	t.Parallel()
	t.Run("Add panics", func(t *testing.T) { reportFails(t, func(s *scripted) Processor { return brokenReports{s} }) })
	t.Run("NewReport panics", func(t *testing.T) { reportFails(t, func(s *scripted) Processor { return noReports{s} }) })
}

func reportFails(t *testing.T, broken func(*scripted) Processor) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, nil, 0)
		in, d := s.one(nil, item(1, ""))
		in.base.Processors["scripted"] = broken(s.processor)
		in.handle(t.Context(), ExpressQueue, in.receive(t, ExpressQueue), 1)
		b, err := in.Get(t.Context(), d.ID)
		if err != nil || b.State != Failed || b.Error == "" || b.FinishedAt == nil {
			t.Errorf("batch %+v, %v, want it failed", b, err)
		}
		if _, err := in.Report(t.Context(), d.ID, true); !errors.Is(err, ErrFailed) {
			t.Errorf("report: %v, want %v", err, ErrFailed)
		}
		if list, err := in.Results(t.Context(), d.ID, Page{Top: 10}); err != nil || len(list.Items) != 1 {
			t.Errorf("results %+v, %v, want one", list, err)
		}
		if len(s.staging.Names()) != 0 || s.rows.Rows(format.ActiveIn) != 0 {
			t.Error("the failed batch was not cleaned up")
		}
	})
}

type brokenReports struct{ *scripted }

func (brokenReports) NewReport(string) Report { return new(brokenReport) }

type noReports struct{ *scripted }

func (noReports) NewReport(string) Report { panic("broken") }

type brokenReport struct{ scriptedReport }

func (*brokenReport) Add(Result) error { panic("broken") }

// TestOptions checks that wrong options are rejected.
func TestOptions(t *testing.T) {
	t.Parallel()
	if _, err := (*Options)(nil).WithDefaults(); err != nil {
		t.Error(err)
	}
	for _, o := range []Options{
		{Partitions: -1}, {Partitions: base.MaxPartitions + 1}, {MaxBytes: -1}, {MaxBytes: format.MaxBytes + 1}, {MaxItems: format.MaxItems + 1},
		{Latency: -1}, {Retention: 7 * 24 * time.Hour}, {Parallel: -1}, {ItemTime: -1}, {HoldTime: -1}, {HostShare: -1},
	} {
		if _, err := o.WithDefaults(); err == nil {
			t.Errorf("options %+v were accepted", o)
		}
	}
	if _, err := New(Stores{}, nil, nil); err == nil {
		t.Error("nil stores were accepted")
	}
}
