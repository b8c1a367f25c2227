package kenneltest

import (
	"errors"
	"log/slog"
	"runtime"
	"time"

	"kennel/internal/attempt"
	"kennel/internal/program"
	"kennel/internal/schedule"
)

// timer is a declared timer by the clock of the test. Slots and attempts follow
// the rules of internal/timers; the row that the processes of a program share is
// left out, because there is one process. The slots up to the start of the test
// have ended.
type timer struct {
	*program.Timer
	slots *schedule.Schedule
	after time.Time // each slot up to it has ended

	slot   time.Time // whose next attempt begins at due; zero: none
	began  time.Time // the first attempt of slot
	failed int       // attempts of slot
	due    time.Time
}

// openTimers reads the schedules, which were checked.
func (k *Kit) openTimers() {
	k.t.Helper()
	for _, d := range k.declared.Timers {
		slots, err := schedule.Parse(d.Schedule, d.Zone)
		if err != nil {
			k.t.Fatal(err)
		}
		k.timers = append(k.timers, &timer{Timer: d, slots: slots, after: k.clock.Now()})
	}
}

// wakes returns when the next slot or attempt of a timer is due; zero: never.
func (k *Kit) wakes() (at time.Time) {
	for _, t := range k.timers {
		if due := t.wakes(); !due.IsZero() && (at.IsZero() || due.Before(at)) {
			at = due
		}
	}
	return at
}

func (t *timer) wakes() time.Time {
	if t.slot.IsZero() {
		return t.slots.Next(t.after)
	}
	return t.due // the attempts of a slot end before the next one
}

// tick makes the attempts of timers that are due, one of each timer.
func (k *Kit) tick() {
	k.t.Helper()
	for _, t := range k.timers {
		now := k.clock.Now()
		if !t.take(now) {
			continue
		}
		a := attempt.Attempt{Timer: t.Name, ID: t.Name + "/" + t.slot.UTC().Format(time.RFC3339), Number: t.failed + 1, MaxAttempts: t.MaxAttempts, Slot: t.slot}
		v := attempt.DoApart(k.ctx, a, t.Timeout, t.Work, k.declared.UseWork...)
		if errors.Is(v.Err, attempt.ErrGoexit) && (k.t.Failed() || k.t.Skipped()) {
			runtime.Goexit() // the timer called FailNow or SkipNow of the test
		}
		t.judge(k, a, v, now)
	}
}

// take takes the slot that has begun, if none is taken: with CatchUp the oldest
// one, else the newest. It returns whether an attempt is due.
func (t *timer) take(now time.Time) bool {
	if !t.slot.IsZero() && !t.CatchUp && t.isOver(now) {
		t.end()
	}
	if t.slot.IsZero() {
		slot := t.slots.Last(now)
		if t.CatchUp {
			slot = t.slots.Next(t.after)
		}
		if !slot.After(t.after) || slot.After(now) {
			return false
		}
		t.slot, t.began, t.failed, t.due = slot, now, 0, now
	}
	return !t.due.After(now)
}

// judge ends the slot, or sets when its next attempt begins.
func (t *timer) judge(k *Kit, a attempt.Attempt, v attempt.Verdict, now time.Time) {
	wait := v.Wait
	switch v.Outcome {
	case attempt.Done, attempt.Rejected:
		t.end()
		return
	case attempt.Failed:
		t.failed++
		if t.failed < t.MaxAttempts {
			wait = attempt.WaitOrDefault(k.ctx, slog.New(slog.NewTextHandler(k.log, nil)), a, t.Retry, v.Err)
		}
	case attempt.RetriedLater:
		t.failed++
	}
	t.due = now.Add(max(wait, time.Second))
	if t.failed >= max(1, t.MaxAttempts) || t.isOver(t.due) {
		t.end()
	}
}

// isOver reports whether the attempts of the slot are over: the next one has
// begun. With CatchUp, each slot has as long, from its first attempt on.
func (t *timer) isOver(at time.Time) bool {
	next := t.slots.Next(t.slot)
	if over := t.began.Add(next.Sub(t.slot)); t.CatchUp && over.After(next) {
		next = over
	}
	return !at.Before(next)
}

func (t *timer) end() { t.after, t.slot = t.slot, time.Time{} }
