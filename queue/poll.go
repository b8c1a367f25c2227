package queue

import "time"

const (
	// firstIdle is the first wait after an empty receive; it doubles up to the
	// maximum idle interval.
	firstIdle = 100 * time.Millisecond

	// stayAwake is how long a listener polls after a signal or a message before
	// it stops polling. Publishers delay signals for a second after another.
	stayAwake = 2 * time.Second

	// firstFailed is the first wait after a receive that failed; it doubles up
	// to maxFailed.
	firstFailed = 100 * time.Millisecond
	maxFailed   = 10 * time.Second

	// heldIdle is the maximum interval of polling while the last count was above
	// 0: a message that another process holds is visible at the end of its lease
	// if that process was killed. With the times of a request and of a count,
	// polls are at most 5 s apart.
	heldIdle = 4250 * time.Millisecond

	// countEvery is how often the messages of a deep queue are counted, and
	// countAgain how soon if it became deep after the last count.
	countEvery = 5 * time.Second
	countAgain = time.Second / 2

	// maxPollers is how many receives of one queue run at the same time.
	maxPollers = 4
)

// poll decides when one queue is polled. It is pure state without I/O, so that
// a test can drive it through any order of events. The rules:
//
//   - An empty queue is polled less and less often, by one poller, and more often
//     while it is not known to have no messages that others hold. So it is also
//     counted once in a lease where polls are further apart than heldIdle.
//   - Polling ends only while signals are received, after a receive that began
//     when they were received already and after the last signal, and that
//     returned nothing, and after a count of 0 that began after that receive.
//     What is put later is signalled later.
//   - Counts may be old, so the first check after polling ended comes within
//     one lease: what a worker held that was killed is visible by then. The
//     next checks are rare.
//   - A failure makes the queue rest, whatever is signalled in the meantime.
//   - While the gate is closed, nothing begins. When it opens, there is work.
type poll struct {
	maxIdle, lease, safety time.Duration
	random                 func() float64 // from 0 to 1, without 1

	under    int       // receives under way
	hot      bool      // the last receive was full
	since    time.Time // … and so were those before, since then
	counting bool      // a count is under way …
	ending   bool      // … which may end polling
	next     time.Time // no receive before
	idle     time.Duration
	failures int // in a row

	held    bool      // the gate is closed
	push    bool      // signals are received
	version int       // changes with each signal, and when they begin or end
	active  time.Time // the last signal or message
	empty   bool      // a receive of this version returned nothing, and no count was made since
	recheck bool      // a message may exist that the count does not include yet
	asleep  bool      // no polling before next

	depth   int64 // of the last count
	counted time.Time
}

// need is the next step.
type need int

const (
	nothing need = iota
	receive
	count
)

// start begins polling.
func (p *poll) start(now time.Time) { p.next, p.active, p.recheck = now, now, true }

// needs returns the next step, or when to ask again; room is how many messages
// fit, and batch how many to wait for before a further poller is worth its
// request. While messages are unfinished, polling does not end.
func (p *poll) needs(now time.Time, room, batch, unfinished int) (need, time.Time) {
	if p.held {
		return nothing, time.Time{} // until the gate opens
	}
	if p.hot && !p.counting {
		old := now.Sub(p.counted)
		if old >= countEvery || old >= countAgain && p.counted.Before(p.since) {
			return count, time.Time{}
		}
	}
	if p.mayHold(now) {
		return count, time.Time{}
	}
	if p.mayEnd() && unfinished == 0 {
		awake := p.active.Add(stayAwake)
		if !now.Before(awake) {
			return count, time.Time{}
		}
		if now.Before(p.next) && awake.Before(p.next) {
			return nothing, awake
		}
	}
	switch {
	case now.Before(p.next):
		return nothing, p.next
	case p.counting && p.ending && p.under == 0 && p.empty:
		return nothing, time.Time{} // the count decides whether polling ends
	case p.under == 0 && room > 0 && (!p.hot || room >= batch):
		return receive, time.Time{}
	case p.hot && p.under < maxPollers && room >= batch:
		return receive, time.Time{}
	}
	return nothing, time.Time{} // until a message is finished or a request ends
}

// mayEnd reports whether a count of 0 would end polling.
func (p *poll) mayEnd() bool {
	return p.push && p.empty && p.under == 0 && !p.counting && !p.asleep && p.failures == 0
}

// mayHold reports whether a count is due that shows whether other processes hold
// messages: without one, the last count would be older than a lease at the next
// poll.
func (p *poll) mayHold(now time.Time) bool {
	return p.empty && p.idle >= heldIdle && p.maxIdle > heldIdle && now.Before(p.next) && p.counted.Add(p.lease).Before(p.next) &&
		p.under == 0 && !p.counting && !p.asleep && p.failures == 0
}

// begin records that a receive begins. The version goes to received.
func (p *poll) begin() (version int) {
	p.under++
	p.asleep = false
	return p.version
}

// received records the answer to a receive.
func (p *poll) received(now time.Time, version, asked, messages int, err error) {
	p.under--
	if err != nil {
		p.failures++
		p.hot, p.empty = false, false
		p.next = now.Add(p.jitter(backOff(firstFailed, p.failures, maxFailed), 0.5))
		return
	}
	p.failures = 0
	if messages > 0 {
		if !p.hot {
			p.since = now
		}
		p.hot, p.empty, p.recheck = messages == asked, false, true
		p.active, p.idle, p.next = now, 0, now
		return
	}
	p.hot = false
	if p.under > 0 {
		return // the others decide
	}
	if version != p.version {
		return // what was signalled since may not be in the answer: next is unchanged
	}
	p.empty = true
	p.rest(now)
}

// rest waits longer than the last time.
func (p *poll) rest(now time.Time) {
	longest := p.maxIdle
	if p.depth > 0 {
		longest = min(longest, heldIdle)
	}
	p.idle = min(max(2*p.idle, firstIdle), longest)
	p.next = now.Add(p.jitter(p.idle, 0.8))
}

// beginCount records that a count begins. The version goes to countedAs.
func (p *poll) beginCount(unfinished int) (version int) {
	p.ending = p.mayEnd() && unfinished == 0
	p.counting = true
	if !p.ending && !p.hot {
		p.empty = false // one such count is enough until the next receive
	}
	return p.version
}

// countedAs records the answer to a count.
func (p *poll) countedAs(now time.Time, version int, messages int64, err error) {
	p.counting = false
	p.counted = now // also after an error, so that it is not repeated at once
	if err == nil {
		p.depth = messages
		p.recheck = p.recheck || messages > 0
		if soon := now.Add(p.jitter(heldIdle, 0.8)); messages > 0 && !p.asleep && p.failures == 0 && soon.Before(p.next) {
			p.next = soon
		}
	}
	if !p.ending {
		return
	}
	ends := err == nil && messages == 0 && version == p.version && p.mayEnd()
	p.empty = false
	if !ends {
		return
	}
	wait := p.safety
	if p.recheck {
		wait = p.lease
	}
	p.asleep, p.recheck, p.idle = true, false, p.maxIdle
	p.next = now.Add(wait + time.Duration(p.random()*float64(wait)/5))
}

// signalled records that work was signalled.
func (p *poll) signalled(now time.Time) {
	p.version++
	p.active, p.recheck, p.asleep, p.empty = now, true, false, false
	p.idle = 0
	if p.failures == 0 {
		p.next = now
	}
}

// admits records whether the gate is open. An opening is treated as a signal:
// publishers may have signalled in vain.
func (p *poll) admits(now time.Time, open bool) {
	opened := open && p.held
	p.held = !open
	if opened {
		p.hot = false // the measurements from before the gate closed are outdated
		p.signalled(now)
	}
}

// listens records whether signals are received from now on. Some may have been
// missed until now. When they end, many listeners notice it at the same time.
func (p *poll) listens(now time.Time, up bool) {
	p.version++
	p.push, p.empty, p.recheck = up, false, true
	if p.asleep {
		p.asleep = false
		p.next = now.Add(time.Duration(p.random() * float64(p.maxIdle)))
	}
}

// jitter returns a random duration between share × d and d.
func (p *poll) jitter(d time.Duration, share float64) time.Duration {
	return time.Duration((share + (1-share)*p.random()) * float64(d))
}
