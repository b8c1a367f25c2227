package queue

import (
	"slices"
	"sync"
	"time"
)

// hands is the pool of workers that the queues of a listener share. A free hand
// goes to the queue with the fewest working hands. One hand is kept free for
// each queue that has none at work, so that a deep queue with slow work does
// not keep the others waiting.
type hands struct {
	mu    sync.Mutex
	free  int     // guarded by mu
	lanes []*lane // one for each queue; the slice is constant
}

// lane is one queue's share of the hands. hands.mu guards it.
type lane struct {
	hands   *hands
	limit   int     // of working hands
	waiting []*turn // messages, the oldest lease first
	working int
	average time.Duration // for which a message keeps a hand; 0: unknown
	last    time.Time     // when a message last left a hand, or the first took one
	ended   int64         // messages that left a hand
}

// turn is a message that waits for a hand.
type turn struct {
	granted chan struct{} // closed when it has one
}

func newHands(total, lanes int) *hands {
	h := &hands{free: total}
	for range lanes {
		h.lanes = append(h.lanes, &lane{hands: h, limit: 1})
	}
	return h
}

// wait asks for a hand. It returns nil if there is one at once.
func (l *lane) wait() *turn {
	l.hands.mu.Lock()
	defer l.hands.mu.Unlock()
	if len(l.waiting) == 0 && l.mayTake() {
		l.take()
		return nil
	}
	t := &turn{granted: make(chan struct{})}
	l.waiting = append(l.waiting, t)
	return t
}

// leave gives up waiting. It reports false if there was a hand before.
func (l *lane) leave(t *turn) bool {
	l.hands.mu.Lock()
	defer l.hands.mu.Unlock()
	i := slices.Index(l.waiting, t)
	if i < 0 {
		return false
	}
	l.waiting = slices.Delete(l.waiting, i, i+1)
	return true
}

// release frees a hand that was used for this long, or not at all if used is 0.
func (l *lane) release(used time.Duration) {
	l.hands.mu.Lock()
	defer l.hands.mu.Unlock()
	if used > 0 {
		if l.average == 0 {
			l.average = used
		}
		l.average += (used - l.average) / 8
		l.last = time.Now()
		l.ended++
	}
	l.working--
	l.hands.free++
	l.hands.grant()
}

// setLimit bounds the hands of a queue. Those that work go on.
func (l *lane) setLimit(limit int) {
	l.hands.mu.Lock()
	defer l.hands.mu.Unlock()
	if limit != l.limit {
		l.limit = limit
		l.hands.grant()
	}
}

// load is the work of a queue's hands.
type load struct {
	limit, working int
	perHand        time.Duration // for which a message keeps a hand, at least
	measured       bool          // a message has left a hand
	ended          int64
}

func (l *lane) load() load {
	l.hands.mu.Lock()
	defer l.hands.mu.Unlock()
	perHand := l.average
	if l.working > 0 {
		perHand = max(perHand, time.Since(l.last)) // work became slow
	}
	return load{l.limit, l.working, perHand, l.average > 0, l.ended}
}

// grant gives free hands to waiting messages. Its caller holds mu.
func (h *hands) grant() {
	for l := h.choose(); l != nil; l = h.choose() {
		t := l.waiting[0]
		l.waiting = slices.Delete(l.waiting, 0, 1)
		l.take()
		close(t.granted)
	}
}

func (l *lane) take() {
	if l.working == 0 {
		l.last = time.Now()
	}
	l.working++
	l.hands.free--
}

// mayTake reports whether a message of the queue may have a free hand now. Its
// caller holds mu.
func (l *lane) mayTake() bool {
	idle := 0 // queues without a working hand
	for _, other := range l.hands.lanes {
		if other.working == 0 {
			idle++
		}
	}
	return l.working < l.limit && l.hands.free > 0 && (l.working == 0 || l.hands.free > idle)
}

// choose returns the queue whose message is next, or nil.
func (h *hands) choose() (chosen *lane) {
	for _, l := range h.lanes {
		if len(l.waiting) > 0 && l.mayTake() && (chosen == nil || l.working < chosen.working) {
			chosen = l
		}
	}
	return chosen
}

// crew runs functions in goroutines that it keeps for the next function: a new
// goroutine for each message and each handler would spend much of its time on
// growing its stack. Its callers wait for their functions.
type crew chan func()

// run runs f at once.
func (c crew) run(f func()) {
	select {
	case c <- f: // an idle goroutine has it
	default:
		go func() {
			for ok := true; ok; f, ok = <-c {
				f()
			}
		}()
	}
}

// dismiss ends the idle goroutines now, and the others when their function
// returns. No function may be run afterwards.
func (c crew) dismiss() { close(c) }
