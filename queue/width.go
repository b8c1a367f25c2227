package queue

import "time"

const (
	// widthWindow is how long the rate of a deep queue is measured at least, and
	// widthMessages in how many messages.
	widthWindow   = 2 * time.Second
	widthMessages = 50

	// The number of windows until another width is tried: at first, and at most
	// after tries that changed nothing.
	firstHold = 5
	maxHold   = 40
)

// width finds how many hands a deep queue needs, by measured throughput. From
// time to time it tries a quarter fewer and keeps them if the rate stays the
// same, because hands that only wait for each other keep messages from other
// listeners. Or it tries a third more and keeps them if the rate grows. It is
// pure state. A queue that is not deep has all hands that the rule allows.
type width struct {
	limit  int     // 0: no limit but the rule's
	rule   int     // of the last call
	tried  int     // the limit before the one that is tried; 0: none is tried
	rate   float64 // at the limit that is kept; 0: unknown
	wider  bool    // the next try is wider
	hold   int     // windows between tries
	left   int     // windows until the next try
	since  time.Time
	before int64 // messages that had ended then
}

// of returns how many of the rule's hands to use. The queue is deep or not, and
// a number of its messages have left their hand so far.
func (w *width) of(now time.Time, rule int, deep bool, ended int64) int {
	if !deep {
		*w = width{}
		return rule
	}
	if grown := rule > w.rule && max(w.limit, w.tried) >= w.rule; grown { // it is the rule that limited
		*w = width{}
	}
	w.rule = rule
	if w.since.IsZero() {
		*w = width{limit: rule, rule: rule, hold: firstHold, left: firstHold, since: now, before: ended}
	}
	if took := now.Sub(w.since); took >= widthWindow && ended-w.before >= widthMessages {
		w.measured(float64(ended-w.before)/took.Seconds(), rule)
		w.since, w.before = now, ended
	}
	return min(w.limit, rule)
}

// measured takes the rate of a window, and sets the limit for the next one.
func (w *width) measured(rate float64, rule int) {
	w.limit = min(w.limit, rule)
	switch {
	case w.tried == 0:
		// The rate may have changed since it was measured; use the newest.
		w.rate = rate
		if w.left--; w.left <= 0 {
			w.try(rule)
		}
	case w.limit < w.tried && rate >= 0.95*w.rate:
		w.tried, w.hold = 0, firstHold
		w.rate = max(w.rate, rate) // so that many small losses do not add up
		w.try(rule)
	case w.limit > w.tried && rate >= 1.05*w.rate:
		w.tried, w.hold, w.rate, w.wider = 0, firstHold, rate, true
		w.try(rule)
	default:
		w.limit, w.tried = w.tried, 0
		w.hold = min(2*w.hold, maxHold)
		w.left = w.hold
	}
}

// try sets another limit. If there is none, it waits.
func (w *width) try(rule int) {
	next := max(1, w.limit*3/4)
	if w.wider {
		next = min(rule, w.limit+w.limit/3+1)
	}
	w.wider = !w.wider && w.limit < rule
	w.left = w.hold
	if next != w.limit {
		w.tried, w.limit = w.limit, next
	}
}
