package queues

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"kennel/internal/attempt"
	"kennel/internal/memory"
	"kennel/internal/program"
	"kennel/internal/storetest"
	"kennel/internal/table"
	"kennel/queue"
)

// kinds are the orders of the tests, and whether they become dead letters.
var kinds = map[string]bool{
	"quick": false, "slow": false, "fails twice": false, "snoozes": false, "later": false, "long": false, "panics": true, "rejected": true, "fails": true,
}

// noise is a text that cannot be compressed into a message.
func noise(n int) string {
	random := rand.New(rand.NewPCG(uint64(n), 1))
	b := make([]byte, n)
	for i := range b {
		b[i] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"[random.IntN(64)]
	}
	return string(b)
}

// send sends an order of each kind to each queue and returns those that were
// confirmed.
func send(ctx context.Context, q *Queues, first int) (confirmed map[int]order) {
	confirmed = make(map[int]order)
	n := first
	for _, name := range []string{"orders", "mails", "bills"} {
		for _, kind := range slices.Sorted(maps.Keys(kinds)) {
			n++
			o := order{Kind: kind, N: n}
			if kind == "long" {
				o.Pad = noise(100 << 10)
			}
			if id, err := q.Send(ctx, name, o.text(), 0); err == nil && id != "" {
				confirmed[n] = o
			}
		}
	}
	return confirmed
}

// check compares what was done with what was confirmed.
func (w *world) check(t *testing.T, confirmed map[int]order) {
	t.Helper()
	letters := w.letters(t)
	w.mu.Lock()
	defer w.mu.Unlock()
	for n, o := range confirmed {
		if dies := kinds[o.Kind]; dies && len(letters[n]) == 0 || !dies && w.done[n] == 0 {
			t.Errorf("order %d (%s) was called %d times, done %d times and has %d dead letters", n, o.Kind, w.calls[n], w.done[n], len(letters[n]))
		}
		for _, e := range letters[n] {
			switch {
			case !kinds[o.Kind] && w.done[n] > 0 && strings.Contains(e.Reason, "claim of the message is gone"):
				// A second copy, see letters. The insert of its claim came late, after
				// the claim was removed.
			case !kinds[o.Kind] && !strings.Contains(e.Reason, "killed"):
				t.Errorf("order %d (%s) is a dead letter: %s", n, o.Kind, e.Reason)
			case w.words[n] == 0:
				t.Errorf("order %d (%s) became a dead letter without a last word", n, o.Kind)
			}
		}
	}
	for _, name := range []string{"orders", "jobs"} {
		if left := w.queues.All(name); len(left) > 0 {
			t.Errorf("queue %s has %d messages left", name, len(left))
		}
	}
}

// TestEndings: each kind of order ends as it should, behind a host and in a
// worker, with as many attempts as the rules say, and leaves no claim behind.
func TestEndings(t *testing.T) {
	for _, hosted := range []bool{true, false} {
		t.Run(fmt.Sprint("hosted ", hosted), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(nil)
				p := storetest.NewProcess(nil)
				q := w.open(t, p, hosted, nil)
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				confirmed := send(ctx, q, 0)
				w.live(ctx, t, p, q)
				if len(confirmed) != 3*len(kinds) {
					t.Fatalf("%d are confirmed", len(confirmed))
				}
				w.check(t, confirmed)
				letters := w.letters(t)
				for n, o := range confirmed {
					want := map[string]int{"quick": 1, "slow": 1, "long": 1, "fails twice": 3, "snoozes": 4, "later": 3, "panics": 20, "fails": 20, "rejected": 1}[o.Kind]
					number := map[string]int{"snoozes": 1}[o.Kind]
					if number == 0 {
						number = want
					}
					if w.calls[n] != want || w.numbers[n] != number {
						t.Errorf("%s was called %d times, at most with number %d; want %d, %d", o.Kind, w.calls[n], w.numbers[n], want, number)
					}
					reason := map[string]string{"panics": "world_test.go", "fails": "broken", "rejected": "broken"}[o.Kind]
					for _, e := range letters[n] {
						if !strings.Contains(e.Reason, reason) || e.Attempts != want || len(letters[n]) != 1 || w.words[n] != 1 {
							t.Errorf("%s has %d dead letters, %d last words, %d attempts: %s", o.Kind, len(letters[n]), w.words[n], e.Attempts, e.Reason)
						}
					}
				}
				if page, err := w.rows.Query(context.WithoutCancel(ctx), table.Query{Top: 10}); len(page.Rows) != 0 || err != nil {
					t.Errorf("%d rows of claims are left, %v", len(page.Rows), err)
				}
			})
		})
	}
}

// TestForeignMessages: what another program puts into a queue is the body, in
// base64 or not, and its deliveries count.
func TestForeignMessages(t *testing.T) {
	for _, hosted := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(nil)
			p := storetest.NewProcess(nil)
			q := w.open(t, p, hosted, nil)
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			for i, kind := range []string{"fails twice", "fails", "rejected", "quick"} {
				body := string(order{Kind: kind, N: i + 1}.text())
				if i%2 == 0 {
					body = inBase64(body)
				}
				if _, err := w.queues.Put(ctx, "orders", body, 0); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := w.queues.Put(ctx, "orders", "no JSON at all", 0); err != nil {
				t.Fatal(err)
			}
			w.live(ctx, t, p, q)
			letters := w.letters(t)
			if w.done[1] != 1 || w.done[4] != 1 || len(letters) != 3 || len(letters[2]) != 1 || letters[2][0].Attempts != 20 || len(letters[3]) != 1 || len(letters[-1]) != 1 {
				t.Errorf("hosted %v: done %v, dead letters %+v", hosted, w.done, letters)
			}
		})
	}
}

// TestRollout: a message that this build cannot read, or whose queue it does not
// declare, waits for another build as long as one is seen.
func TestRollout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(nil)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Hour)
		defer cancel()
		p := storetest.NewProcess(nil)
		sender := w.open(t, p, true, nil)
		for i := range 20 {
			if _, err := sender.Send(ctx, "orders", fmt.Appendf(nil, `{"kind":{"name":"quick"},"n":%d}`, i+1), 0); err != nil {
				t.Fatal(err)
			}
		}
		for _, hosted := range []bool{true, false} {
			old := w.open(t, p, hosted, &Options{Others: func(context.Context) (bool, error) { return true, nil }})
			rollout, stop := context.WithTimeout(ctx, 2*time.Hour)
			w.live(rollout, t, p, old)
			stop()
			if len(old.Problems()) == 0 {
				t.Error("the messages are no problem")
			}
		}
		if n := len(w.queues.All("orders")); n != 20 || len(w.letters(t)) != 0 {
			t.Fatalf("%d messages wait, and there are dead letters %v", n, w.letters(t))
		}
		next := w.open(t, p, false, nil)
		next.declared["orders"].Work = func(_ context.Context, body []byte) error {
			var o struct {
				Kind struct{ Name string }
				N    int
			}
			err := json.Unmarshal(body, &o)
			w.done[o.N]++
			return err
		}
		next.declared["orders"].slots = make(chan struct{}, 1)
		rollout, stop := context.WithTimeout(ctx, time.Hour)
		defer stop()
		w.live(rollout, t, p, next)
		if len(w.done) != 20 || len(w.letters(t)) != 0 {
			t.Errorf("%d are done, dead letters %v", len(w.done), w.letters(t))
		}
	})
}

// TestStopIsNoAttempt: what runs when a process stops is put back without an
// attempt, behind a host and in a worker, whatever its handler returns.
func TestStopIsNoAttempt(t *testing.T) {
	for _, hosted := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(nil)
			p := storetest.NewProcess(nil)
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Hour)
			defer cancel()
			for life := range 25 {
				q := w.open(t, p, hosted, nil)
				if life == 0 {
					if _, err := q.Send(ctx, "orders", order{Kind: "slow", N: 1}.text(), 0); err != nil {
						t.Fatal(err)
					}
				}
				short, stop := context.WithTimeout(ctx, 10*time.Second)
				w.live(short, t, p, q)
				stop()
			}
			if w.numbers[1] != 1 || w.calls[1] < 20 || w.done[1] != 0 {
				t.Errorf("hosted %v: called %d times, with numbers up to %d, done %d times", hosted, w.calls[1], w.numbers[1], w.done[1])
			}
			q := w.open(t, p, hosted, nil)
			last, stop := context.WithTimeout(ctx, 10*time.Minute)
			defer stop()
			w.live(last, t, p, q)
			if w.done[1] != 1 {
				t.Errorf("hosted %v: done %d times", hosted, w.done[1])
			}
		})
	}
}

// TestWaitsFortyDays: a queue that no process receives for 40 days loses nothing.
func TestWaitsFortyDays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(nil)
		p := storetest.NewProcess(nil)
		q := w.open(t, p, false, nil)
		ctx, cancel := context.WithTimeout(t.Context(), 50*24*time.Hour)
		defer cancel()
		confirmed := send(ctx, q, 0)
		for range 40 {
			time.Sleep(24 * time.Hour)
			sweep, stop := context.WithTimeout(ctx, time.Minute)
			if err := q.Sweep(sweep); err != nil {
				t.Fatal(err)
			}
			stop()
		}
		last, stop := context.WithTimeout(ctx, time.Hour)
		defer stop()
		w.live(last, t, p, q)
		w.check(t, confirmed)
	})
}

// TestOutage: an hour in which what the handler calls is down makes no dead
// letter of thousands of messages, and 70 minutes after its end all are done. A worker
// needs up to 16 requests for each; behind a host each of about twelve failed
// attempts costs a put and a delete.
func TestOutage(t *testing.T) {
	for _, hosted := range []bool{true, false} {
		messages, limit := storetest.Scale(60, 3000), 16.0
		if hosted {
			messages, limit = storetest.Scale(60, 2000), 26.0
		}
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(nil)
			p := storetest.NewProcess(nil)
			ctx, cancel := context.WithTimeout(t.Context(), 24*time.Hour)
			defer cancel()
			q := w.open(t, p, hosted, nil)
			began := time.Now()
			var mu sync.Mutex
			done, lastDone := 0, time.Duration(0)
			o := q.declared["orders"]
			o.Retry, o.Concurrency = nil, 32
			o.slots = make(chan struct{}, 32)
			o.Work = func(context.Context, []byte) error {
				if time.Since(began) < time.Hour {
					return errBroken
				}
				mu.Lock()
				defer mu.Unlock()
				done, lastDone = done+1, time.Since(began)
				return nil
			}
			for i := range messages {
				if _, err := q.Send(ctx, "orders", order{N: i}.text(), 0); err != nil {
					t.Fatal(err)
				}
			}
			before := w.queues.Calls()
			day, stop := context.WithTimeout(ctx, 6*time.Hour)
			defer stop()
			w.live(day, t, p, q)
			polls := w.queues.CallsOf("Receive") + w.queues.CallsOf("Count")
			each := float64(w.queues.Calls()-before-polls) / float64(messages)
			t.Logf("figure: an hour's outage of what the handler calls, hosted %v: dead letters, requests a message without polls, all done after its end | %d, %.1f, %v | 0, %.0f, 70 min", hosted, len(w.letters(t)), each, (lastDone - time.Hour).Round(time.Minute), limit)
			if done != messages || len(w.letters(t)) != 0 || lastDone > 130*time.Minute || each > limit {
				t.Errorf("hosted %v: %d of %d done, the last after %v, %d dead letters, %.1f requests each", hosted, done, messages, lastDone, len(w.letters(t)), each)
			}
		})
	}
}

// TestKilledThroughout kills a process before and after each of its requests,
// and another one finishes: no confirmed message is lost.
func TestKilledThroughout(t *testing.T) {
	for _, hosted := range []bool{true, false} {
		t.Run(fmt.Sprint("hosted ", hosted), func(t *testing.T) {
			t.Parallel()
			ran := storetest.KillAtEachRequest(t, storetest.Scale(197, 1), func(t *testing.T, kill *storetest.Killer) {
				w := newWorld(nil)
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Hour)
				defer cancel()
				p := storetest.NewProcess(kill)
				w.attempts = 4
				q := w.open(t, p, hosted, nil)
				life, stop := context.WithTimeout(p.Context(), 30*time.Minute)
				confirmed := send(life, q, 0)
				w.untilEmpty(life, t, p, q)
				stop()
				w.queues.Wait()
				again := storetest.NewProcess(nil)
				rest, stop := context.WithTimeout(ctx, time.Hour)
				defer stop()
				w.untilEmpty(rest, t, again, w.open(t, again, hosted, nil))
				w.check(t, confirmed)
			})
			t.Logf("figure: confirmed messages lost, a process killed before and after each request, hosted %v (%d runs) | 0 | 0", hosted, ran)
		})
	}
}

// TestNumbers: the number of an attempt counts the failed ones and the deliveries
// that ended with their process; a worker forgives those of messages that it may
// not have begun.
func TestNumbers(t *testing.T) {
	for _, tt := range []struct {
		failed       int
		seen, now    int64
		hosted, work int
	}{
		{0, 0, 1, 1, 1}, {0, 0, 2, 2, 1}, {0, 0, 5, 5, 1}, {0, 0, 6, 6, 2}, {3, 0, 1, 4, 4}, {3, 7, 8, 4, 4}, {3, 7, 9, 5, 4}, {3, 9, 8, 4, 4}, {19, 0, 30, 49, 45},
	} {
		e := queue.Envelope{Attempts: tt.failed, Seen: tt.seen}
		if hosted, work := numberOf(e, tt.now, true), numberOf(e, tt.now, false); hosted != tt.hosted || work != tt.work {
			t.Errorf("%d failed, seen %d, delivered %d: %d and %d, want %d and %d", tt.failed, tt.seen, tt.now, hosted, work, tt.hosted, tt.work)
		}
	}
}

// TestJudge: what becomes of a delivery after each outcome.
func TestJudge(t *testing.T) {
	var text strings.Builder
	q := newWorld(nil).open(t, storetest.NewProcess(nil), true, &Options{Log: slog.New(slog.NewTextHandler(&text, nil))})
	declared := &program.Queue{MaxAttempts: 3, Retry: func(failed int, _ error) time.Duration { return time.Duration(failed) * time.Minute }}
	for _, tt := range []struct {
		err      error
		number   int
		fate     fate
		attempts int
		wait     time.Duration
	}{
		{nil, 3, fateDone, 0, 0},
		{errBroken, 1, fateAgain, 1, time.Minute}, {errBroken, 2, fateAgain, 2, 2 * time.Minute}, {errBroken, 3, fateDead, 3, 0}, {errBroken, 4, fateDead, 4, 0},
		{attempt.Reject(errBroken), 1, fateDead, 1, 0},
		{attempt.RetryAfter(time.Hour, errBroken), 2, fateAgain, 2, time.Hour}, {attempt.RetryAfter(time.Hour, errBroken), 3, fateDead, 3, 0},
		{attempt.Snooze(time.Hour), 3, fateAgain, 2, time.Hour},
		{attempt.Snooze(10_000 * time.Hour), 1, fateAgain, 0, MaxDelay}, {attempt.RetryAfter(10_000*time.Hour, errBroken), 1, fateAgain, 1, MaxDelay},
	} {
		got := q.judge(t.Context(), declared, attempt.Attempt{Number: tt.number}, attempt.VerdictOf(tt.err))
		if got.fate != tt.fate || tt.fate != fateDone && got.attempts != tt.attempts || got.wait != tt.wait {
			t.Errorf("%v at %d: %+v", tt.err, tt.number, got)
		}
	}
	if text.String() != "" {
		t.Errorf("the log is %q", &text)
	}
	declared.Retry = func(int, error) time.Duration { panic("oh") }
	got := q.judge(t.Context(), declared, attempt.Attempt{Number: 1}, attempt.VerdictOf(errBroken))
	if got.fate != fateAgain || got.attempts != 1 || got.wait < time.Second || got.wait > 2*time.Second || !strings.Contains(text.String(), "panic: oh") {
		t.Errorf("a Retry that panics: %+v; the log is %q", got, &text)
	}
}

// TestSendRefuses: what cannot be sent is refused before a request.
func TestSendRefuses(t *testing.T) {
	w := newWorld(nil)
	q := w.open(t, storetest.NewProcess(nil), true, nil)
	_, err1 := q.Send(t.Context(), "none", nil, 0)
	_, err2 := q.Send(t.Context(), "orders", make([]byte, queue.MaxContent+1), 0)
	_, err3 := q.Send(t.Context(), "orders", nil, -time.Second)
	_, err4 := q.Send(t.Context(), "orders", nil, 8*24*time.Hour)
	if !errors.Is(err1, ErrUnknown) || !errors.Is(err2, ErrTooLarge) || !errors.Is(err3, ErrDelay) || !errors.Is(err4, ErrDelay) || w.queues.Calls() != 0 {
		t.Errorf("%v, %v, %v, %v and %d requests", err1, err2, err3, err4, w.queues.Calls())
	}
}

// TestNoPuts: while storage takes no message, none is lost that must be put
// again or among the dead letters, behind a host and in a worker, which puts one
// again that was delivered often.
func TestNoPuts(t *testing.T) {
	for _, refused := range [][]string{{"Put"}, {"Put", "Update"}} {
		for _, hosted := range []bool{true, false} {
			synctest.Test(t, func(t *testing.T) {
				var refuses atomic.Bool
				w := newWorld(&memory.Options{Fault: func(c memory.Call) memory.Fault {
					if refuses.Load() && slices.Contains(refused, c.Op) {
						return memory.Fault{Err: memory.ErrBusy, Lost: true}
					}
					return memory.Fault{}
				}})
				p := storetest.NewProcess(nil)
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Hour)
				defer cancel()
				q := w.open(t, p, hosted, nil)
				confirmed := make(map[int]order)
				for i, kind := range []string{"fails twice", "fails often", "later", "snoozes", "rejected", "quick"} {
					o := order{Kind: kind, N: i + 1}
					if _, err := q.Send(ctx, "orders", o.text(), 0); err != nil {
						t.Fatal(err)
					}
					confirmed[o.N] = o
				}
				refuses.Store(true)
				time.AfterFunc(5*time.Minute, func() { refuses.Store(false) })
				hour, stop := context.WithTimeout(ctx, time.Hour)
				defer stop()
				w.live(hour, t, p, q)
				w.check(t, confirmed)
			})
		}
	}
}
