package queues

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"kennel/internal/control"
	"kennel/internal/memory"
	"kennel/internal/storetest"
	"kennel/queue"
)

// pausable is the rows of pauses, and when attempts of which queue began.
type pausable struct {
	*world
	rows *memory.Table

	mu    sync.Mutex
	begun map[string][]time.Time // by queue; guarded by mu
	polls map[string]int         // receives, by storage queue; guarded by mu
}

func newPausable() *pausable {
	w := &pausable{rows: memory.NewTable(nil), begun: make(map[string][]time.Time), polls: make(map[string]int)}
	w.world = newWorld(&memory.Options{Fault: func(c memory.Call) memory.Fault {
		w.mu.Lock()
		defer w.mu.Unlock()
		if c.Op == "Receive" {
			w.polls[c.Key]++
		}
		return memory.Fault{}
	}})
	return w
}

// polled returns how often a storage queue was polled.
func (w *pausable) polled(storageQueue string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.polls[storageQueue]
}

func (w *pausable) pauses(t testing.TB, p *storetest.Process) *control.Pauses {
	t.Helper()
	pauses, err := control.New(p.Table(w.rows), []string{"orders", "mails", "bills"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return pauses
}

// open returns the queues of a process that knows pauses.
func (w *pausable) open(t testing.TB, p *storetest.Process, hosted bool) *Queues {
	q := w.world.open(t, p, hosted, &Options{Pauses: w.pauses(t, p)})
	for name, o := range q.declared {
		work := o.Work
		o.Work = func(ctx context.Context, body []byte) error {
			w.mu.Lock()
			w.begun[name] = append(w.begun[name], time.Now())
			w.mu.Unlock()
			return work(ctx, body)
		}
	}
	return q
}

// between returns how many attempts of a queue began within a time.
func (w *pausable) between(name string, from, to time.Time) (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, at := range w.begun[name] {
		if !at.Before(from) && at.Before(to) {
			n++
		}
	}
	return n
}

func (w *pausable) change(t testing.TB, pauses *control.Pauses, name string, paused bool) time.Time {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	var err error
	if paused {
		_, err = pauses.Pause(ctx, name, control.Pause{})
	} else {
		err = pauses.Resume(ctx, name)
	}
	if err != nil {
		t.Fatal(err)
	}
	return time.Now()
}

// TestPause: from when a process knows of a pause, no attempt of the queue begins
// in it, however long it lasts. What runs goes on. The other queues
// go on, also that of the same storage queue. After the resume each message is
// done, in its first attempt.
func TestPause(t *testing.T) {
	for _, hosted := range []bool{false, true} {
		for _, name := range []string{"mails", "orders"}[:storetest.Scale(1, 2)] { // mails shares a storage queue
			synctest.Test(t, func(t *testing.T) {
				w := newPausable()
				p := storetest.NewProcess(nil)
				q := w.open(t, p, hosted)
				ctx, stop := context.WithCancel(t.Context())
				var running sync.WaitGroup
				put := func(queue, kind string, from, to int) {
					for n := from; n < to; n++ {
						if _, err := q.Send(ctx, queue, order{Kind: kind, N: n}.text(), 0); err != nil {
							t.Error(err)
						}
					}
				}
				put(name, "slow", 0, 8) // as many as slots, for 40 s
				running.Go(func() { w.live(ctx, t, p, q) })
				time.Sleep(34 * time.Second)
				put(name, "quick", 10, 60)
				time.Sleep(5 * time.Second) // some were received and wait for a slot
				known := w.change(t, q.opt.Pauses, name, true)
				put(name, "quick", 100, 150)
				put("bills", "quick", 200, 250)
				time.Sleep(2 * time.Minute)
				w.world.mu.Lock()
				if w.done[0] != 1 || w.done[7] != 1 {
					t.Errorf("hosted %v: what ran when the pause began did not go on: %v", hosted, w.done)
				}
				if w.done[200] != 1 || w.done[249] != 1 {
					t.Errorf("hosted %v, %s is paused: bills does not go on", hosted, name)
				}
				w.world.mu.Unlock()
				began := w.between(name, known, time.Now().Add(time.Hour))
				before := w.polled("orders")
				time.Sleep(time.Duration(storetest.Scale(1, 12)) * time.Hour) // after 20 minutes each wait is the longest one
				if n := w.between(name, known, time.Now()); n != 0 || began != 0 {
					t.Errorf("hosted %v: %d attempts of %s began in its pause", hosted, n, name)
				}
				if polls := w.polled("orders") - before; !hosted && name == "orders" && polls != 0 {
					t.Errorf("a paused queue is polled %d times", polls)
				}
				resumed := w.change(t, q.opt.Pauses, name, false)
				within := 11 * time.Minute
				if !hosted && name == "orders" {
					within = 5 * time.Second // all of its storage queue was paused
				}
				time.Sleep(within)
				stop()
				running.Wait()
				if n := w.between(name, resumed, time.Now()); n < 50 {
					t.Errorf("hosted %v: %d attempts of %s began within %v of the resume", hosted, n, name, within)
				}
				w.world.mu.Lock()
				defer w.world.mu.Unlock()
				for n, number := range w.numbers {
					if number != 1 || w.done[n] != 1 {
						t.Errorf("hosted %v, %s: order %d was done %d times, in attempt %d", hosted, name, n, w.done[n], number)
					}
				}
				if len(w.done) < 158 || len(w.letters(t)) != 0 {
					t.Errorf("hosted %v, %s: %d were done, %d are dead letters", hosted, name, len(w.done), len(w.letters(t)))
				}
			})
		}
	}
}

// TestPauseElsewhere: a process that works learns of a pause within 30 s, and one
// that starts in a pause begins nothing.
func TestPauseElsewhere(t *testing.T) {
	for _, hosted := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w := newPausable()
			changes := w.pauses(t, storetest.NewProcess(nil))
			life := func(d time.Duration, during func(q *Queues)) {
				p := storetest.NewProcess(nil)
				q := w.open(t, p, hosted)
				ctx, stop := context.WithTimeout(t.Context(), d)
				defer stop()
				var running sync.WaitGroup
				running.Go(func() { w.live(ctx, t, p, q) })
				during(q)
				running.Wait()
			}
			var known time.Time
			sent := 0
			life(5*time.Minute, func(q *Queues) {
				for range 240 {
					if _, err := q.Send(t.Context(), "orders", order{Kind: "quick", N: sent}.text(), 0); err != nil {
						t.Error(err)
					}
					if sent++; sent == 60 {
						known = w.change(t, changes, "orders", true).Add(30 * time.Second)
					}
					time.Sleep(time.Second)
				}
			})
			life(time.Hour, func(*Queues) {})
			if n := w.between("orders", known, time.Now()); n != 0 {
				t.Errorf("hosted %v: %d attempts began 30 s after the pause, or later", hosted, n)
			}
			w.change(t, changes, "orders", false)
			life(11*time.Minute, func(*Queues) {})
			if len(w.done) != sent {
				t.Errorf("hosted %v: %d of %d were done", hosted, len(w.done), sent)
			}
		})
	}
}

// TestPauseWhileKilled pauses and resumes queues, and kills the process before and
// after each of its requests: no confirmed message is lost.
func TestPauseWhileKilled(t *testing.T) {
	for _, hosted := range []bool{true, false} {
		t.Run(fmt.Sprint("hosted ", hosted), func(t *testing.T) {
			t.Parallel()
			storetest.KillAtEachRequest(t, storetest.Scale(797, 1), func(t *testing.T, kill *storetest.Killer) {
				w := newPausable()
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Hour)
				defer cancel()
				p := storetest.NewProcess(kill)
				w.attempts = 4
				q := w.open(t, p, hosted)
				life, stop := context.WithTimeout(p.Context(), 3*time.Minute)
				confirmed := send(life, q, 0)
				var running sync.WaitGroup
				running.Go(func() {
					for _, paused := range []bool{true, false, true} {
						for _, name := range []string{"orders", "mails"} {
							one, cancel := context.WithTimeout(life, 10*time.Second)
							if paused {
								_, _ = q.opt.Pauses.Pause(one, name, control.Pause{}) // an error after a kill
							} else {
								_ = q.opt.Pauses.Resume(one, name)
							}
							cancel()
						}
						select {
						case <-time.After(45 * time.Second):
						case <-life.Done():
						}
					}
				})
				w.live(life, t, p, q)
				stop()
				running.Wait()
				w.queues.Wait()
				again := storetest.NewProcess(nil)
				for _, name := range []string{"orders", "mails"} {
					w.change(t, w.pauses(t, again), name, false)
				}
				rest, stop := context.WithTimeout(ctx, 2*time.Hour)
				defer stop()
				w.untilEmpty(rest, t, again, w.open(t, again, hosted))
				w.check(t, confirmed)
			})
		})
	}
}

// TestPauseRequests: a process without work reads no pauses, and one that works
// reads twice a minute.
func TestPauseRequests(t *testing.T) {
	storetest.OnlyInProve(t)
	for _, hosted := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w := newPausable()
			p := storetest.NewProcess(nil)
			q := w.open(t, p, hosted)
			ctx, stop := context.WithTimeout(t.Context(), 2*time.Hour)
			defer stop()
			var running sync.WaitGroup
			running.Go(func() { w.live(ctx, t, p, q) })
			time.Sleep(time.Minute)
			before := w.rows.Calls()
			time.Sleep(time.Hour)
			idle := w.rows.Calls() - before
			before = w.rows.Calls()
			for n := range 1800 {
				if _, err := q.Send(ctx, "orders", order{Kind: "quick", N: n}.text(), 0); err != nil {
					t.Error(err)
				}
				time.Sleep(time.Second)
			}
			busy := w.rows.Calls() - before
			t.Logf("figure: requests for pauses in an hour without work, and in a minute of work, hosted %v | %d, %.1f | 0, 2", hosted, idle, float64(busy)/30)
			if idle != 0 || busy > 61 { // the first and the last one
				t.Errorf("hosted %v: %d requests without work, %d in 30 minutes of work", hosted, idle, busy)
			}
			running.Wait()
		})
	}
}

// TestPausedAtTheEnd: a message whose attempts are used up waits with its last
// word for the resume, and a sample counts the messages as held.
func TestPausedAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newPausable()
		p := storetest.NewProcess(nil)
		q := w.open(t, p, false)
		w.change(t, q.opt.Pauses, "orders", true)
		id, err := q.Send(t.Context(), "orders", order{Kind: "fails", N: 1}.text(), 0)
		if err != nil {
			t.Fatal(err)
		}
		samples, err := q.Sample(t.Context())
		if err != nil || !samples["orders"].Held || samples["jobs"].Held {
			t.Errorf("sampled %+v, %v", samples, err)
		}
		e := queue.Envelope{ID: id, Queue: "orders", Time: time.Now(), Attempts: 20, Reason: "broken"}
		d := &delivery{storage: "orders", envelope: e, own: q.declared["orders"], number: 21, deliveries: 1}
		end := q.work(t.Context(), d)
		if end.fate != fateAgain || end.attempts != 20 || end.dying != "broken" || end.err != nil {
			t.Errorf("a message that dies ends with %+v", end)
		}
		if text, err := json.Marshal(e); err != nil || len(w.words) != 0 {
			t.Errorf("its last word was called: %s, %v", text, err)
		}
	})
}

// TestHeldFor: the wait grows with the age of the pause, up to ten minutes.
func TestHeldFor(t *testing.T) {
	for age, want := range map[time.Duration]time.Duration{
		-time.Hour: 10 * time.Second, 0: 10 * time.Second, time.Minute: 30 * time.Second, 4 * time.Minute: 2 * time.Minute, time.Hour: 10 * time.Minute, 1000 * time.Hour: 10 * time.Minute,
	} {
		for range 100 {
			if got := heldFor(age); got < want/2 || got > want {
				t.Errorf("in a pause of %v: %v, want up to %v", age, got, want)
			}
		}
	}
}
