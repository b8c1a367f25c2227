package kennel

import (
	"time"

	"kennel/internal/attempt"
	"kennel/internal/program"
)

// TimerOptions are the options of a timer; nil and zero fields mean the
// defaults.
type TimerOptions struct {
	Zone        string        // of the schedule, as "Europe/Berlin", not with @every; default UTC
	CatchUp     bool          // slots that were missed are done later, each; default: the newest one alone
	Timeout     time.Duration // of an attempt; default 5 minutes
	MaxAttempts int           // of a slot, while the next one has not begun; default 5

	// Retry returns the wait after a number of failed attempts; default, also if it
	// panics: as for queues.
	Retry func(failed int, err error) time.Duration
}

// Timer declares a timer, whose name has the form of those of [NewQueue]: 3 to
// 35 lower-case letters, digits and single hyphens, first a letter. Its work
// runs once in the program for each slot of the schedule, not once an instance.
// A schedule has five fields (minute, hour, day of the month, month, day of the
// week) or six (second first), or is "@every 10m", whose slots are multiples
// since the Unix epoch. If both days are restricted, a slot needs one of them.
// When the clock of the zone is changed, a slot that does not exist comes after
// the gap, and one that exists twice comes once. A timer that is new, or has
// another schedule, begins with the first slot after it was deployed, also with
// CatchUp.
//
// A slot has failed when it is rejected, its attempts are used up, or the next
// slot begins; then it is a problem in the status.
//
// At most one attempt of a slot is recorded as done. Two can follow each other
// after a kill, and overlap for as long as a process was paused: the Slot of
// [Current] is the key for what must happen once.
func (a *App) Timer(name, schedule string, work Work, options *TimerOptions) {
	var opt TimerOptions
	if options != nil {
		opt = *options
	}
	a.declaring("timer %q is declared", name)
	a.declared.Timers = append(a.declared.Timers, &program.Timer{
		Name: name, Schedule: schedule, Zone: or(opt.Zone, "UTC"), CatchUp: opt.CatchUp, Work: attempt.Work(work),
		Timeout: or(opt.Timeout, program.Timeout), MaxAttempts: or(opt.MaxAttempts, program.TimerAttempts), Retry: opt.Retry,
	})
}
