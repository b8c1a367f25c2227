package observe

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"kennel/internal/customhandler"
	"kennel/internal/instances"
	"kennel/queue"
)

// Meter counts the invocations of this process.
type Meter struct {
	served, nanoseconds atomic.Int64 // of invocations that have ended

	mu     sync.Mutex
	queues map[string]*tally // by queue; guarded by mu
}

// tally counts the invocations of a queue's function.
type tally struct {
	running                              atomic.Int64
	done, returned, retried, deadLetters atomic.Int64
	ages, latencies                      queue.Ages
	handTime                             atomic.Int64 // nanoseconds, of those that were not put back
}

// Ending is what an invocation without an error did with its message.
type Ending int

// The endings of an invocation.
const (
	Done       Ending = iota
	PutBack           // for a later invocation
	Retried           // put back, after a failure that its message counts
	DeadLetter        // moved to the dead letters
)

// HTTP measures the calls of a handler.
func (m *Meter) HTTP(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began := time.Now()
		defer func() { m.Ended(began) }()
		next.ServeHTTP(w, r)
	})
}

// Queue measures the invocations of a queue's function.
func (m *Meter) Queue(name string, next func(context.Context, customhandler.QueueMessage) (Ending, error)) func(context.Context, customhandler.QueueMessage) error {
	return func(ctx context.Context, message customhandler.QueueMessage) error {
		t := m.tally(name)
		began := time.Now()
		t.running.Add(1)
		failed := true // also by a panic
		ended := Done
		defer func() {
			t.count(ended, failed, message, began)
			t.running.Add(-1)
			m.Ended(began)
		}()
		if !message.Inserted.IsZero() {
			t.ages.Add(message.Inserted)
		}
		var err error
		ended, err = next(ctx, message)
		failed = err != nil
		return err
	}
}

// count counts an invocation that has ended.
func (t *tally) count(ended Ending, failed bool, message customhandler.QueueMessage, began time.Time) {
	if failed || ended != PutBack { // what is put back waited at the gate
		t.handTime.Add(int64(time.Since(began)))
	}
	switch {
	case failed && message.DequeueCount < MaxDeliveries, ended == Retried:
		t.retried.Add(1)
	case failed, ended == DeadLetter: // after a failure the host moves it
		t.deadLetters.Add(1)
	case ended == PutBack:
		t.returned.Add(1)
	default:
		t.done.Add(1)
		if !message.Inserted.IsZero() {
			t.latencies.Add(message.Inserted)
		}
	}
}

// tally returns the counts of a queue, which begin with its first message: the
// functions of all partitions that an app can have are registered.
func (m *Meter) tally(name string) *tally {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.queues == nil {
		m.queues = make(map[string]*tally)
	}
	if m.queues[name] == nil {
		m.queues[name] = &tally{}
	}
	return m.queues[name]
}

// Messages returns how many messages of queues were delivered and have ended.
func (m *Meter) Messages() (sum int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, t := range m.queues {
		sum += t.done.Load() + t.returned.Load() + t.retried.Load() + t.deadLetters.Load()
	}
	return sum
}

// Ended counts an invocation or a call that began at a time and ends now.
func (m *Meter) Ended(began time.Time) {
	m.served.Add(1)
	m.nanoseconds.Add(int64(time.Since(began)))
}

// MeterSource is what a meter knows.
type MeterSource struct {
	NoProblems
	*Meter
}

// Facts fills in the counts of this process.
func (m *Meter) Facts(r *instances.Report) {
	r.Served = instances.Served{Count: m.served.Load(), Seconds: time.Duration(m.nanoseconds.Load()).Seconds()}
	running, work := make(map[string]int64), make(map[string]instances.Work)
	m.mu.Lock()
	defer m.mu.Unlock()
	for name, t := range m.queues {
		if n := t.running.Load(); n > 0 {
			running[name] = n
		}
		work[name] = instances.Work{
			Done: t.done.Load(), Retried: t.retried.Load(), Returned: t.returned.Load(), DeadLetters: t.deadLetters.Load(),
			Ages: t.ages.Counts(), AgeSeconds: t.ages.Seconds(),
			HandSeconds: time.Duration(t.handTime.Load()).Seconds(), Latencies: t.latencies.Counts(),
		}
	}
	instances.RunningSection.Add(r, running)
	instances.WorkSection.Add(r, work)
}
