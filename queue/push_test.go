package queue

import (
	"container/heap"
	"math/rand/v2"
	"time"
)

const (
	scheduleLease = 20 * time.Second
	scheduleIdle  = 10 * time.Second

	// receivedWithin is how late a message may be: a check after one lease with
	// its jitter, and a poll that has backed off. The safety poll is after 10
	// minutes.
	receivedWithin = scheduleLease*6/5 + scheduleIdle

	// promptly is how late a message may be without delays, deaths and
	// outages: before a check after one lease.
	promptly = 15 * time.Second
)

// schedule is one random order. Each of its actions is an event at a random
// time.
type schedule struct {
	rng       *rand.Rand
	now       time.Time
	events    eventHeap
	n         int
	late, lag time.Duration // of signals and counts, at most
	prompt    bool          // no message is delayed, and no listener dies or is cut off

	messages   []*scheduled
	counts     []int // messages there were, by changes
	changes    []time.Time
	publishers []*notice
	listeners  []*sleeper

	closed bool // the gate
	opened time.Time

	slept, hushed, held int
	requested           int // while the gate was closed
	latest              time.Duration
}

// scheduled is one message.
type scheduled struct {
	visible time.Time
	deleted bool
}

// sleeper is one listener.
type sleeper struct {
	poll
	dead      bool
	connected bool // signals reach it
	working   int
	wakeups   int // the newest planned look at poll
}

func newSchedule(seed uint64) *schedule {
	w := &schedule{rng: rand.New(rand.NewPCG(seed, 1)), now: time.Unix(1e9, 0)}
	w.late, w.prompt = w.upTo(3*time.Second), w.rng.IntN(2) == 0
	w.lag = w.upTo(scheduleLease - time.Second)
	for range 1 + w.rng.IntN(3) {
		w.publishers = append(w.publishers, &notice{})
	}
	for range 1 + w.rng.IntN(3) {
		l := &sleeper{poll: poll{maxIdle: scheduleIdle, lease: scheduleLease, safety: safetyPoll, random: w.rng.Float64}}
		w.listeners = append(w.listeners, l)
		w.after(w.upTo(time.Second), func() { l.start(w.now); w.wake(l) })
		w.after(w.upTo(5*time.Second), func() { w.connect(l, true) })
	}
	for range 1 + w.rng.IntN(12) {
		p := w.publishers[w.rng.IntN(len(w.publishers))]
		// Around the time when listeners fall asleep, or when they sleep.
		at := w.upTo([]time.Duration{4 * time.Second, 8 * time.Second, time.Minute}[w.rng.IntN(3)])
		w.after(at, func() { w.put(p) })
	}
	if w.rng.IntN(2) == 0 {
		at := w.upTo(time.Minute)
		if w.rng.IntN(3) == 0 {
			at = 0 // before the start
		}
		w.after(at, func() { w.close(true) })
		w.after(at+w.upTo(30*time.Second), func() { w.close(false) })
	}
	for _, l := range w.listeners[1:] {
		if !w.prompt && w.rng.IntN(3) == 0 {
			w.after(w.upTo(time.Minute), func() { l.dead = true })
		}
	}
	if l := w.listeners[0]; !w.prompt && w.rng.IntN(3) == 0 { // an outage of its connection
		at := w.upTo(20 * time.Second)
		w.after(at, func() { w.connect(l, false) })
		w.after(at+w.upTo(5*time.Second), func() { w.connect(l, true) })
	}
	return w
}

// run returns how many messages were not received in time.
func (w *schedule) run() (left int) {
	// Publishing, death, the lease, and then the work.
	for end := w.now.Add(2*time.Minute + 4*scheduleLease + receivedWithin); len(w.events) > 0; {
		e := heap.Pop(&w.events).(event)
		if w.now = e.at; w.now.After(end) {
			break
		}
		e.do()
	}
	for _, m := range w.messages {
		if !m.deleted {
			left++
		}
	}
	return left
}

func (w *schedule) put(p *notice) {
	delay := time.Duration(0)
	if !w.prompt && w.rng.IntN(4) == 0 {
		delay = w.upTo(10 * time.Second)
	}
	w.after(w.upTo(50*time.Millisecond), func() {
		w.messages = append(w.messages, &scheduled{visible: w.now.Add(delay)})
		w.count(1)
		w.after(w.upTo(50*time.Millisecond), func() {
			p.put()
			if at, _ := p.due(); at.After(w.now) {
				w.hushed++
			}
			w.signal(p)
		})
	})
}

// signal sends the publisher's signal if it is due.
func (w *schedule) signal(p *notice) {
	at, wanted := p.due()
	if !wanted {
		return
	}
	if at.After(w.now) {
		w.after(at.Sub(w.now), func() { w.signal(p) })
		return
	}
	p.begin(w.now)
	w.after(w.upTo(100*time.Millisecond), func() {
		w.broadcast(Work)
		p.sent(w.now, nil)
		w.signal(p)
	})
}

func (w *schedule) broadcast(kind Kind) {
	for _, p := range w.publishers {
		w.after(w.upTo(w.late), func() { p.received(w.now, w.upTo(signalEvery/2)) })
	}
	for _, l := range w.listeners {
		if kind == Awake || !l.connected {
			continue
		}
		for range 1 + w.rng.IntN(5)/4 {
			w.after(w.upTo(w.late), func() {
				if l.connected {
					l.signalled(w.now)
					w.wake(l)
				}
			})
		}
	}
}

func (w *schedule) connect(l *sleeper, up bool) {
	l.connected = up
	l.listens(w.now, up)
	w.wake(l)
}

// close closes or opens the gate.
func (w *schedule) close(closed bool) {
	w.closed = closed
	if !closed {
		w.opened = w.now
	}
	for _, l := range w.listeners {
		w.wake(l)
	}
}

// wake does what the listener's state needs, as partition.run does.
func (w *schedule) wake(l *sleeper) {
	if l.dead || l.active.IsZero() {
		return
	}
	l.admits(w.now, !w.closed)
	need, at := l.needs(w.now, 32, 32, l.working)
	if w.closed && need != nothing {
		w.requested++
	}
	switch {
	case need == receive:
		w.receive(l, l.begin())
	case need == count:
		version := l.beginCount(l.working)
		w.after(w.upTo(50*time.Millisecond), func() {
			n := w.counted(w.upTo(w.lag))
			w.after(w.upTo(50*time.Millisecond), func() {
				if l.countedAs(w.now, version, int64(n), nil); l.asleep {
					w.slept++
				}
				w.wake(l)
			})
		})
	case !at.IsZero():
		l.wakeups++
		wakeup := l.wakeups
		w.after(at.Sub(w.now), func() {
			if wakeup == l.wakeups {
				w.wake(l)
			}
		})
	}
}

func (w *schedule) receive(l *sleeper, version int) {
	w.after(w.upTo(50*time.Millisecond), func() {
		var taken []*scheduled
		for _, m := range w.messages {
			if !m.deleted && !m.visible.After(w.now) && len(taken) < 32 {
				since := m.visible
				if since.Before(w.opened) {
					since = w.opened
					w.held++
				}
				w.latest = max(w.latest, w.now.Sub(since))
				m.visible = w.now.Add(scheduleLease)
				taken = append(taken, m)
			}
		}
		w.after(w.upTo(50*time.Millisecond), func() {
			if l.dead {
				return
			}
			l.working += len(taken)
			l.received(w.now, version, 32, len(taken), nil)
			if len(taken) > 0 && w.rng.IntN(2) == 0 {
				w.after(w.upTo(50*time.Millisecond), func() { w.broadcast(Awake) })
			}
			for _, m := range taken {
				took := w.upTo(3 * time.Second)
				if w.rng.IntN(4) == 0 {
					took = w.upTo(3 * scheduleLease)
				}
				w.work(l, m, took)
			}
			w.wake(l)
		})
	})
}

// work renews the lease of a message while its work goes on, and then deletes
// it, unless the listener dies.
func (w *schedule) work(l *sleeper, m *scheduled, left time.Duration) {
	w.after(min(left, scheduleLease/2), func() {
		switch {
		case l.dead:
		case left > scheduleLease/2:
			m.visible = w.now.Add(scheduleLease)
			w.work(l, m, left-scheduleLease/2)
		default:
			m.deleted = true
			l.working--
			w.count(-1)
			w.wake(l)
		}
	})
}

// count records that messages were put or deleted.
func (w *schedule) count(change int) {
	n := 0
	if len(w.counts) > 0 {
		n = w.counts[len(w.counts)-1]
	}
	w.counts, w.changes = append(w.counts, n+change), append(w.changes, w.now)
}

// counted returns how many messages there were some time ago.
func (w *schedule) counted(ago time.Duration) int {
	for i := len(w.counts) - 1; i >= 0; i-- {
		if !w.changes[i].After(w.now.Add(-ago)) {
			return w.counts[i]
		}
	}
	return 0
}

func (w *schedule) upTo(d time.Duration) time.Duration {
	return time.Duration(w.rng.Int64N(max(1, int64(d))))
}

func (w *schedule) after(d time.Duration, do func()) {
	w.n++
	heap.Push(&w.events, event{w.now.Add(d), w.n, do})
}

// eventHeap orders events by time, and then by the order of planning.
type eventHeap []event

type event struct {
	at time.Time
	n  int
	do func()
}

func (h eventHeap) Len() int { return len(h) }
func (h eventHeap) Less(i, j int) bool {
	return h[i].at.Before(h[j].at) || h[i].at.Equal(h[j].at) && h[i].n < h[j].n
}
func (h eventHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *eventHeap) Push(e any)   { *h = append(*h, e.(event)) }
func (h *eventHeap) Pop() any {
	last := len(*h) - 1
	e := (*h)[last]
	*h = (*h)[:last]
	return e
}
