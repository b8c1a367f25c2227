package timers

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"kennel/internal/attempt"
	"kennel/internal/control"
	"kennel/internal/memory"
	"kennel/internal/program"
	"kennel/internal/table"
)

func byAnn(reason string) control.Pause {
	return control.Pause{By: control.Person{Name: "ann"}, Reason: reason}
}

// TestPause: no slot is taken during a pause, whichever process was told of it.
// After the resume the next slot is, and with CatchUp all that were missed.
func TestPause(t *testing.T) {
	for _, tt := range []struct {
		catchUp, hosted bool
		want            string
	}{
		{false, false, "00:10:00 00:50:00 01:00:00"},
		{false, true, "00:10:00 00:50:00 01:00:00"},
		{true, false, "00:10:00 00:20:00 00:30:00 00:40:00 00:50:00 01:00:00"},
		{true, true, "00:10:00 00:20:00 00:30:00 00:40:00 00:50:00 01:00:00"},
	} {
		inTime(t, func(t *testing.T, a *account) {
			ctx, stop := context.WithTimeout(t.Context(), time.Hour)
			defer stop()
			open := func() *Timers {
				return a.open(t, nil, program.Timer{CatchUp: tt.catchUp}, &Options{Hosted: tt.hosted}, nothing)
			}
			works, changes := open(), open()
			go works.Run(ctx)
			if tt.hosted {
				go func() {
					for table.Pause(ctx, time.Until(time.Now().Truncate(10*time.Minute).Add(10*time.Minute+time.Second))) == nil {
						works.Tick(ctx, "digest")
					}
				}()
			}
			time.Sleep(10 * time.Minute) // 00:12
			first, err := changes.Pause(ctx, "digest", byAnn("broken"))
			if err != nil || first.Paused == nil || first.Paused.By.Name != "ann" || first.Paused.Reason != "broken" {
				t.Fatalf("paused: %+v, %v", first, err)
			}
			again, err := changes.Pause(ctx, "digest", byAnn("again"))
			if err != nil || *again.Paused != *first.Paused {
				t.Errorf("paused again: %+v, %v", again.Paused, err)
			}
			time.Sleep(30 * time.Minute)
			if ends := a.ends(t, "digest"); len(ends) != 1 {
				t.Errorf("during the pause: %q", ends)
			}
			for range 2 { // the second changes nothing
				if s, err := changes.Resume(ctx, "digest"); err != nil || s.Paused != nil {
					t.Errorf("resumed: %+v, %v", s, err)
				}
			}
			<-ctx.Done()
			time.Sleep(time.Minute)
			if got := strings.ReplaceAll(strings.Join(a.ends(t, "digest"), " "), " done", ""); got != tt.want {
				t.Errorf("%+v: %s", tt, got)
			}
			if _, err := changes.Pause(t.Context(), "other", byAnn("")); !errors.Is(err, ErrUnknown) {
				t.Errorf("an unknown timer: %v", err)
			}
		})
	}
}

// TestPausedRun: a person may run a paused timer, with all attempts of the run.
func TestPausedRun(t *testing.T) {
	inTime(t, func(t *testing.T, a *account) {
		timers := a.open(t, nil, program.Timer{}, nil, func(_ context.Context, one attempt.Attempt) error {
			if one.Number == 1 {
				return errBroken
			}
			return nil
		})
		ctx, stop := context.WithTimeout(t.Context(), 30*time.Minute)
		defer stop()
		go timers.Run(ctx)
		if _, err := timers.Pause(ctx, "digest", byAnn("")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if _, err := timers.Start(ctx, "digest"); err != nil {
			t.Fatal(err)
		}
		<-ctx.Done()
		time.Sleep(time.Minute)
		if ends := a.ends(t, "digest"); len(ends) != 1 || ends[0] != "00:03:00 done" {
			t.Errorf("ends %q", ends)
		}
	})
}

// TestPauseHoldsRetries: what runs goes on, and its next attempt waits for the
// resume.
func TestPauseHoldsRetries(t *testing.T) {
	inTime(t, func(t *testing.T, a *account) {
		timers := a.open(t, nil, program.Timer{CatchUp: true}, nil, func(ctx context.Context, one attempt.Attempt) error {
			if err := table.Pause(ctx, time.Minute); err != nil || one.Number == 1 {
				return errBroken
			}
			return nil
		})
		ctx, stop := context.WithTimeout(t.Context(), 26*time.Minute)
		defer stop()
		go timers.Run(ctx)
		time.Sleep(8*time.Minute + 30*time.Second)
		if _, err := timers.Pause(ctx, "digest", byAnn("")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Minute)
		s, err := timers.Get(ctx, "digest")
		if n := len(a.attempts()); err != nil || n != 1 || s.RunningSince != nil || s.Paused == nil {
			t.Errorf("during the pause: %d attempts, %+v, %v", n, s, err)
		}
		if _, err := timers.Resume(ctx, "digest"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Minute)
		if ends := a.ends(t, "digest"); len(a.attempts()) != 2 || len(ends) != 1 || ends[0] != "00:10:00 done" {
			t.Errorf("after it: %d attempts, %q", len(a.attempts()), ends)
		}
		<-ctx.Done()
		time.Sleep(2 * time.Minute)
	})
}

// TestPauseWithoutReply: each request of a pause and a resume is refused, or made
// without a reply. The answer is never wrong, and a repeated call ends well.
func TestPauseWithoutReply(t *testing.T) {
	lost := errors.New("connection reset")
	for n := int64(1); n <= 4; n++ {
		for _, applied := range []bool{false, true} {
			inTime(t, func(t *testing.T, a *account) {
				var sent, from int64
				store := flaky{Store: a.watched, pause: func() time.Duration { return 0 }, late: &sync.WaitGroup{}, fault: func() memory.Fault {
					if sent++; sent >= from && sent < from+4 { // all repeats of the request
						return memory.Fault{Err: lost, Lost: !applied}
					}
					return memory.Fault{}
				}}
				timers := a.open(t, store, program.Timer{}, nil, nothing)
				for i, change := range []func(context.Context) (State, error){
					func(ctx context.Context) (State, error) { return timers.Pause(ctx, "digest", byAnn("")) },
					func(ctx context.Context) (State, error) { return timers.Resume(ctx, "digest") },
				} {
					from = sent + n
					ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
					s, err := change(ctx)
					if err == nil && (s.Paused != nil) != (i == 0) {
						t.Errorf("change %d, request %d, made %v: %+v", i, n, applied, s)
					}
					from = 1 << 40
					if s, err = change(ctx); err != nil || (s.Paused != nil) != (i == 0) {
						t.Errorf("change %d after request %d, made %v: %+v, %v", i, n, applied, s, err)
					}
					cancel()
				}
			})
		}
	}
}

// TestIdlePauseCostsNothing: a process sends one read for a slot of a paused timer,
// and none between.
func TestIdlePauseCostsNothing(t *testing.T) {
	inTime(t, func(t *testing.T, a *account) {
		timers := a.open(t, nil, program.Timer{}, nil, nothing)
		ctx, stop := context.WithTimeout(t.Context(), 10*time.Hour)
		defer stop()
		go timers.Run(ctx)
		if _, err := timers.Pause(ctx, "digest", byAnn("")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		before := a.Calls()
		time.Sleep(9 * time.Hour)
		if sent := a.Calls() - before; sent > 54 {
			t.Errorf("%d requests for 54 slots", sent)
		}
	})
}

// pausing is a store that makes the first write by which a slot is taken, has a
// person pause the timer, and loses the reply to the write.
type pausing struct {
	table.Store
	pause func()
	once  *sync.Once
}

func (p pausing) Submit(ctx context.Context, writes ...table.Write) (versions []string, err error) {
	versions, err = p.Store.Submit(ctx, writes...)
	if writes[0].Row.Values["phase"] == string(working) {
		p.once.Do(func() {
			p.pause()
			versions, err = nil, errors.New("connection reset")
		})
	}
	return versions, err
}

// TestPausedBeforeTheReply: a process that learns only after a pause that it had
// taken a slot begins no attempt of it before the resume.
func TestPausedBeforeTheReply(t *testing.T) {
	inTime(t, func(t *testing.T, a *account) {
		changes := a.open(t, nil, program.Timer{CatchUp: true}, nil, nothing)
		store := pausing{Store: a.watched, once: &sync.Once{}, pause: func() {
			if _, err := changes.Pause(t.Context(), "digest", byAnn("")); err != nil {
				t.Error(err)
			}
		}}
		works := a.open(t, store, program.Timer{CatchUp: true}, nil, nothing)
		ctx, stop := context.WithTimeout(t.Context(), 36*time.Minute)
		defer stop()
		go works.Run(ctx)
		time.Sleep(20 * time.Minute)
		if s, err := changes.Get(ctx, "digest"); len(a.attempts()) != 0 || err != nil || s.Paused == nil || s.RunningSince != nil {
			t.Errorf("during the pause: %d attempts, %+v, %v", len(a.attempts()), s, err)
		}
		if _, err := changes.Resume(ctx, "digest"); err != nil {
			t.Fatal(err)
		}
		<-ctx.Done()
		time.Sleep(time.Minute)
		if ends := a.ends(t, "digest"); len(ends) != 3 || ends[0] != "00:10:00 done" {
			t.Errorf("ends %q", ends)
		}
	})
}
