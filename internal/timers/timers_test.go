package timers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"kennel/internal/attempt"
	"kennel/internal/memory"
	"kennel/internal/program"
	"kennel/internal/storetest"
	"kennel/internal/table"
)

// account is the storage of a test, and the attempts in it.
type account struct {
	*watched
	mu    sync.Mutex
	calls []attempt.Attempt // guarded by mu
}

func (a *account) attempts() []attempt.Attempt {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.calls
}

// ends returns the recorded ends of a timer, as "06:00:00 done".
func (a *account) ends(t *testing.T, name string) (all []string) {
	a.watched.mu.Lock()
	defer a.watched.mu.Unlock()
	for _, r := range a.all[name] {
		at, err := time.Parse(time.RFC3339Nano, r.slot)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, at.Format("15:04:05 ")+r.outcome)
	}
	return all
}

// open returns a process with one timer, whose attempts return what work does.
func (a *account) open(t *testing.T, store table.Store, declared program.Timer, options *Options, work func(context.Context, attempt.Attempt) error) *Timers {
	t.Helper()
	declared.Name = "digest"
	if declared.Schedule == "" {
		declared.Schedule = "@every 10m"
	}
	if declared.Timeout == 0 {
		declared.Timeout = program.Timeout
	}
	if declared.MaxAttempts == 0 {
		declared.MaxAttempts = program.TimerAttempts
	}
	declared.Work = func(ctx context.Context) error {
		one, _ := attempt.Current(ctx)
		a.mu.Lock()
		a.calls = append(a.calls, one)
		a.mu.Unlock()
		return work(ctx, one)
	}
	if store == nil {
		store = a.watched
	}
	rows, err := table.New(store)
	if err != nil {
		t.Fatal(err)
	}
	timers, err := New(&program.Declared{Name: "shop", Timers: []*program.Timer{&declared}}, rows, options)
	if err != nil {
		t.Fatal(err)
	}
	return timers
}

// during runs a process for a time.
func during(d time.Duration, timers ...*Timers) {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	var all sync.WaitGroup
	for _, t := range timers {
		all.Go(func() { t.Run(ctx) })
	}
	all.Wait()
}

func nothing(context.Context, attempt.Attempt) error { return nil }

func inTime(t *testing.T, f func(t *testing.T, a *account)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(2 * time.Minute) // after a slot
		f(t, &account{watched: newWatched(func(problem string) { t.Error(problem) })})
	})
}

// TestTimerOutcomes: what becomes of a slot after each answer of its attempts.
func TestTimerOutcomes(t *testing.T) {
	broken := errors.New("no route to host")
	for _, tt := range []struct {
		name    string
		work    func(ctx context.Context, a attempt.Attempt) error
		numbers string // of the attempts of the first slot
		want    string
		problem string
	}{
		{"nil", nothing, "1", "done", ""},
		{"two failures", func(_ context.Context, a attempt.Attempt) error {
			if a.Number <= 2 {
				return broken
			}
			return nil
		}, "1 2 3", "done", ""},
		{"failures", func(context.Context, attempt.Attempt) error { return broken }, "1 2 3 4 5", "failed", "no route"},
		{"panics", func(context.Context, attempt.Attempt) error { panic("oh\nno") }, "1 2 3 4 5", "failed", "panic: oh"},
		{"goexit", func(context.Context, attempt.Attempt) error { runtime.Goexit(); return nil }, "1 2 3 4 5", "failed", "the function ended its goroutine"},
		{"reject", func(context.Context, attempt.Attempt) error { return attempt.Reject(broken) }, "1", "failed", "no route"},
		{"reject nil", func(context.Context, attempt.Attempt) error { return attempt.Reject(nil) }, "1", "failed", "rejected"},
		{"retry after the next slot", func(context.Context, attempt.Attempt) error { return attempt.RetryAfter(10*time.Minute, broken) }, "1", "failed", "no route"},
		{"retry after a minute", func(_ context.Context, a attempt.Attempt) error {
			if a.Number == 1 {
				return attempt.RetryAfter(time.Minute, broken)
			}
			return nil
		}, "1 2", "done", ""},
		{"snooze", func(context.Context, attempt.Attempt) error { return attempt.Snooze(4 * time.Minute) }, "1 1 1", "failed", "snoozed"},
	} {
		for _, hosted := range []bool{false, true} {
			inTime(t, func(t *testing.T, a *account) {
				timers := a.open(t, nil, program.Timer{Retry: func(int, error) time.Duration { return time.Second }}, &Options{Hosted: hosted}, tt.work)
				ctx, stop := context.WithTimeout(t.Context(), 18*time.Minute-time.Second)
				defer stop()
				go timers.Run(ctx)
				if hosted {
					timers.Tick(ctx, "digest") // the first start
				}
				time.Sleep(8*time.Minute + time.Second)
				if hosted {
					timers.Tick(ctx, "digest")
				}
				<-ctx.Done()
				time.Sleep(20 * time.Second)
				first, numbers := a.attempts()[0].Slot, ""
				for _, one := range a.attempts() {
					if one.Slot.Equal(first) {
						numbers += fmt.Sprint(" ", one.Number)
					}
				}
				if numbers[1:] != tt.numbers {
					t.Errorf("%s, hosted %v: attempts%s, want %s", tt.name, hosted, numbers, tt.numbers)
				}
				if ends := a.ends(t, "digest"); len(ends) == 0 || !strings.HasSuffix(ends[0], tt.want) {
					t.Errorf("%s, hosted %v: %q", tt.name, hosted, ends)
				}
				state, err := timers.Get(t.Context(), "digest")
				problems := timers.Problems()
				if tt.name == "panics" && (!strings.HasSuffix(problems[0].What, "Z: panic: oh no.") || !strings.Contains(*state.Last.Error, "\ngoroutine ")) {
					t.Errorf("problems %q, want only the value of the panic; state %q, want its stack", problems[0].What, *state.Last.Error)
				}
				if err != nil || (len(problems) == 1) != (tt.problem != "") || tt.problem != "" && (!strings.Contains(problems[0].What, tt.problem) || !strings.Contains(*state.Last.Error, tt.problem)) {
					t.Errorf("%s, hosted %v: problems %+v, state %+v, %v", tt.name, hosted, problems, state, err)
				}
			})
		}
	}
}

// TestRetryPanics: a Retry that panics is logged, and the next attempt follows
// after the default wait.
func TestRetryPanics(t *testing.T) {
	inTime(t, func(t *testing.T, a *account) {
		var text strings.Builder
		var at []time.Time
		timers := a.open(t, nil, program.Timer{Retry: func(int, error) time.Duration { panic("oh") }}, &Options{Log: slog.New(slog.NewTextHandler(&text, nil))}, func(_ context.Context, one attempt.Attempt) error {
			at = append(at, time.Now())
			if one.Number == 1 {
				return errors.New("no route to host")
			}
			return nil
		})
		during(10*time.Minute, timers)
		if len(at) != 2 || at[1].Sub(at[0]) < time.Second || at[1].Sub(at[0]) > 2*time.Second {
			t.Errorf("attempts at %v", at)
		}
		if !strings.Contains(text.String(), "panic: oh") || !strings.Contains(text.String(), "attempt.timer=digest") {
			t.Errorf("the log is %s", &text)
		}
	})
}

// TestWhichSlots: a first start does no slot of the past. After a pause, the
// newest slot is done late, or with CatchUp each of them.
func TestWhichSlots(t *testing.T) {
	for _, catchUp := range []bool{false, true} {
		inTime(t, func(t *testing.T, a *account) {
			time.Sleep(6*time.Hour + 3*time.Minute)
			open := func(schedule string) *Timers {
				return a.open(t, nil, program.Timer{Schedule: schedule, CatchUp: catchUp}, nil, nothing)
			}
			during(20*time.Minute, open("@every 10m")) // until 06:25
			time.Sleep(42 * time.Minute)
			during(time.Minute, open("@every 10m")) // 07:07
			time.Sleep(time.Hour)
			during(25*time.Minute, open("*/15 * * * *")) // 08:08, with another schedule
			want := "06:10:00 06:20:00 06:30:00 06:40:00 06:50:00 07:00:00 08:15:00 08:30:00"
			if !catchUp {
				want = "06:10:00 06:20:00 07:00:00 08:15:00 08:30:00"
			}
			if got := strings.ReplaceAll(strings.Join(a.ends(t, "digest"), " "), " done", ""); got != want {
				t.Errorf("catch up %v: %s, want %s", catchUp, got, want)
			}
		})
	}
}

// TestFirstSlots: a new timer begins with the first slot after a process has seen
// it, also one that catches up and one that a person runs. A process that the
// host starts for a slot does this slot and none before it.
func TestFirstSlots(t *testing.T) {
	for _, tt := range []struct {
		name, schedule string
		starts         time.Duration // after 00:10
		hosted, run    bool
		want           string
	}{
		{"a worker", "@every 10m", 20 * time.Second, false, false, "00:20:00"},
		{"a worker, many slots", "@every 15s", 20 * time.Second, false, false, "00:10:30 00:10:45"},
		{"a host", "@every 10m", 20 * time.Second, true, false, "00:20:00"},
		{"a host, many slots", "@every 15s", 20 * time.Second, true, false, "00:10:30 00:10:45"},
		{"a host that starts for the slot", "@every 10m", 5 * time.Second, true, false, "00:10:00 00:20:00"},
		{"a host that starts for the slot, many slots", "@every 15s", 5 * time.Second, true, false, "00:10:00 00:10:15"},
		{"a run", "@every 10m", 20 * time.Second, true, true, "00:10:20 00:20:00"},
	} {
		inTime(t, func(t *testing.T, a *account) {
			time.Sleep(8*time.Minute + tt.starts)
			timers := a.open(t, nil, program.Timer{Schedule: tt.schedule, CatchUp: true}, &Options{Hosted: tt.hosted}, nothing)
			ctx, stop := context.WithTimeout(t.Context(), 11*time.Minute)
			defer stop()
			go timers.Run(ctx)
			time.Sleep(time.Millisecond)
			if tt.run {
				if _, err := timers.Start(ctx, "digest"); err != nil {
					t.Error(err)
				}
			}
			slots := timers.all[0].claim.slots
			if tt.hosted && tt.starts < 15*time.Second {
				timers.Tick(ctx, "digest") // it was started for it
			}
			for tt.hosted && ctx.Err() == nil {
				if table.Pause(ctx, time.Until(slots.Next(time.Now()).Add(time.Second))) == nil {
					timers.Tick(ctx, "digest")
				}
			}
			<-ctx.Done()
			time.Sleep(20 * time.Second)
			ends := a.ends(t, "digest")
			ends = ends[:min(len(strings.Fields(tt.want)), len(ends))]
			if got := strings.ReplaceAll(strings.Join(ends, " "), " done", ""); got != tt.want {
				t.Errorf("%s: the first ends are %s, want %s", tt.name, got, tt.want)
			}
		})
	}
}

// TestStop: an attempt may end within the drain; then it is put back, which is
// no attempt, and another process makes it at once.
func TestStop(t *testing.T) {
	for _, tt := range []struct {
		takes   time.Duration
		numbers string
	}{{3 * time.Second, " 1"}, {30 * time.Second, " 1 1"}} {
		inTime(t, func(t *testing.T, a *account) {
			work := func(ctx context.Context, one attempt.Attempt) error {
				takes := tt.takes
				if len(a.attempts()) > 1 {
					takes = 0
				}
				if err := table.Pause(ctx, takes); err != nil {
					if cause := context.Cause(ctx); !errors.Is(cause, attempt.ErrStopping) {
						t.Errorf("the cause is %v", cause)
					}
					return err
				}
				return nil
			}
			open := func() *Timers { return a.open(t, nil, program.Timer{}, &Options{Drain: 5 * time.Second}, work) }
			during(8*time.Minute+time.Second, open())
			during(30*time.Second, open())
			numbers := ""
			for _, one := range a.attempts() {
				numbers += fmt.Sprint(" ", one.Number)
			}
			if ends := a.ends(t, "digest"); numbers != tt.numbers || len(ends) != 1 || ends[0] != "00:10:00 done" {
				t.Errorf("an attempt of %v: attempts%s, ends %q", tt.takes, numbers, ends)
			}
		})
	}
}

// TestKilled: another process takes the slot of one that was killed after it has
// itself waited for a lease, and that counts as an attempt. A slot whose attempts
// all end so has failed.
func TestKilled(t *testing.T) {
	inTime(t, func(t *testing.T, a *account) {
		ctx, stop := context.WithTimeout(t.Context(), 23*time.Minute)
		defer stop()
		var all sync.WaitGroup
		for range 4 { // one more than attempts
			p := storetest.NewProcess(nil)
			timers := a.open(t, p.Table(a.watched), program.Timer{MaxAttempts: 3}, nil, func(ctx context.Context, one attempt.Attempt) error {
				if one.Slot.Minute() == 10 {
					p.Die()
					<-p.Context().Done()
					return errors.New("killed")
				}
				return nil
			})
			life, end := context.WithCancel(ctx)
			context.AfterFunc(p.Context(), end)
			all.Go(func() { timers.Run(life) })
		}
		time.Sleep(14 * time.Minute)
		if ends := a.ends(t, "digest"); len(ends) != 1 || ends[0] != "00:10:00 failed" || len(a.attempts()) != 3 || a.attempts()[2].Number != 3 {
			t.Errorf("attempts %+v, ends %q", a.attempts(), ends)
		}
		all.Wait()
		if ends := a.ends(t, "digest"); len(ends) != 2 || ends[1] != "00:20:00 done" {
			t.Errorf("ends %q", ends)
		}
	})
}

// TestLostReply: each request is refused, or made without a reply. Then each
// slot is recorded as done once, after one attempt.
func TestLostReply(t *testing.T) {
	lost := errors.New("connection reset")
	for n := int64(1); n <= 12; n++ {
		for _, applied := range []bool{false, true} {
			inTime(t, func(t *testing.T, a *account) {
				var sent int64
				store := flaky{Store: a.watched, pause: func() time.Duration { return 0 }, late: &sync.WaitGroup{}, fault: func() memory.Fault {
					if sent++; sent >= n && sent < n+4 { // all repeats of the request
						return memory.Fault{Err: lost, Lost: !applied}
					}
					return memory.Fault{}
				}}
				during(25*time.Minute, a.open(t, store, program.Timer{}, nil, nothing))
				if ends := strings.Join(a.ends(t, "digest"), ", "); ends != "00:10:00 done, 00:20:00 done" || len(a.attempts()) != 2 {
					t.Errorf("without the replies to request %d (made: %v): %s after %d attempts", n, applied, ends, len(a.attempts()))
				}
			})
		}
	}
}

// TestStart: a run that is requested is one slot more, and is refused while a
// slot runs.
func TestStart(t *testing.T) {
	for _, hosted := range []bool{false, true} {
		inTime(t, func(t *testing.T, a *account) {
			timers := a.open(t, nil, program.Timer{}, &Options{Hosted: hosted}, func(ctx context.Context, _ attempt.Attempt) error { return table.Pause(ctx, 30*time.Second) })
			ctx, stop := context.WithTimeout(t.Context(), 15*time.Minute)
			defer stop()
			go timers.Run(ctx)
			time.Sleep(time.Minute)
			if _, err := timers.Start(ctx, "digest"); err != nil {
				t.Fatal(err)
			}
			time.Sleep(10 * time.Second)
			state, err := timers.Get(ctx, "digest")
			if _, again := timers.Start(ctx, "digest"); !errors.Is(again, ErrRunning) || err != nil || state.RunningSince == nil || state.LastOKAt != nil || state.NextAt.Minute() != 10 {
				t.Errorf("while it runs: %v; %+v, %v", again, state, err)
			}
			time.Sleep(10 * time.Minute)
			if hosted {
				timers.Tick(ctx, "digest")
			}
			<-ctx.Done()
			time.Sleep(20 * time.Second)
			all, err := timers.List(t.Context())
			if ends := a.ends(t, "digest"); err != nil || len(all) != 1 || all[0].Last.Outcome != outcomeDone || all[0].RunningSince != nil || len(ends) != 2 || ends[0] != "00:03:00 done" || ends[1] != "00:10:00 done" {
				t.Errorf("hosted %v: ends %q; %+v, %v", hosted, ends, all, err)
			}
			if _, err := timers.Start(t.Context(), "other"); !errors.Is(err, ErrUnknown) {
				t.Errorf("an unknown timer: %v", err)
			}
		})
	}
}

// TestList: timers are listed by name, in whatever order they are declared.
func TestList(t *testing.T) {
	inTime(t, func(t *testing.T, a *account) {
		rows, err := table.New(a.watched)
		if err != nil {
			t.Fatal(err)
		}
		declared := &program.Declared{Name: "shop"}
		for _, name := range []string{"report", "digest", "sweep", "archive"} {
			declared.Timers = append(declared.Timers, &program.Timer{Name: name, Schedule: "@every 10m", Zone: "UTC", Timeout: program.Timeout, MaxAttempts: program.TimerAttempts, Work: func(context.Context) error { return nil }})
		}
		timers, err := New(declared, rows, nil)
		if err != nil {
			t.Fatal(err)
		}
		all, err := timers.List(t.Context())
		var listed []string
		for _, one := range all {
			listed = append(listed, one.Timer)
		}
		if want := []string{"archive", "digest", "report", "sweep"}; err != nil || !slices.Equal(listed, want) {
			t.Errorf("listed %q, %v, want %q", listed, err, want)
		}
	})
}

// TestRequests counts the requests for a slot: of the process that does it, and
// of the others.
func TestRequests(t *testing.T) {
	const slots = 60
	measure := func(processes int, hosted bool, takes time.Duration) (perSlot float64) {
		inTime(t, func(t *testing.T, a *account) {
			var all []*Timers
			for range processes {
				all = append(all, a.open(t, nil, program.Timer{}, &Options{Hosted: hosted}, func(ctx context.Context, _ attempt.Attempt) error { return table.Pause(ctx, takes) }))
			}
			ctx, stop := context.WithTimeout(t.Context(), (slots*10+15)*time.Minute)
			defer stop()
			for _, one := range all {
				go one.Run(ctx)
			}
			time.Sleep(15 * time.Minute)
			before := a.Calls()
			for range slots {
				time.Sleep(5 * time.Minute)
				if hosted {
					all[0].Tick(ctx, "digest")
				}
				time.Sleep(time.Until(time.Now().Truncate(5 * time.Minute).Add(5 * time.Minute)))
			}
			perSlot = float64(a.Calls()-before) / slots
			<-ctx.Done()
			time.Sleep(20 * time.Second)
		})
		return perSlot
	}
	one, three, long, host := measure(1, false, time.Second), measure(3, false, time.Second), measure(1, false, 4*time.Minute), measure(3, true, time.Second)
	if one > 2 || (three-one)/2 > 2 || long > 14 || host > 3.1 {
		t.Errorf("requests for a slot: %v of one process, %v of three, %v of 4 minutes, %v behind a host", one, three, long, host)
	}
	t.Logf("figure: requests to storage for a slot of a timer, in one process | %.1f | ≤ 6", one)
	t.Logf("figure: … by each process that does not do it | %.1f | ≤ 2", (three-one)/2)
	t.Logf("figure: … behind a Functions host, by all instances | %.1f | ≤ 6", host)
	t.Logf("figure: … whose attempt lasts for 4 minutes | %.1f | ≤ 14", long)
}
