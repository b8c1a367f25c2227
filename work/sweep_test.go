package work

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"kennel/internal/memory"
	"kennel/internal/storetest"
	"kennel/internal/table"
	"kennel/queue"
	"kennel/work/internal/format"
	"kennel/work/internal/model"
	"kennel/work/internal/sweep"
)

// TestSweepKilled kills a sweep before and after each of its requests: one that
// completes a submission, one that restarts a batch whose messages are lost, and
// one that removes a batch. The next sweep continues.
func TestSweepKilled(t *testing.T) {
	t.Parallel()
	body, items := someLines(1_050)
	for _, test := range []struct {
		name    string
		prepare func(s *site)
	}{
		{"submission", func(s *site) {
			s.start(&storetest.Killer{N: 6, After: true}, nil).send("k", body)
			time.Sleep(3 * time.Minute)
		}},
		{"restart", func(s *site) {
			s.start(nil, nil).send("k", body)
			s.lose("work-1", "work-3")
			s.start(nil, nil).drain()
			time.Sleep(11 * time.Minute)
		}},
		{"removal", func(s *site) {
			s.start(nil, nil).send("k", body)
			s.start(nil, nil).drain()
			time.Sleep(31 * 24 * time.Hour)
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			storetest.KillAtEachRequest(t, storetest.Scale(23, 1), func(t *testing.T, kill *storetest.Killer) {
				s := newSite(t, nil, 0)
				test.prepare(s)
				s.start(kill, nil).sweep()
				if test.name == "removal" {
					s.removed()
					return
				}
				time.Sleep(25 * time.Minute)
				s.settled(nil, true, items)
			})
		})
	}
}

// lose loses all messages of queues.
func (s *site) lose(names ...string) {
	for _, name := range names {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		for {
			messages, err := s.queues.Receive(ctx, name, queue.MaxReceive, time.Hour)
			if err != nil {
				s.t.Fatal(err)
			}
			if len(messages) == 0 {
				break
			}
			for _, m := range messages {
				if err := s.queues.Delete(ctx, name, m); err != nil {
					s.t.Fatal(err)
				}
			}
		}
	}
}

// dieBeforeCount inserts the results of a parcel and loses its message, as if the
// process was killed then, and the next one that had the message as well.
func (in *instance) dieBeforeCount(t *testing.T, name string, m queue.Message) {
	t.Helper()
	_, p, err := in.base.ParcelOf(t.Context(), m.Body)
	if err != nil {
		t.Fatal(err)
	}
	r, err := in.worker.Try(t.Context(), in.base.Processors[p.Processor], p)
	if err == nil {
		_, err = in.base.Store.InsertResults(t.Context(), p.Batch, r.Row())
	}
	if err == nil {
		err = in.qs.Delete(timed(t, time.Minute), name, m)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestRestartCounts restarts a batch that lacks only the count of its results:
// the sweep makes the report.
func TestRestartCounts(t *testing.T) {
	t.Parallel()
	body, items := someLines(250)
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, nil, 0)
		in := s.start(nil, nil)
		batch, _, err := in.send("", body)
		if err != nil {
			t.Fatal(err)
		}
		for range batch.Parcels {
			in.dieBeforeCount(t, ExpressQueue, in.receive(t, ExpressQueue))
		}
		time.Sleep(sweep.MinStalled)
		swept, err := in.sweep()
		if b, _ := in.Get(timed(t, time.Minute), batch.ID); err != nil || swept.Restarted != 1 || b.State != Done {
			t.Fatalf("swept %+v, %v; batch %+v", swept, err, b)
		}
		s.settled([]string{batch.ID}, true, items)
	})
}

// TestRestart restarts a batch only if it is stalled, and puts only what is
// missing.
func TestRestart(t *testing.T) {
	t.Parallel()
	body, items := someLines(1_050)
	items[3] = item(3, "fail twice")
	body = strings.Join(items, "\n")
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, nil, 0)
		gate := &fixedGate{opened: time.Now()}
		in := s.start(nil, &Options{Gate: gate})
		batch, _, err := in.send("", body)
		if err != nil {
			t.Fatal(err)
		}
		late := 1 // batches
		restarted := func(when string, want int) {
			t.Helper()
			swept, err := in.sweep()
			most := swept.LateMost
			swept.LateMost = Batch{}
			if err != nil || swept != (Swept{Restarted: want, Late: late}) || late > 0 && (most.ID != batch.ID || most.LateBy <= 0) {
				t.Fatalf("%s: swept %+v, %+v, %v, want %d restarted and %d late", when, swept, most, err, want, late)
			}
		}
		time.Sleep(20 * time.Minute)
		restarted("all messages are there", 0)
		s.lose("work-0", "work-1")
		restarted("others are there", 0)
		// One try of each other parcel: those of work-2 and work-3.
		for _, name := range []string{"work-2", "work-3"} {
			for len(s.queues.All(name)) > 0 {
				messages, err := in.qs.Receive(timed(t, time.Minute), name, 32, 5*time.Minute)
				if err != nil {
					t.Fatal(err)
				}
				for _, m := range messages {
					in.dieBeforeCount(t, name, m)
				}
			}
		}
		gate.opened, late = time.Time{}, 0 // its time begins again when the gate opens
		time.Sleep(time.Hour)
		restarted("held", 0)
		gate.opened = time.Now()
		time.Sleep(9 * time.Minute)
		restarted("the gate has just opened", 0)
		time.Sleep(2 * time.Minute)
		restarted("stalled", 1)
		for name, want := range map[string]int{"work-0": 3, "work-1": 3, "work-2": 0, "work-3": 0} {
			if n := len(s.queues.All(name)); n != want {
				t.Errorf("%s has %d messages after the restart, want %d", name, n, want)
			}
		}
		if b, err := in.Get(timed(t, time.Minute), batch.ID); err != nil || b.Done != 450 {
			t.Errorf("batch %+v, %v, want the 450 results of work-2 and work-3 counted", b, err)
		}
		restarted("again", 0)
		s.lose("work-0", "work-1")
		time.Sleep(12 * time.Minute)
		late = 1
		restarted("the time doubles", 0)
		time.Sleep(10 * time.Minute)
		restarted("stalled again", 1)
		in.drain() // the retry of item 3, too
		s.settled([]string{batch.ID}, true, items)
	})
}

// TestRestartSlow restarts a batch whose messages are all lost while a put takes
// long: one after the other, they would take longer than a sweep has.
func TestRestartSlow(t *testing.T) {
	t.Parallel()
	body, items := someLines(1_050)
	synctest.Test(t, func(t *testing.T) {
		slow := false
		s := newSite(t, func(c memory.Call) memory.Fault {
			if slow && c.Op == "Put" {
				return memory.Fault{Delay: 6 * time.Second}
			}
			return memory.Fault{}
		}, 0)
		in := s.start(nil, nil)
		if _, _, err := in.send("", body); err != nil {
			t.Fatal(err)
		}
		s.lose("work-0", "work-1", "work-2", "work-3")
		time.Sleep(20 * time.Minute)
		slow = true
		if swept, err := in.sweep(); err != nil || swept.Restarted != 1 {
			t.Errorf("swept %+v, %v, want one restarted", swept, err)
		}
		slow = false
		s.settled(nil, true, items)
	})
}

// TestRestartHeld restarts no batch whose messages were put back at its gate, and
// wait in a long queue after it opened.
func TestRestartHeld(t *testing.T) {
	t.Parallel()
	body, items := someLines(3)
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, nil, 0)
		gate := new(fixedGate)
		in := s.start(nil, &Options{Gate: gate})
		batch, _, err := in.send("", body)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		held, err := in.qs.Receive(timed(t, time.Minute), ExpressQueue, 1, time.Minute)
		if err != nil || len(held) != 1 {
			t.Fatal(held, err)
		}
		in.handle(t.Context(), ExpressQueue, held[0], 1)
		gate.opened = time.Now()
		time.Sleep(20 * time.Minute)
		if swept, err := in.sweep(); err != nil || swept.Restarted != 0 {
			t.Errorf("swept %+v, %v, want nothing restarted", swept, err)
		}
		s.settled([]string{batch.ID}, true, items)
	})
}

// timed returns a ctx with a deadline.
func timed(t *testing.T, limit time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	t.Cleanup(cancel)
	return ctx
}

// fixedGate is a gate in the hand of the test.
type fixedGate struct{ opened time.Time }

func (g *fixedGate) Opened(context.Context) (time.Time, error) { return g.opened, nil }

func (g *fixedGate) Wait(context.Context, time.Duration) (bool, error) {
	return !g.opened.IsZero(), nil
}

// TestFewerPartitions moves the messages of queues that the app has no more.
func TestFewerPartitions(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, nil, 0)
		body, items := someLines(4_000)
		batch, _, err := s.start(nil, &Options{Partitions: 6}).send("", body)
		if err != nil {
			t.Fatal(err)
		}
		in := s.start(nil, nil)
		in.base.Surplus = in.qs
		before := len(s.queues.All("work-4")) + len(s.queues.All("work-5"))
		swept, err := in.sweep()
		if left := len(s.queues.All("work-4")) + len(s.queues.All("work-5")); err != nil || swept != (Swept{Moved: before}) || before == 0 || left > 0 {
			t.Errorf("swept %+v, %v; %d messages of %d are left", swept, err, left, before)
		}
		in.drain()
		s.settled([]string{batch.ID}, true, items)
	})
}

// TestDamaged ends batches whose staged parcels are damaged.
func TestDamaged(t *testing.T) {
	t.Parallel()
	body, _ := someLines(1_050)
	for name, damage := range map[string]func(s *site, blob string){
		"missing": func(s *site, blob string) { s.staging.Delete(timed(t, time.Minute), blob) },
		"empty":   func(s *site, blob string) { s.staging.Spoil(blob, nil) },
		"cut":     func(s *site, blob string) { s.staging.Spoil(blob, []byte{0, 0, 1, 0, 1}) },
		"short":   func(s *site, blob string) { s.staging.Spoil(blob, []byte{0, 0}) },
	} {
		for requests := range int64(2) { // killed before the launch, or lost later
			synctest.Test(t, func(t *testing.T) {
				s := newSite(t, nil, 0)
				var kill *storetest.Killer
				if requests == 0 {
					kill = &storetest.Killer{N: 2, After: true}
				}
				s.start(kill, nil).send("", body)
				for _, blob := range s.staging.Names() {
					damage(s, blob)
				}
				s.lose("work-0", "work-1", "work-2", "work-3")
				time.Sleep(time.Hour)
				swept, err := s.start(nil, nil).sweep()
				if err != nil {
					t.Errorf("%s: swept %+v, %v", name, swept, err)
				}
				batches := s.settle()
				if len(batches) != 1 || batches[0].State != Failed || !strings.Contains(batches[0].Error, "staged") || batches[0].FinishedAt == nil {
					t.Errorf("%s: %+v, want it failed", name, batches)
				}
				if _, err := s.start(nil, nil).Report(timed(t, time.Minute), batches[0].ID, false); !errors.Is(err, ErrFailed) {
					t.Errorf("%s: report: %v, want %v", name, err, ErrFailed)
				}
				if n := s.rows.Rows(format.ActiveIn); n != 0 || len(s.staging.Names()) != 0 {
					t.Errorf("%s: %d active rows and blobs %v are left", name, n, s.staging.Names())
				}
				s.removed()
			})
		}
	}
}

// TestOrphans deletes staged blobs only of batches that are not recorded.
func TestOrphans(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, nil, 0)
		in := s.start(nil, nil)
		ctx := timed(t, time.Hour)
		old := model.NewID(time.Now().Add(-25 * time.Hour))
		active := format.Details{ID: model.NewID(time.Now().Add(-30 * time.Hour)), Items: 1, Parcels: 1, Chunks: 1, Partitions: 1, SubmittedAt: time.Now()}
		if _, err := in.base.Store.Rows.Submit(ctx, table.Write{Verb: table.Insert, Row: active.ActiveRow()}); err != nil {
			t.Fatal(err)
		}
		young := model.NewID(time.Now().Add(-23 * time.Hour))
		for _, name := range []string{"0-other", old + "/0000", old + "/0001", format.ChunkName(active.ID, 0), young + "/0000"} {
			if err := in.base.Staging.Put(ctx, name, []byte("x")); err != nil {
				t.Fatal(err)
			}
		}
		swept, err := in.sweep()
		want := fmt.Sprint([]string{"0-other", format.ChunkName(active.ID, 0), young + "/0000"})
		if left := fmt.Sprint(s.staging.Names()); err != nil || swept != (Swept{Orphans: 2}) || left != want {
			t.Errorf("swept %+v, %v; left %v, want %v", swept, err, left, want)
		}
	})
}
