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

// firing is one run of a timer, with times relative to the start of the test
// (2000-01-01 00:00 UTC).
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
	s := must(parseSchedule(plan))
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
func (test *timerTest) during(d time.Duration) { listenFor(test.listener.run, d) }

const hourly, m = "0 0 * * * *", time.Minute

func (test *timerTest) expect(t *testing.T, what string, want ...firing) {
	t.Helper()
	if diff := cmp.Diff(test.fired, want); diff != "" {
		t.Errorf("%s: runs (got -, want +):\n%s", what, diff)
	}
}

// TestFirstRunHasNoLastUpdated: the first run of a timer gets no LastUpdated,
// although the store does.
func TestFirstRunHasNoLastUpdated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &memoryTimers{}
		timer := newTimerTest(t, hourly, store)
		var got []bool
		timer.listener.invoke = func(_ context.Context, tick customhandler.Tick) error {
			got = append(got, tick.Schedule.LastUpdated.IsZero())
			return nil
		}
		stop := listen(timer.listener.run)
		time.Sleep(m)
		if status, _ := store.Load(t.Context(), "Tick"); status.LastUpdated.IsZero() {
			t.Error("no LastUpdated is stored")
		}
		time.Sleep(149 * m)
		stop()
		same(t, "LastUpdated is zero", got, []bool{true, false})
	})
}

func TestTimerInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		timer := newTimerTest(t, "00:00:20", nil)
		timer.during(59 * time.Second)
		timer.expect(t, "interval", firing{At: m / 3, Last: -1, Next: -1}, firing{At: 2 * m / 3, Last: -1, Next: -1})
	})
}

func TestTimerAfterBreak(t *testing.T) {
	for _, tt := range []struct {
		name          string
		then          string        // the schedule after the break, hourly before
		before, pause time.Duration // of the first run, and between the runs
		runOnStartup  bool
		unmonitored   bool
		want          []firing
	}{
		{"one run catches up on many missed runs", hourly, 90 * m, 310 * m, false, false, []firing{
			{At: 0, PastDue: true, Last: -340 * m, Next: -280 * m}, // 01:00 and 02:00; now it is 06:40
			{At: 20 * m, Last: 0, Next: 20 * m}}},
		{"missed before it ever ran", hourly, 10 * m, 120 * m, false, false, []firing{{At: 0, PastDue: true, Last: -1, Next: -70 * m}}},
		{"nothing missed", hourly, 10 * m, 5 * m, false, false, nil},
		{"the schedule has changed", "0 30 12 * * *", 10 * m, 300 * m, false, false, nil},
		{"not monitored", hourly, 10 * m, 300 * m, false, true, nil},
		{"run on start-up is not past due", hourly, 10 * m, 5 * m, true, false, []firing{{At: 0, Last: -1, Next: 45 * m}}},
	} {
		synctest.Test(t, func(t *testing.T) {
			store := fileTimers{dir: filepath.Join(t.TempDir(), "status")}
			newTimerTest(t, hourly, store).during(tt.before)
			time.Sleep(tt.pause)
			second := newTimerTest(t, tt.then, store)
			second.listener.runOnStartup = tt.runOnStartup
			if tt.unmonitored {
				second.listener.statuses = nil
			}
			second.during(30 * m)
			second.expect(t, tt.name, tt.want...)
		})
	}
}

// TestTimerLongRun checks that runs of one timer never overlap. Of the
// occurrences during a long run, one follows at once and the others are
// skipped.
func TestTimerLongRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		timer := newTimerTest(t, "0 */5 * * * *", &memoryTimers{})
		active := 0
		timer.run = func() error {
			if active++; active > 1 {
				t.Error("two runs at a time")
			}
			if len(timer.fired) == 1 {
				time.Sleep(17 * m) // over 10, 15 and 20
			}
			active--
			return nil
		}
		timer.during(31 * m)
		timer.expect(t, "long run", firing{At: 5 * m, Last: -1, Next: 5 * m}, firing{At: 22 * m, Last: 5 * m, Next: 10 * m},
			firing{At: 25 * m, Last: 22 * m, Next: 25 * m}, firing{At: 30 * m, Last: 25 * m, Next: 30 * m})
	})
}

// TestTimerStopWaits checks that a stop waits for the run and saves its status,
// and that a failed run is not repeated.
func TestTimerStopWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &memoryTimers{}
		timer := newTimerTest(t, hourly, store)
		timer.run = func() error { time.Sleep(5 * time.Second); return errors.New("no luck") }
		timer.during(time.Hour + time.Second)
		if took := time.Since(timer.begin); took != time.Hour+5*time.Second {
			t.Errorf("stopped after %v, want 1h0m5s", took)
		}
		if status, _ := store.Load(t.Context(), "Tick"); !status.Next.Equal(timer.begin.Add(2 * time.Hour)) {
			t.Errorf("stored next: got %v, want 02:00", status.Next)
		}
		again := newTimerTest(t, hourly, store)
		again.during(m)
		again.expect(t, "after a failure")
	})
}

func TestFileTimers(t *testing.T) {
	store := fileTimers{dir: filepath.Join(t.TempDir(), "a", "b")}
	got, err := store.Load(t.Context(), "Tick")
	if err != nil || got != (TimerStatus{}) {
		t.Errorf("load of an unknown timer: got %+v, %v; want nothing", got, err)
	}
	want := TimerStatus{Last: instant("2026-01-02T03:04:05.123456789Z"), Next: instant("2026-01-02T04:00:00Z"), LastUpdated: instant("2026-01-02T03:04:06Z")}
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
