package devbus

import (
	"container/heap"
	"sync"
	"time"
)

// alarms holds all future events of the broker in one heap with one timer.
// Broker.mu guards it, and is held while an alarm rings.
type alarms struct {
	mu      *sync.Mutex
	queue   alarmHeap
	timer   *time.Timer
	next    time.Time      // when timer fires; zero if it does not
	serial  int64          // keeps alarms of the same instant in the order they were set
	running sync.WaitGroup // a timer that is set, or its function while it runs
	stopped bool
}

// alarm is a future event. It is embedded in the value that it concerns.
type alarm struct {
	at     time.Time
	serial int64
	index  int // in the heap, from 1; 0 if not set
	ringer ringer
}

type ringer interface{ ring() }

// set schedules a call of r.ring at a time. It replaces an earlier setting of
// a.
func (s *alarms) set(a *alarm, at time.Time, r ringer) {
	s.cancel(a)
	if s.stopped {
		return
	}
	s.serial++
	a.at, a.serial, a.ringer = at, s.serial, r
	heap.Push(&s.queue, a)
	s.arm()
}

func (s *alarms) cancel(a *alarm) {
	if a.index > 0 && !s.stopped {
		heap.Remove(&s.queue, a.index-1)
	}
}

// after calls f once after d, unless the broker is closed first.
func (s *alarms) after(d time.Duration, f func()) {
	s.set(new(alarm), time.Now().Add(d), ringFunc(f))
}

type ringFunc func()

func (f ringFunc) ring() { f() }

// arm sets the timer for the first alarm. It never delays a timer that is set,
// because firing too early costs only one comparison.
func (s *alarms) arm() {
	if len(s.queue) == 0 || s.stopped {
		return
	}
	at := s.queue[0].at
	if !s.next.IsZero() && !at.Before(s.next) {
		return
	}
	if s.next.IsZero() || s.timer.Stop() {
		if s.next.IsZero() {
			s.running.Add(1)
		}
		// Never at once: with the race detector, a timer that is due when it is
		// made crashes the runtime now and then in a bubble of synctest.
		s.timer = time.AfterFunc(max(time.Until(at), 1), s.fire)
		s.next = at
	} // else fire already waits for mu, and arms the timer again
}

func (s *alarms) fire() {
	defer s.running.Done()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next = time.Time{}
	for now := time.Now(); !s.stopped && len(s.queue) > 0 && !s.queue[0].at.After(now); {
		a := heap.Pop(&s.queue).(*alarm)
		a.ringer.ring()
	}
	s.arm()
}

// stop cancels all alarms. The caller must unlock mu and then wait for running.
func (s *alarms) stop() {
	s.stopped = true
	s.queue = nil
	if !s.next.IsZero() && s.timer.Stop() {
		s.running.Done()
	}
}

type alarmHeap []*alarm

func (h alarmHeap) Len() int { return len(h) }

func (h alarmHeap) Less(i, j int) bool {
	if !h[i].at.Equal(h[j].at) {
		return h[i].at.Before(h[j].at)
	}
	return h[i].serial < h[j].serial
}

func (h alarmHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i+1, j+1
}

func (h *alarmHeap) Push(x any) {
	a := x.(*alarm)
	a.index = len(*h) + 1
	*h = append(*h, a)
}

func (h *alarmHeap) Pop() any {
	old := *h
	a := old[len(old)-1]
	old[len(old)-1] = nil
	a.index = 0
	*h = old[:len(old)-1]
	return a
}
