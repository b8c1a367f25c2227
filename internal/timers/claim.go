package timers

import (
	"cmp"
	"errors"
	"strconv"
	"time"

	"kennel/internal/attempt"
	"kennel/internal/schedule"
	"kennel/internal/table"
)

// claim is the protocol by which one process takes the slots of one timer. It
// does no I/O and reads no clock: it returns what to do next, and takes the
// answer and the time. The rules:
//
//   - Each write replaces the version of the row from which it was computed, and
//     has a nonce of its own.
//   - A write without an answer is pending until a read shows whether it was
//     made: the row has its nonce, or a version on which it does not depend.
//     Otherwise it is repeated unchanged.
//   - An attempt begins only after the write that says so was made, and its
//     result counts only if the row is still that of the attempt. So one result
//     of a slot is recorded at most.
//   - While an attempt runs, its process writes a new nonce at each third of the
//     lease. Its context is cancelled when a lease has passed since the last of
//     these writes was first sent, or when the row is another's.
//   - While the row says that the timer is paused, no attempt of a slot of the
//     schedule begins. Who pauses or resumes it replaces the row as well, so the
//     process that would take a slot has its write refused and reads the pause.
//   - A process takes the slot of another one only after it has itself seen the
//     same nonce for longer than a lease. Only this time decides, not a clock
//     that two processes share.
type claim struct {
	slots   *schedule.Schedule
	text    string // of the schedule, with its zone
	catchUp bool
	max     int // attempts of a slot
	retry   func(a attempt.Attempt, err error) time.Duration
	owner   string // unique among all processes, past and future

	since  time.Time // when this process first saw the timer
	ticked bool      // the Functions host has woken the timer since

	known    bool // row is what was stored
	row      row
	version  string // "": there is no row
	adopted  bool   // a schedule that was changed was noticed
	pending  *write // its outcome is not known
	writes   int
	notYet   time.Time // another process has just taken the slot: no read before
	seen     time.Time // when the nonce of another process was first seen
	silent   bool      // it was the same when it was read more than a lease later
	leased   time.Time // when the write that holds our lease was first sent
	running  bool      // an attempt of this process runs, or its result was not written
	finished *ending   // how it ended
	lost     bool      // it is not ours any more
	stopping bool      // no attempt begins
	recheck  time.Time // when the row of a paused timer is read again; zero: it was just read
}

// write replaces a version of the row, or inserts it.
type write struct {
	old  string
	next row
	sent time.Time // first
}

// ending is how an attempt ended.
type ending struct {
	attempt attempt.Attempt
	verdict attempt.Verdict
	at      time.Time
	took    time.Duration
}

// lease is how long a process waits for a sign of life of another one.
const lease = time.Minute

// recent is how long ago the slot may be for which the Functions host has started
// the first process that knows a timer.
const recent = time.Minute

// action is what to do next.
type action int

const (
	rest  action = iota // until a time, or until something happens
	read                // the row
	send                // the pending write
	begin               // an attempt of the row's slot
)

// step is an action. The slots of the schedule alone end a rest that is idle.
type step struct {
	do    action
	until time.Time
	idle  bool
}

// next returns what to do.
func (c *claim) next(now time.Time) step {
	if c.since.IsZero() {
		c.since = now
	}
	switch {
	case !c.known && now.Before(c.notYet) && !c.running && !c.stopping:
		return step{do: rest, until: c.notYet}
	case !c.known:
		return step{do: read}
	case c.pending == nil:
		s := c.decide(now)
		if c.pending == nil {
			return s
		}
	}
	if c.pending.sent.IsZero() {
		c.pending.sent = now
	}
	return step{do: send}
}

// decide returns what to do with the row as it is, or makes a write pending.
func (c *claim) decide(now time.Time) step {
	r := c.row
	switch {
	case c.running && (c.lost || !c.ours()):
		c.lost = true
		if c.finished == nil {
			return step{do: rest} // until it returns
		}
		c.running, c.finished, c.lost = false, nil, false
		return c.decide(now)
	case c.ours():
		return c.work(now)
	case c.stopping:
		return step{do: rest, idle: true}
	case c.version == "":
		c.write(row{schedule: c.text, after: c.firstAfter(now), phase: idle})
	case r.phase == working:
		return c.watch(now)
	case r.schedule != c.text && !c.adopted:
		c.adopted, r.schedule = true, c.text
		r.after = later(r.after, c.firstAfter(now))
		c.write(r)
	case r.phase == waiting && r.isHeld():
		return c.hold(now)
	case r.phase == waiting:
		return c.wait(now)
	default:
		slot, due := c.due(now)
		if !due && r.paused != nil {
			return c.hold(now)
		}
		if !due {
			return step{do: rest, until: c.slots.Next(later(now, r.after)), idle: true}
		}
		r.slot, r.failed, r.began = slot, 0, wall(now)
		c.take(r, now)
	}
	return step{}
}

// firstAfter returns the time after which a new schedule has slots: when this
// process first saw it. A Functions host that scales to zero starts the first
// process for a slot that has just begun, so this slot is one, too: its tick
// shows that the host has known the timer before.
func (c *claim) firstAfter(now time.Time) time.Time {
	after := c.since
	if slot := c.slots.Last(now); c.ticked && !slot.After(after) && slot.After(now.Add(-recent)) {
		after = slot.Add(-time.Millisecond)
	}
	return wall(after)
}

// isHeld reports whether a pause holds the slot of the row. It does not hold a
// run that a person has requested.
func (r row) isHeld() bool { return r.paused != nil && !r.isRun() }

// isRun reports whether the slot of the row is a run that was requested.
func (r row) isRun() bool { return !r.asked.IsZero() && r.slot.Equal(r.asked) }

// hold rests while the timer is paused. It reads the row at each slot, when it
// would otherwise take one: another process may have resumed the timer.
func (c *claim) hold(now time.Time) step {
	if c.recheck.IsZero() {
		c.recheck = c.slots.Next(now)
	}
	if now.Before(c.recheck) {
		return step{do: rest, until: c.recheck, idle: true}
	}
	c.known = false
	return step{do: read}
}

// ours reports whether an attempt of this process runs, as far as the row says.
func (c *claim) ours() bool {
	return c.row.phase == working && c.row.owner == c.owner && c.version != ""
}

// work continues an attempt of this process.
func (c *claim) work(now time.Time) step {
	renewal := c.leased.Add(lease / 3)
	switch {
	case c.finished != nil:
		c.end(now)
	case !c.running && (c.stopping || c.row.isHeld()): // or it was paused before the answer to the write
		r := c.row
		r.phase, r.retryAt = waiting, wall(now)
		c.write(r)
	case !now.Before(renewal):
		c.write(c.row)
	case !c.running:
		c.running = true
		return step{do: begin}
	default:
		return step{do: rest, until: renewal}
	}
	return step{}
}

// watch waits for a sign of life of the process that works.
func (c *claim) watch(now time.Time) step {
	if end := c.seen.Add(lease); !c.silent {
		if !now.After(end) {
			return step{do: rest, until: end.Add(time.Nanosecond)}
		}
		c.known = false
		return step{do: read}
	}
	r := c.row
	r.failed++
	r.reason = "the process ended before its attempt"
	switch {
	case r.failed >= c.max:
		c.write(c.ended(r, now, outcomeFailed, 0, r.reason))
	case !c.catchUp && c.isOver(r, now):
		c.write(c.ended(r, now, outcomeFailed, 0, r.reason+", and the next slot has begun"))
	case r.isHeld():
		r.phase, r.retryAt = waiting, wall(now)
		c.write(r)
	default:
		c.take(r, now)
	}
	return step{}
}

// wait waits for the next attempt of the slot. Its last owner comes first.
func (c *claim) wait(now time.Time) step {
	r := c.row
	at := r.retryAt
	if r.owner != c.owner {
		at = at.Add(lease / 3)
	}
	switch {
	case !c.catchUp && c.isOver(r, now):
		c.write(c.ended(r, now, outcomeFailed, 0, cmp.Or(r.reason, "the next slot began before this one was done")))
	case now.Before(at):
		return step{do: rest, until: at}
	default:
		c.take(r, now)
	}
	return step{}
}

// due returns the slot that has begun, if there is one: a run that an operator
// requested; else the newest slot, or with catchUp the oldest one.
func (c *claim) due(now time.Time) (slot time.Time, ok bool) {
	after := c.row.after
	switch {
	case !c.row.asked.IsZero():
		return c.row.asked, true
	case c.row.paused != nil:
		return time.Time{}, false
	case c.catchUp:
		slot = c.slots.Next(after)
	default:
		slot = c.slots.Last(now)
	}
	return slot, slot.After(after) && !slot.After(now)
}

// isOver reports whether the attempts of a slot are over: the next one has begun.
// With catchUp, each slot has as long, from its first attempt on.
func (c *claim) isOver(r row, at time.Time) bool {
	next := c.slots.Next(r.slot)
	if c.catchUp {
		next = later(next, r.began.Add(next.Sub(r.slot)))
	}
	return !at.Before(next)
}

// take makes the write pending after which an attempt begins.
func (c *claim) take(r row, now time.Time) {
	r.phase, r.owner, r.since, r.retryAt = working, c.owner, wall(now), time.Time{}
	c.write(r)
}

// end makes the write pending that records how the attempt ended.
func (c *claim) end(now time.Time) {
	r, v, took := c.row, c.finished.verdict, c.finished.took
	wait := v.Wait
	switch v.Outcome {
	case attempt.Done:
		c.write(c.ended(r, c.finished.at, outcomeDone, took, ""))
		return
	case attempt.Rejected:
		c.write(c.ended(r, c.finished.at, outcomeFailed, took, v.Reason()))
		return
	case attempt.Failed:
		r.failed++
		if r.failed < c.max {
			wait = c.retry(c.finished.attempt, v.Err)
		}
	case attempt.RetriedLater:
		r.failed++
	}
	r.phase, r.retryAt, r.reason = waiting, wall(c.finished.at.Add(wait)), cut(v.Reason())
	if isAttempt := v.Outcome != attempt.PutBack; isAttempt && (r.failed >= c.max || c.isOver(r, later(now, r.retryAt))) {
		r = c.ended(r, c.finished.at, outcomeFailed, took, v.Reason())
	}
	c.write(r)
}

// ended returns the row after the end of its slot.
func (c *claim) ended(r row, at time.Time, outcome string, took time.Duration, reason string) row {
	r.last = result{slot: r.slot, at: wall(at), outcome: outcome, took: took, reason: cut(reason)}
	if outcome == outcomeDone {
		r.lastOK = wall(at)
	}
	if r.isRun() {
		r.asked = time.Time{}
	} else {
		r.after = later(r.after, r.slot)
	}
	r.reason = ""
	r.phase, r.slot, r.failed, r.began, r.since, r.retryAt = idle, time.Time{}, 0, time.Time{}, time.Time{}, time.Time{}
	return r
}

func (c *claim) write(next row) {
	c.writes++
	next.nonce = c.owner + "/" + strconv.Itoa(c.writes)
	c.pending = &write{old: c.version, next: next}
}

// loaded takes the answer to a read that was sent at a time; found false means
// that there is no row.
func (c *claim) loaded(r row, version string, found bool, sent, now time.Time) {
	if !found {
		r, version = row{}, ""
	}
	if p := c.pending; p != nil {
		switch {
		case found && r.nonce == p.next.nonce:
			c.applied(version)
			return
		case version != p.old:
			c.pending = nil // it can never be made: versions are not reused
		}
	}
	if same := c.version != "" && r.nonce == c.row.nonce; !same {
		c.seen, c.silent = now, false
	} else if sent.After(c.seen.Add(lease)) {
		c.silent = true
	}
	c.row, c.version, c.known, c.notYet, c.recheck = r, version, true, time.Time{}, time.Time{}
}

// applied takes that the pending write was made.
func (c *claim) applied(version string) {
	p := c.pending
	c.row, c.version, c.known, c.pending, c.silent = p.next, version, true, nil, false
	if c.ours() {
		c.leased = p.sent
		return
	}
	c.running, c.finished = false, nil
}

// wrote takes the answer to the pending write. It returns whether it was an
// answer.
func (c *claim) wrote(version string, err error, now time.Time) bool {
	switch {
	case err == nil:
		c.applied(version)
	case table.IsConflict(err) && !errors.Is(err, table.ErrUnclear):
		if c.pending.next.phase == working && !c.running {
			// A short attempt is over then.
			c.notYet = now.Add(lease / 3)
			if next := c.slots.Next(now); next.Before(c.notYet) {
				c.notYet = next
			}
		}
		c.pending, c.known = nil, false
	default:
		c.known = false
		return false
	}
	return true
}

// woken makes the claim read the row, if a slot has begun or if it must.
func (c *claim) woken(now time.Time, must bool) {
	if c.pending != nil || c.running || !c.known {
		if must && !c.running {
			c.notYet = time.Time{}
		}
		return
	}
	if _, due := c.due(now); must || due || c.row.phase != idle || c.row.paused != nil {
		c.known, c.notYet = false, time.Time{}
	}
}

// wall returns a time without what only this process can compare.
func wall(t time.Time) time.Time { return t.Round(0).UTC() }

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
