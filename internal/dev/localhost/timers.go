package localhost

import (
	"context"
	"log/slog"
	"time"

	"kennel/internal/customhandler"
)

// A timerListener runs one function on its schedule, by the rules of the host's
// timer trigger: runs never overlap, a failed run is not repeated, and one run
// catches up on those missed while the host was down.
type timerListener struct {
	name         string
	schedule     schedule
	statuses     TimerStore // nil: the schedule is not monitored
	runOnStartup bool
	log          *slog.Logger
	invoke       func(context.Context, customhandler.Tick) error
}

// recheck is how often a waiting timer reads the clock, to detect that the
// machine was suspended.
const recheck = time.Minute

// run fires the timer until ctx ends. Its function runs under work.
func (l *timerListener) run(ctx, work context.Context) {
	status, pastDue := l.begin(work)
	startUp := pastDue || l.runOnStartup
	for {
		if !startUp && !waitUntil(ctx, status.Next) || ctx.Err() != nil {
			return
		}
		startUp = false

		tick := customhandler.Tick{PastDue: pastDue, AdjustForDST: l.schedule.every == 0}
		if l.statuses != nil {
			tick.Schedule = &customhandler.ScheduleStatus{Last: status.Last, Next: status.Next, LastUpdated: status.LastUpdated}
		}
		pastDue = false
		now := wallClock()
		// The result was logged by invoke. A failed run is not repeated.
		_ = l.invoke(work, tick)

		// The next occurrence is computed from the start of this run, as in the
		// real listener. So after a run that spans several occurrences, one run
		// follows at once, not past due, and the others are skipped.
		status = TimerStatus{Last: now, LastUpdated: now}
		status.Next, _ = l.schedule.next(now)
		l.save(work, status)
	}
}

// begin reads the status of the timer and reports whether an occurrence was
// missed while the host was down.
func (l *timerListener) begin(ctx context.Context) (status TimerStatus, pastDue bool) {
	now := wallClock()
	next, _ := l.schedule.next(now)
	fresh := TimerStatus{Next: next}
	if l.statuses == nil {
		return fresh, false
	}
	status, err := l.statuses.Load(ctx, l.name)
	if err != nil {
		l.log.Warn("cannot read timer status; the timer starts without one", "timer", l.name, "error", err)
	}
	if err != nil || status.Next.IsZero() {
		l.save(ctx, TimerStatus{Next: next, LastUpdated: now})
		return fresh, false // the first run gets no LastUpdated, as in the real host
	}

	// A stored Next that does not fit the schedule is from an older schedule.
	base := status.Last
	if base.IsZero() {
		base = status.LastUpdated
	}
	if expected, _ := l.schedule.next(base); base.IsZero() || !expected.Equal(status.Next) {
		if base.IsZero() || now.After(expected) {
			expected, base = next, now
		}
		status = TimerStatus{Next: expected, LastUpdated: base}
		l.save(ctx, status)
	}
	return status, now.After(status.Next)
}

func (l *timerListener) save(ctx context.Context, status TimerStatus) {
	if l.statuses == nil {
		return
	}
	if err := l.statuses.Save(ctx, l.name, status); err != nil {
		l.log.Warn("cannot save timer status; a missed run may not be caught up", "timer", l.name, "error", err)
	}
}

// waitUntil waits until the given wall-clock time. It returns false if ctx ends
// first.
func waitUntil(ctx context.Context, at time.Time) bool {
	for {
		left := at.Sub(wallClock())
		if left <= 0 {
			return ctx.Err() == nil
		}
		timer := time.NewTimer(min(left, recheck))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return false
		}
	}
}

// wallClock returns the time without its monotonic reading, because schedules
// use the wall clock.
func wallClock() time.Time { return time.Now().UTC().Round(0) }
