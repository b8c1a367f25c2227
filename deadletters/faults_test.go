package deadletters_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"kennel/deadletters"
	"kennel/internal/memory"
	"kennel/internal/storetest"
	"kennel/queue"
)

// TestPrivate: the body of a letter is not shown if its envelope says that it is
// private, whatever this program knows of its queue.
func TestPrivate(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		w := newWorld(t, nil)
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		for _, body := range []string{"hunter2", "hunter2" + noise(1, 47_000)} {
			text, err := w.claims(nil).Pack(ctx, queue.Envelope{ID: body[:min(len(body), 20)], Time: time.Now(), Reason: "r", Private: true}, []byte(body))
			if err != nil {
				t.Fatal(err)
			}
			w.put(poison, text)
		}
		for _, l := range w.front(w.letters(nil, deadletters.Options{})) {
			if l.Body != "" || len(l.SHA256) != 64 || l.Size < 7 || l.Problem == "" {
				t.Errorf("shown %+v", l)
			}
		}
	})
}

// TestLeft redrives letters that cannot be moved, beside one that can. They stay
// visible, with the reason.
func TestLeft(t *testing.T) {
	t.Parallel()
	envelope := func(w *world, body string) queue.Envelope {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		text, err := w.claims(nil).Pack(ctx, queue.Envelope{ID: "a", Time: time.Now(), Reason: "r", Raw: strings.HasPrefix(body, "raw")}, []byte(body))
		e, err2 := queue.Parse(text)
		if err = errors.Join(err, err2); err != nil {
			t.Fatal(err)
		}
		return e
	}
	text := func(e queue.Envelope) string {
		text, err := e.Text()
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	long := noise(1, 47_000)
	for name, c := range map[string]struct {
		letter          func(*world) string
		o               deadletters.Options
		problem, reason string
	}{
		"claim gone": {func(w *world) string {
			e := envelope(w, long)
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			if err := w.claims(nil).Remove(ctx, e); err != nil {
				t.Fatal(err)
			}
			return text(e)
		}, deadletters.Options{}, "is gone", "is gone"},
		"claims unknown": {func(w *world) string { return text(envelope(w, long)) }, deadletters.Options{
			Claims: func(string) (*queue.Claims, error) { return nil, nil },
		}, "does not know", "does not know"},
		"claims unreadable": {func(w *world) string { return text(envelope(w, long)) }, deadletters.Options{
			Claims: func(string) (*queue.Claims, error) { return nil, errors.New("no account") },
		}, "could not be read", "could not be read"},
		"body damaged": {func(w *world) string {
			return strings.Replace(text(envelope(w, "raw text")), "raw text", "raw taxt", 1)
		}, deadletters.Options{}, "damaged", "damaged"},
		"longer than before": {func(w *world) string { return inBase64(text(envelope(w, "raw"+noise(1, 60_000)))) }, deadletters.Options{}, "", "too long"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				w := newWorld(t, nil)
				w.create(source)
				w.put(poison, c.letter(w), "other")
				time.Sleep(time.Second)
				l := w.letters(nil, c.o)
				list := w.front(l)
				if len(list) != 2 || !strings.Contains(list[0].Problem, c.problem) || (list[0].Body == "") != (c.problem != "") || list[0].Reason != "r" || list[0].Size == 0 {
					t.Errorf("listed %+.300v", list)
				}
				for range 2 {
					r, err := l.Redrive(t.Context(), poison, all)
					if err != nil || len(r.Left) != 1 || r.Left[0].ID != list[0].ID || !strings.Contains(r.Left[0].Reason, c.reason) || r.Matched != r.Moved+1 || r.More {
						t.Errorf("%+v, %v", r, err)
					}
				}
				if n := w.visible(poison); n != 1 || !slices.Equal(w.bodies(source), []string{"other"}) {
					t.Errorf("%d letters are visible, put %q", n, w.bodies(source))
				}
				if d, err := l.Delete(t.Context(), poison, all); err != nil || d.Deleted != 1 {
					t.Errorf("%+v, %v", d, err)
				}
			})
		})
	}
}

// TestLeftAreBeyondLimit checks that letters that cannot be moved do not keep a
// call with a low limit from the others.
func TestLeftAreBeyondLimit(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		w := newWorld(t, distant)
		w.create(source)
		for i := range 40 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			text, err := w.claims(nil).Pack(ctx, queue.Envelope{ID: fmt.Sprint(i), Time: time.Now(), Reason: "r", Raw: true}, []byte("raw text"))
			if err != nil {
				t.Fatal(err)
			}
			w.put(poison, strings.Replace(text, "raw text", "raw taxt", 1))
		}
		w.put(poison, "a", "b", "c")
		time.Sleep(time.Second)
		r, err := w.letters(nil, deadletters.Options{}).Redrive(t.Context(), poison, deadletters.Selection{All: true, Limit: 2})
		if put := len(w.bodies(source)); err != nil || r.Moved != 2 || put != 2 || !r.More || len(r.Left) != deadletters.MaxLeft {
			t.Errorf("%+v, %v, put %d", r, err, put)
		}
		if n := w.visible(poison); n != 41 {
			t.Errorf("%d letters are visible", n)
		}
	})
}

// TestClaimIsExtended redrives a letter whose claim would expire too early.
func TestClaimIsExtended(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		w := newWorld(t, nil)
		ctx, cancel := context.WithTimeout(t.Context(), 30*24*time.Hour)
		defer cancel()
		claims, body := w.claims(nil), noise(1, 47_000)
		text, err := claims.Pack(ctx, queue.Envelope{ID: "a", Time: time.Now(), Attempts: 2}, []byte(body))
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(12 * 24 * time.Hour) // in two queues
		w.create(source)
		w.put(poison, text)
		if r, err := w.letters(nil, deadletters.Options{}).Redrive(ctx, poison, all); err != nil || r.Moved != 1 {
			t.Fatalf("%+v, %v", r, err)
		}
		e, got, err := claims.Unpack(ctx, w.bodies(source)[0])
		if err != nil || string(got) != body || e.ID != "a" || e.Attempts != 0 || e.ClaimExpires().Before(time.Now().Add(queue.ClaimTime)) {
			t.Errorf("%+v, %v, expires %v", e.ID, err, e.ClaimExpires())
		}
		if n := w.rows.Rows(""); n != 2 {
			t.Errorf("%d claims, want the old one, too", n)
		}
	})
}

// TestRefused checks that a refusal ends the call with its error.
func TestRefused(t *testing.T) {
	t.Parallel()
	for _, op := range []string{"List", "Receive", "Put", "Delete", "Count", "Peek"} {
		t.Run(op, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				var refusing atomic.Bool
				w := newWorld(t, func(c memory.Call) memory.Fault {
					if f := distant(c); !refusing.Load() || c.Op != op {
						return f
					}
					return memory.Fault{Delay: 10 * time.Millisecond, Lost: true, Err: queue.ErrRefused}
				})
				w.fill(200)
				refusing.Store(true)
				l := w.letters(nil, deadletters.Options{})
				began := time.Now()
				r, err := l.Redrive(t.Context(), poison, all)
				if refused := op != "Count" && op != "Peek"; errors.Is(err, queue.ErrRefused) != refused {
					t.Errorf("redrive: %+v, %v", r, err)
				}
				if op == "Delete" && (r.Moved == 0 || r.Moved > 64 || !r.More) {
					t.Errorf("redrive: %+v; want it to end early", r)
				}
				if took := time.Since(began); took > 2*time.Second {
					t.Errorf("took %v", took)
				}
				d, err := l.Delete(t.Context(), poison, all)
				if refused := op == "Receive" || op == "Delete"; errors.Is(err, queue.ErrRefused) != refused {
					t.Errorf("delete: %+v, %v", d, err)
				}
				_, err = l.Front(t.Context(), poison)
				if refused := op == "Count" || op == "Peek"; errors.Is(err, queue.ErrRefused) != refused {
					t.Errorf("front: %v", err)
				}
			})
		})
	}
}

// TestOutage checks that a call without storage ends in time, with an error if it
// did nothing.
func TestOutage(t *testing.T) {
	t.Parallel()
	for name, down := range map[string]memory.Fault{
		"errors":    {Lost: true, Err: errors.New("connection refused")},
		"no answer": {Lost: true},
	} {
		for _, after := range []int64{0, 1, 40} { // requests
			t.Run(fmt.Sprint(name, " after ", after), func(t *testing.T) {
				inBubble(t, func(t *testing.T) {
					var from atomic.Int64
					from.Store(1 << 60)
					w := newWorld(t, func(c memory.Call) memory.Fault {
						if c.N > from.Load() {
							return down
						}
						return distant(c)
					})
					w.create(source)
					for i := range 100 {
						w.put(poison, fmt.Sprint("letter ", i))
					}
					from.Store(w.queues.Calls() + after)
					began := time.Now()
					r, err := w.letters(nil, deadletters.Options{}).Redrive(t.Context(), poison, all)
					if took := time.Since(began); took > deadletters.MaxCall || (err == nil) != (r.Moved > 0) || err == nil && !r.More {
						t.Errorf("%+v, %v after %v", r, err, took)
					}
					from.Store(1 << 60)
					time.Sleep(deadletters.MaxHidden)
					w.redriven(100)
				})
			})
		}
	}
}

// TestPutsFail checks that letters stay while no put is answered.
func TestPutsFail(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		var failing atomic.Bool
		w := newWorld(t, func(c memory.Call) memory.Fault {
			if failing.Load() && c.Op == "Put" {
				return memory.Fault{Lost: true, Err: errors.New("connection refused")}
			}
			return distant(c)
		})
		w.fill(50)
		failing.Store(true)
		r, err := w.letters(nil, deadletters.Options{}).Redrive(t.Context(), poison, all)
		if err != nil || r.Moved > 0 || len(r.Left) != deadletters.MaxLeft || !strings.Contains(r.Left[0].Reason, "did not confirm") {
			t.Errorf("%+v, %v", r, err)
		}
		if n := w.visible(poison); n != 50 {
			t.Errorf("%d letters are visible, want 50", n)
		}
		failing.Store(false)
		w.redriven(50)
	})
}

// redriven redrives what is left and checks that each of the bodies that put put
// arrived.
func (w *world) redriven(letters int) {
	w.t.Helper()
	if _, err := redriveAll(context.Background(), w.letters(nil, deadletters.Options{})); err != nil {
		w.t.Error(err)
	}
	arrived := make(map[string]bool)
	for _, body := range w.bodies(source) {
		arrived[body] = true
	}
	if left := len(w.bodies(poison)); left > 0 || len(arrived) != letters {
		w.t.Errorf("%d letters are left, %d messages arrived of %d", left, len(arrived), letters)
	}
}

// TestCancelled checks that a call ends soon after its ctx, keeps what it moved,
// and makes the others visible.
func TestCancelled(t *testing.T) {
	t.Parallel()
	for _, after := range []time.Duration{5 * time.Millisecond, 25 * time.Millisecond, 45 * time.Millisecond, 75 * time.Millisecond, 310 * time.Millisecond} {
		inBubble(t, func(t *testing.T) {
			w := newWorld(t, distant)
			w.fill(1000)
			ctx, cancel := context.WithTimeoutCause(t.Context(), after, errors.New("gave up"))
			ctx, cancel2 := context.WithCancel(context.WithoutCancel(ctx))
			time.AfterFunc(after, cancel2) // without a deadline
			defer cancel()
			r, err := w.letters(nil, deadletters.Options{}).Redrive(ctx, poison, all)
			if (err == nil) != (r.Moved > 0) || !r.More && err == nil {
				t.Errorf("after %v: %+v, %v", after, r, err)
			}
			w.queues.Wait()
			put := len(w.bodies(source))
			if left := w.bodies(poison); put+len(left) != 1000 || w.visible(poison) != len(left) || put != r.Moved {
				t.Errorf("after %v: %d put, %d moved, %d left, %d of them visible", after, put, r.Moved, len(left), w.visible(poison))
			}
		})
	}
}

// TestFaultAtEachRequest makes each request of a redrive fail in each way. Each
// message arrives, at most one of them twice.
func TestFaultAtEachRequest(t *testing.T) {
	t.Parallel()
	lost := errors.New("connection reset")
	ran, step := 0, storetest.Scale(60, 2)
	for name, fault := range map[string]memory.Fault{
		"refused by the network": {Lost: true, Err: lost},
		"reply lost":             {Err: lost},
		"applied late":           {Err: lost, After: 3 * time.Second},
		"no answer":              {Lost: true},
	} {
		struck := true
		for n := 1 + rand.Int64N(int64(step)); struck; n += int64(step) {
			inBubble(t, func(t *testing.T) {
				var begun atomic.Int64
				begun.Store(1 << 60)
				w := newWorld(t, func(c memory.Call) memory.Fault {
					if c.N == begun.Load()+n {
						return fault
					}
					return distant(c)
				})
				w.create(source)
				want := make(map[string]bool)
				for i := range 4 { // more than one receive returns
					for _, f := range w.forms(i) {
						w.put(poison, f.stored)
						want[f.original] = true
					}
				}
				time.Sleep(time.Second)
				begun.Store(w.queues.Calls())
				moved, err := redriveAll(context.Background(), w.letters(nil, deadletters.Options{}))
				struck = w.queues.Calls() >= begun.Load()+n
				if err != nil || moved == 0 {
					t.Errorf("moved %d, %v", moved, err)
				}
				w.queues.Wait()
				time.Sleep(deadletters.MaxHidden)
				w.arrived(want, 1)
			})
			ran++
			if t.Failed() {
				t.Fatalf("request %d: %s", n, name)
			}
		}
	}
	t.Logf("figure: dead letters lost or left, a fault at each request of a redrive (%d runs) | 0 | 0", ran)
}

// arrived redrives what is left and checks that the messages arrived as they
// were, and how many of them arrived twice.
func (w *world) arrived(want map[string]bool, copies int) {
	w.t.Helper()
	if _, err := redriveAll(context.Background(), w.letters(nil, deadletters.Options{})); err != nil {
		w.t.Error(err)
	}
	arrived := w.bodies(source)
	if n := len(arrived) - len(want); n > copies {
		w.t.Errorf("%d copies arrived, want up to %d", n, copies)
	}
	if got := slices.Compact(arrived); !slices.Equal(got, slices.Sorted(maps.Keys(want))) {
		w.t.Errorf("%d different messages arrived, want %d", len(got), len(want))
	}
	if left := w.bodies(poison); len(left) > 0 {
		w.t.Errorf("%d letters are left: %.300q", len(left), left[0])
	}
}
