package localhost

import (
	"context"
	"log/slog"
	"time"

	"kennel/internal/customhandler"
)

// A timerListener runs one function by its schedule, by the rules of the host's timer trigger: runs never
// overlap, a failed run is not repeated, and after a time in which the host was down one run catches up.
type timerListener struct {
	name         string
	schedule     schedule
	statuses     TimerStore // nil: the schedule is not monitored
	runOnStartup bool
	log          *slog.Logger
	invoke       func(context.Context, customhandler.Tick) error
}

// recheck is how often a waiting timer looks at the clock, so that it notices a laptop that was asleep.
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
		// The outcome has been told where the function ran. A failed run is not repeated.
		_ = l.invoke(work, tick)

		// The next occurrence counts from the beginning of this run, as in the real listener. So after a run that
		// covered several occurrences one more follows at once, not past due, and the rest are skipped.
		status = TimerStatus{Last: now, LastUpdated: now}
		status.Next, _ = l.schedule.next(now)
		l.save(work, status)
	}
}

// begin reads what is known of the timer, and tells whether an occurrence was missed while the host was down.
func (l *timerListener) begin(ctx context.Context) (status TimerStatus, pastDue bool) {
	now := wallClock()
	next, _ := l.schedule.next(now)
	fresh := TimerStatus{Next: next}
	if l.statuses == nil {
		return fresh, false
	}
	status, err := l.statuses.Load(ctx, l.name)
	if err != nil {
		l.log.Warn("timer starts anew, for its status cannot be read", "timer", l.name, "error", err)
	}
	if err != nil || status.Next.IsZero() {
		fresh.LastUpdated = now
		l.save(ctx, fresh)
		return fresh, false
	}

	// A stored Next that the schedule would not have given belongs to an older schedule.
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
		l.log.Warn("timer status is not saved, so a missed run may not be caught up", "timer", l.name, "error", err)
	}
}

// waitUntil returns true at the given time of the clock on the wall, false when the context ends first.
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

// wallClock is the time without its monotonic reading: a schedule goes by the clock on the wall.
func wallClock() time.Time { return time.Now().UTC().Round(0) }
