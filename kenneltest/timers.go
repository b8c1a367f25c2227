package kenneltest

import (
	"time"

	"kennel/internal/attempt"
	"kennel/internal/program"
	"kennel/internal/schedule"
)

// timer is a declared timer by the clock of the test. The slots are those of the
// schedule, and attempts follow the rules of package kennel; the row that the
// processes of a program share is left out, because there is one process.
type timer struct {
	*program.Timer
	slots *schedule.Schedule
	next  time.Time // slot

	slot   time.Time // that is tried again; zero: none
	number int       // of its next attempt
	due    time.Time // of its next attempt
}

// openTimers reads the schedules, which were checked.
func (k *Kit) openTimers() {
	k.t.Helper()
	for _, d := range k.declared.Timers {
		slots, err := schedule.Parse(d.Schedule, d.Zone)
		if err != nil {
			k.t.Fatal(err)
		}
		k.timers = append(k.timers, &timer{Timer: d, slots: slots, next: slots.Next(k.clock.Now())})
	}
}

// wakes returns when the next slot or attempt of a timer is due; zero: never.
func (k *Kit) wakes() (at time.Time) {
	for _, t := range k.timers {
		for _, due := range []time.Time{t.next, t.due} {
			if !due.IsZero() && (at.IsZero() || due.Before(at)) {
				at = due
			}
		}
	}
	return at
}

// tick makes the attempts of timers that are due.
func (k *Kit) tick() {
	k.t.Helper()
	for _, t := range k.timers {
		now := k.clock.Now()
		if !t.next.IsZero() && !t.next.After(now) { // ends the attempts of the slot before
			t.slot, t.number, t.due = t.next, 1, t.next
			t.next = t.slots.Next(now)
		}
		if t.due.IsZero() || t.due.After(now) {
			continue
		}
		v := attempt.Do(k.ctx, attempt.Attempt{Timer: t.Name, ID: t.Name + "/" + t.slot.UTC().Format(time.RFC3339), Number: t.number, MaxAttempts: t.MaxAttempts, Slot: t.slot}, t.Timeout, t.Work, k.declared.UseWork...)
		wait := v.Wait
		switch {
		case v.Outcome == attempt.Done, v.Outcome == attempt.Rejected, v.Outcome != attempt.Snoozed && t.number >= t.MaxAttempts:
			t.due = time.Time{}
			continue
		case v.Outcome == attempt.Failed && t.Retry != nil:
			wait = t.Retry(t.number, v.Err)
		case v.Outcome == attempt.Failed:
			wait = attempt.DefaultRetry(t.number, v.Err)
		}
		if v.Outcome != attempt.Snoozed {
			t.number++
		}
		t.due = now.Add(max(wait, time.Second))
	}
}
