package localhost

import (
	"context"
	"encoding/base64"
	"errors"
	"io"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"kennel/internal/customhandler"
	"kennel/internal/memory"
)

var errFunction = errors.New("the function failed")

type queueFunction func(context.Context, customhandler.QueueMessage) error

func newListener(store QueueStore, queue string, invoke queueFunction) *queueListener {
	return &queueListener{
		queue: queue, store: store, invoke: invoke,
		settings: queueSettings{batchSize: 16, newBatchThreshold: 8, maxPollingDelay: developmentPolling, maxDequeueCount: 5},
		out:      &console{out: io.Discard}, log: slog.New(slog.DiscardHandler),
	}
}

// testQueues are queues in memory. They check that every request has a
// deadline.
type testQueues struct {
	*memory.Queues
	refuse func(memory.Call) error // the error of a rejected request; nil: no faults
}

func newQueues(t *testing.T) *testQueues {
	q := &testQueues{}
	q.Queues = memory.NewQueues(&memory.Options{
		OnMisuse: func(problem string) { t.Error(problem) },
		Fault: func(c memory.Call) (fault memory.Fault) {
			if q.refuse != nil {
				fault.Err = q.refuse(c)
				fault.Lost = fault.Err != nil
			}
			return fault
		},
	})
	return q
}

func (q *testQueues) put(t *testing.T, queue, body string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := q.Put(ctx, queue, body, 0); err != nil {
		t.Fatal(err)
	}
}

// bodies returns the bodies of all messages of a queue, visible or not.
func (q *testQueues) bodies(queue string) (bodies []string) {
	for _, m := range q.All(queue) {
		bodies = append(bodies, m.Body)
	}
	return bodies
}

// withQueue runs a test in a bubble: with a store, whose queue "jobs" holds the
// message "x", and a listener for it that does not run yet.
func withQueue(t *testing.T, invoke queueFunction, test func(t *testing.T, store *testQueues, l *queueListener)) {
	synctest.Test(t, func(t *testing.T) {
		store := newQueues(t)
		store.put(t, "jobs", base("x"))
		test(t, store, newListener(store, "jobs", invoke))
	})
}

func base(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }

// TestMessageOutcomes checks what happens to valid and invalid messages when
// their function succeeds or fails.
func TestMessageOutcomes(t *testing.T) {
	tests := []struct {
		name     string
		queue    string // default "jobs"
		body     string
		plain    bool
		dequeued int // earlier receives
		fails    bool
		refuse   string // the store operation that fails, and on which queue

		calls  int      // of the function within the hour after it came
		kept   []string // what is in the queue then
		poison []string
	}{
		{name: "success deletes", body: base("x"), calls: 1},
		{name: "five failures poison", body: base("x"), fails: true, calls: 5, poison: []string{base("x")}},
		{name: "earlier attempts count", body: base("x"), fails: true, dequeued: 4, calls: 1, poison: []string{base("x")}},
		{name: "too many attempts: poison without a call", body: base("x"), dequeued: 5, poison: []string{base("x")}},
		{name: "not base64: poison without a call", body: "not base64!", poison: []string{"not base64!"}},
		{name: "white space in base64 is ignored", body: "aGVs\n bG8=", calls: 1},
		{name: "plain text needs no base64", body: "not base64!", plain: true, calls: 1},
		{name: "empty message", body: "", calls: 1},
		{name: "no poison for a poison queue: retried when its lease ends", queue: "jobs-poison", body: base("x"), fails: true, calls: 6, kept: []string{base("x")}},
		{name: "no poison for a poison queue, undecodable", queue: "jobs-poison", body: "?", kept: []string{"?"}},
		{name: "no poison for a long name", queue: strings.Repeat("q", 57), body: base("x"), fails: true, calls: 6, kept: []string{base("x")}},
		{name: "maximum name with poison", queue: strings.Repeat("q", 56), body: base("x"), fails: true, calls: 5, poison: []string{base("x")}},
		{name: "a failed copy keeps the message", body: base("x"), fails: true, dequeued: 5, refuse: "Put jobs-poison", kept: []string{base("x")}},
		{name: "a failed delete delivers again", body: base("x"), refuse: "Delete jobs", calls: 5, kept: []string{base("x")},
			// The sixth delivery, 50 minutes later, is over the limit.
			poison: []string{base("x")}},
		{name: "a failed release waits for the lease", body: base("x"), fails: true, refuse: "Update jobs", calls: 5, poison: []string{base("x")}},
	}
	for _, tt := range tests {
		synctest.Test(t, func(t *testing.T) {
			store := newQueues(t)
			queue := tt.queue
			if queue == "" {
				queue = "jobs"
			}
			store.put(t, queue, tt.body)
			for range tt.dequeued {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				store.Receive(ctx, queue, 1, time.Second)
				cancel()
				time.Sleep(time.Second)
			}
			store.refuse = func(c memory.Call) error {
				if c.Op+" "+c.Key == tt.refuse {
					return errors.New("refused")
				}
				return nil
			}
			var calls atomic.Int64
			l := newListener(store, queue, func(context.Context, customhandler.QueueMessage) error {
				calls.Add(1)
				if tt.fails {
					return errFunction
				}
				return nil
			})
			l.settings.plainText = tt.plain
			listenFor(l.run, 59*time.Minute) // six leases of ten minutes
			if got := int(calls.Load()); got != tt.calls {
				t.Errorf("%s: calls of the function: got %d, want %d", tt.name, got, tt.calls)
			}
			same(t, tt.name+": queue", store.bodies(queue), tt.kept)
			same(t, tt.name+": poison queue", store.bodies(queue+"-poison"), tt.poison)
		})
	}
}

// TestRetryDelay checks that a failed message becomes visible again at once, or
// after visibilityTimeout.
func TestRetryDelay(t *testing.T) {
	for _, visibility := range []time.Duration{0, 30 * time.Second} {
		var tries []time.Time
		fails := func(context.Context, customhandler.QueueMessage) error {
			tries = append(tries, time.Now())
			return errFunction
		}
		withQueue(t, fails, func(t *testing.T, store *testQueues, l *queueListener) {
			var poisoned time.Time
			store.refuse = func(c memory.Call) error {
				if c.Op == "Put" {
					poisoned = time.Now()
				}
				return nil
			}
			l.settings.visibility = visibility
			listenFor(l.run, 10*time.Minute)
			if len(tries) != 5 || !poisoned.Equal(tries[4]) {
				t.Fatalf("visibilityTimeout %v: got %d attempts, poisoned at %v, want 5 and then at once", visibility, len(tries), poisoned)
			}
			for i, try := range tries[1:] {
				// A poll is late by at most the maximum polling delay.
				if delay := try.Sub(tries[i]); delay < visibility || delay > visibility+developmentPolling {
					t.Errorf("visibilityTimeout %v: attempt %d came after %v", visibility, i+2, delay)
				}
			}
		})
	}
}

// TestLongRunKeepsMessage checks that the lease of a message is renewed during
// a long run, sooner after an error, and that the message is deleted with the
// newest receipt.
func TestLongRunKeepsMessage(t *testing.T) {
	for _, tt := range []struct {
		fails int // renewals, from the first one on
		takes time.Duration
		want  []float64 // minutes at which it is renewed
	}{
		{0, 27 * time.Minute, []float64{5, 10, 15, 20, 25}},
		{3, 16 * time.Minute, []float64{5, 7.5, 8.75, 9.75, 14.75}},
	} {
		calls := 0
		long := func(context.Context, customhandler.QueueMessage) error {
			calls++
			time.Sleep(tt.takes)
			return nil
		}
		withQueue(t, long, func(t *testing.T, store *testQueues, l *queueListener) {
			begin := time.Now()
			var renewed []float64
			store.refuse = func(c memory.Call) error {
				if c.Op == "Update" {
					if renewed = append(renewed, time.Since(begin).Minutes()); len(renewed) <= tt.fails {
						return errors.New("busy")
					}
				}
				return nil
			}
			listenFor(l.run, time.Hour)
			if diff := cmp.Diff(renewed, tt.want); diff != "" || calls != 1 || len(store.bodies("jobs")) != 0 {
				t.Errorf("%d calls, %v left, renewals (got -, want +):\n%s", calls, store.bodies("jobs"), diff)
			}
		})
	}
}

// TestPollBackoff checks that polls of an empty or missing queue become less
// frequent up to the cap, and that a message resets the pause.
func TestPollBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newQueues(t)
		var receives []time.Time
		store.refuse = func(c memory.Call) error {
			if c.Op == "Receive" {
				receives = append(receives, time.Now())
			}
			return nil
		}
		stop := listen(newListener(store, "missing", func(context.Context, customhandler.QueueMessage) error { return nil }).run)
		time.Sleep(20 * time.Second)
		store.put(t, "missing", base("x"))
		time.Sleep(10 * time.Second)
		stop()

		var got []time.Duration
		for i, at := range receives[1:] {
			got = append(got, at.Sub(receives[i]))
		}
		ms := time.Millisecond
		want := []struct{ low, high time.Duration }{{100 * ms, 100 * ms}, {180 * ms, 220 * ms}, {260 * ms, 340 * ms}, {420 * ms, 580 * ms}, {740 * ms, 1060 * ms}, {1380 * ms, 2000 * ms}, {2000 * ms, 2000 * ms}, {2000 * ms, 2000 * ms}}
		for i, w := range want {
			if got[i] < w.low || got[i] > w.high {
				t.Errorf("pause %d: got %v, want %v to %v", i+1, got[i], w.low, w.high)
			}
		}
		// The poll that finds the message is followed by one at once, then by
		// short pauses again.
		for i, pause := range got {
			if pause == 0 {
				if next := got[i+1]; next < 180*ms || next > 220*ms {
					t.Errorf("first pause after a message: got %v, want about 200 ms", next)
				}
				return
			}
		}
		t.Errorf("no poll followed the message at once: %v", got)
	})
}

// TestConcurrency checks that batchSize + newBatchThreshold functions run at a
// time while there is enough work, and never more.
func TestConcurrency(t *testing.T) {
	for _, tt := range []struct{ batch, threshold, want int }{{16, 8, 24}, {1, 0, 1}, {4, 0, 4}, {2, 3, 5}} {
		const messages = 60
		var mu sync.Mutex
		active, peak, begun := 0, 0, 0
		work := func(context.Context, customhandler.QueueMessage) error {
			mu.Lock()
			active, begun = active+1, begun+1
			peak = max(peak, active)
			takes := time.Second + time.Duration(begun)*time.Millisecond // no two end at the same moment
			mu.Unlock()
			time.Sleep(takes)
			mu.Lock()
			active--
			mu.Unlock()
			return nil
		}
		withQueue(t, work, func(t *testing.T, store *testQueues, l *queueListener) {
			for range messages - 1 {
				store.put(t, "jobs", base("x"))
			}
			l.settings.batchSize, l.settings.newBatchThreshold = tt.batch, tt.threshold
			listenFor(l.run, 9*time.Minute)
			if peak != tt.want || begun != messages {
				t.Errorf("batchSize %d, newBatchThreshold %d: got %d at a time and %d done, want %d and %d",
					tt.batch, tt.threshold, peak, begun, tt.want, messages)
			}
		})
	}
}

// TestStopFinishesRunning checks that a stopping listener receives no more
// messages, waits for the running function, and deletes its message.
func TestStopFinishesRunning(t *testing.T) {
	var got customhandler.QueueMessage
	work := func(_ context.Context, m customhandler.QueueMessage) error {
		got = m
		time.Sleep(5 * time.Second)
		return nil
	}
	withQueue(t, work, func(t *testing.T, store *testQueues, l *queueListener) {
		begin := time.Now()
		stop := listen(l.run)
		time.Sleep(time.Second)
		store.put(t, "jobs", base("late"))
		stop()
		if took := time.Since(begin); took != 5*time.Second {
			t.Errorf("stopped after %v, want 5s", took)
		}
		same(t, "queue", store.bodies("jobs"), []string{base("late")})
		want := customhandler.QueueMessage{Text: "x", ID: "00000000-0000-4000-8000-000000000001", PopReceipt: "receipt-2", DequeueCount: 1,
			Inserted: begin, Expires: begin.Add(7 * 24 * time.Hour), NextVisible: begin.Add(10 * time.Minute)}
		same(t, "message", got, want)
	})
}

// TestWorkCutShort checks that cancelled work at the stop of the host is not
// treated as a failure: the message is left as after a crash.
func TestWorkCutShort(t *testing.T) {
	work := func(ctx context.Context, _ customhandler.QueueMessage) error {
		<-ctx.Done()
		return ctx.Err()
	}
	withQueue(t, work, func(t *testing.T, store *testQueues, l *queueListener) {
		store.refuse = func(c memory.Call) error {
			if c.Op != "Receive" {
				t.Errorf("the listener sent %s", c.Op)
			}
			return nil
		}
		l.settings.maxDequeueCount = 1
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		l.run(ctx, ctx)
		same(t, "queue", store.bodies("jobs"), []string{base("x")})
	})
}

// TestUnreadableQueue checks that a queue that cannot be read is reported once
// and retried.
func TestUnreadableQueue(t *testing.T) {
	calls := 0
	work := func(context.Context, customhandler.QueueMessage) error { calls++; return nil }
	withQueue(t, work, func(t *testing.T, store *testQueues, l *queueListener) {
		back := time.Now().Add(time.Minute)
		store.refuse = func(c memory.Call) error {
			if c.Op == "Receive" && time.Now().Before(back) {
				return errors.New("server busy")
			}
			return nil
		}
		log := newTranscript()
		l.log = slog.New(slog.NewTextHandler(log, nil))
		listenFor(l.run, 2*time.Minute)
		if n := strings.Count(log.String(), "server busy"); calls != 1 || n != 1 {
			t.Errorf("got %d calls and %d reports, want 1 of each:\n%s", calls, n, log)
		}
	})
}
