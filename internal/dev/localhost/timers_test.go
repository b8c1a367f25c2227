package localhost

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"kennel/internal/customhandler"
)

// firing is one run of a timer, with the times since the begin of the test (2000-01-01 00:00 UTC).
type firing struct {
	At      time.Duration
	PastDue bool
	Last    time.Duration // -1: never
	Next    time.Duration
}

// timerTest runs a timer in a bubble.
type timerTest struct {
	listener *timerListener
	begin    time.Time
	fired    []firing
	run      func() error // what the function does; may be nil
}

func newTimerTest(t *testing.T, plan string, store TimerStore) *timerTest {
	t.Helper()
	s, err := parseSchedule(plan)
	if err != nil {
		t.Fatal(err)
	}
	test := &timerTest{begin: time.Now()}
	test.listener = &timerListener{name: "Tick", schedule: s, statuses: store, log: slog.New(slog.DiscardHandler),
		invoke: func(_ context.Context, tick customhandler.Tick) error {
			f := firing{At: time.Since(test.begin), PastDue: tick.PastDue, Last: -1, Next: -1}
			if tick.Schedule != nil {
				if !tick.Schedule.Last.IsZero() {
					f.Last = tick.Schedule.Last.Sub(test.begin)
				}
				f.Next = tick.Schedule.Next.Sub(test.begin)
			}
			test.fired = append(test.fired, f)
			if test.run != nil {
				return test.run()
			}
			return nil
		}}
	return test
}

// during runs the timer for a while.
func (test *timerTest) during(d time.Duration) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		test.listener.run(ctx, context.WithoutCancel(ctx))
	}()
	time.Sleep(d)
	cancel()
	<-done
}

func TestTimerFires(t *testing.T) {
	m, s := time.Minute, time.Second
	for _, tt := range []struct {
		schedule string
		store    TimerStore
		during   time.Duration
		want     []firing
	}{
		{"0 */5 * * * *", &memoryTimers{}, 12 * m, []firing{{At: 5 * m, Last: -1, Next: 5 * m}, {At: 10 * m, Last: 5 * m, Next: 10 * m}}},
		{"00:00:20", nil, 59 * s, []firing{{At: 20 * s, Last: -1, Next: -1}, {At: 40 * s, Last: -1, Next: -1}}},
	} {
		synctest.Test(t, func(t *testing.T) {
			timer := newTimerTest(t, tt.schedule, tt.store)
			timer.during(tt.during)
			if diff := cmp.Diff(timer.fired, tt.want); diff != "" {
				t.Errorf("%s: runs (got -, want +):\n%s", tt.schedule, diff)
			}
		})
	}
}

// However many runs were missed while the host was down, one catches up.
func TestTimerCatchesUpOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := fileTimers{dir: filepath.Join(t.TempDir(), "status")}
		newTimerTest(t, "0 0 * * * *", store).during(90 * time.Minute)
		time.Sleep(5*time.Hour + 10*time.Minute) // now 06:40

		test := newTimerTest(t, "0 0 * * * *", store)
		test.during(30 * time.Minute)
		m := time.Minute
		want := []firing{
			{At: 0, PastDue: true, Last: -340 * m, Next: -280 * m}, // 01:00 and 02:00
			{At: 20 * m, Last: 0, Next: 20 * m},
		}
		if diff := cmp.Diff(test.fired, want); diff != "" {
			t.Errorf("runs after the break (got -, want +):\n%s", diff)
		}
	})
}

func TestTimerAfterBreak(t *testing.T) {
	tests := []struct {
		name         string
		first, then  string // the schedules before and after the break
		pause        time.Duration
		runOnStartup bool
		unmonitored  bool
		want         []firing
	}{
		{name: "missed before it ever ran", first: "0 0 * * * *", then: "0 0 * * * *", pause: 2 * time.Hour,
			want: []firing{{At: 0, PastDue: true, Last: -1, Next: -70 * time.Minute}}},
		{name: "nothing missed", first: "0 0 * * * *", then: "0 0 * * * *", pause: 5 * time.Minute},
		{name: "the schedule has changed", first: "0 0 * * * *", then: "0 30 12 * * *", pause: 5 * time.Hour},
		{name: "not monitored", first: "0 0 * * * *", then: "0 0 * * * *", pause: 5 * time.Hour, unmonitored: true},
		{name: "run on start-up is not past due", first: "0 0 * * * *", then: "0 0 * * * *", pause: 5 * time.Minute, runOnStartup: true,
			want: []firing{{At: 0, Last: -1, Next: 45 * time.Minute}}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := &memoryTimers{}
				newTimerTest(t, test.first, store).during(10 * time.Minute)
				time.Sleep(test.pause)
				second := newTimerTest(t, test.then, store)
				second.listener.runOnStartup = test.runOnStartup
				if test.unmonitored {
					second.listener.statuses = nil
				}
				second.during(time.Minute)
				if diff := cmp.Diff(second.fired, test.want); diff != "" {
					t.Errorf("runs (got -, want +):\n%s", diff)
				}
			})
		})
	}
}

// Runs of one timer never overlap. Of the occurrences that fall into a long run, one follows at once and the
// rest are skipped.
func TestTimerLongRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		test := newTimerTest(t, "0 */5 * * * *", &memoryTimers{})
		active := 0
		test.run = func() error {
			active++
			if active > 1 {
				t.Error("two runs at a time")
			}
			if len(test.fired) == 1 {
				time.Sleep(17 * time.Minute) // over 10, 15 and 20
			}
			active--
			return nil
		}
		test.during(31 * time.Minute)
		var at []time.Duration
		for _, f := range test.fired {
			at = append(at, f.At)
			if f.PastDue {
				t.Errorf("run at %v is past due", f.At)
			}
		}
		m := time.Minute
		if diff := cmp.Diff(at, []time.Duration{5 * m, 22 * m, 25 * m, 30 * m}); diff != "" {
			t.Errorf("runs (got -, want +):\n%s", diff)
		}
	})
}

func TestTimerFailureIsNotRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &memoryTimers{}
		test := newTimerTest(t, "0 0 * * * *", store)
		test.run = func() error { return errors.New("no luck") }
		test.during(65 * time.Minute)
		again := newTimerTest(t, "0 0 * * * *", store)
		again.during(time.Minute)
		if len(test.fired) != 1 || len(again.fired) != 0 {
			t.Errorf("got %d runs and %d after a restart, want 1 and 0", len(test.fired), len(again.fired))
		}
	})
}

// A stop waits for the run, and what the run did is remembered.
func TestTimerStopWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &memoryTimers{}
		test := newTimerTest(t, "0 0 * * * *", store)
		test.run = func() error { time.Sleep(5 * time.Second); return nil }
		test.during(time.Hour + time.Second)
		if took := time.Since(test.begin); took != time.Hour+5*time.Second {
			t.Errorf("stopped after %v, want 1h0m5s", took)
		}
		if status, _ := store.Load(t.Context(), "Tick"); !status.Next.Equal(test.begin.Add(2 * time.Hour)) {
			t.Errorf("stored next: got %v, want 02:00", status.Next)
		}
	})
}

func TestFileTimers(t *testing.T) {
	store := fileTimers{dir: filepath.Join(t.TempDir(), "a", "b")}
	got, err := store.Load(t.Context(), "Tick")
	if err != nil || got != (TimerStatus{}) {
		t.Errorf("load of an unknown timer: got %+v, %v; want nothing", got, err)
	}
	want := TimerStatus{Last: instant(t, "2026-01-02T03:04:05.123456789Z"), Next: instant(t, "2026-01-02T04:00:00Z"), LastUpdated: instant(t, "2026-01-02T03:04:06Z")}
	for range 2 {
		if err := store.Save(t.Context(), "Tick", want); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := store.Load(t.Context(), "Tick"); err != nil || got != want {
		t.Errorf("load: got %+v, %v; want %+v", got, err, want)
	}
	if entries, err := os.ReadDir(store.dir); err != nil || len(entries) != 1 {
		t.Errorf("files left: got %v, %v; want one", entries, err)
	}
	if err := os.WriteFile(store.path("Tick"), []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	if got, err := store.Load(t.Context(), "Tick"); err == nil {
		t.Errorf("load of half a file: got %+v, want an error", got)
	}
}
