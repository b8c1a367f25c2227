package control_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"kennel/internal/chance"
	"kennel/internal/control"
	"kennel/internal/memory"
	"kennel/internal/storetest"
	"kennel/internal/table"
)

func TestMain(m *testing.M) { os.Exit(storetest.Main(m)) }

var both = []string{"emails", "orders"}

func open(t testing.TB, store table.Store, o *control.Options) *control.Pauses {
	t.Helper()
	p, err := control.New(store, both, o)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func limited(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// TestReads: a process reads when it works and its last read is old, and not
// otherwise; many that work at once share a read.
func TestReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewTable(nil)
		p, other := open(t, store, nil), open(t, store, nil)
		refresh := func() {
			var all sync.WaitGroup
			for range 20 {
				all.Go(func() { p.Refresh(t.Context()) })
			}
			all.Wait()
		}
		refresh()
		refresh()
		if n := store.Calls(); n != 1 {
			t.Errorf("%d requests before work goes on, want 1", n)
		}
		if _, err := other.Pause(limited(t), "emails", control.Pause{By: control.Person{Name: "ann"}, Reason: "broken"}); err != nil {
			t.Fatal(err)
		}
		if p.Of("emails") != nil || other.Of("emails") == nil || other.Of("emails").Reason != "broken" {
			t.Errorf("before the next read: %+v, where it was paused: %+v", p.Of("emails"), other.Of("emails"))
		}
		time.Sleep(30 * time.Second)
		before := store.Calls()
		refresh()
		if n := store.Calls() - before; n != 1 || p.Of("emails") == nil || p.Of("orders") != nil {
			t.Errorf("after %d requests: emails %+v, orders %+v", n, p.Of("emails"), p.Of("orders"))
		}
		time.Sleep(24 * time.Hour)
		if n := store.Calls() - before; n != 1 {
			t.Errorf("%d requests without work", n)
		}
	})
}

// TestUnreadable: what was read last holds while storage does not answer, and
// work waits for a read at most for its timeout.
func TestUnreadable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		silent := true
		store := memory.NewTable(&memory.TableOptions{Options: memory.Options{Fault: func(memory.Call) memory.Fault {
			mu.Lock()
			defer mu.Unlock()
			return memory.Fault{Lost: silent}
		}}})
		speak := func(yes bool) {
			mu.Lock()
			defer mu.Unlock()
			silent = !yes
		}
		p := open(t, store, nil)
		began := time.Now()
		p.Refresh(t.Context())
		if took := time.Since(began); took > 2*time.Second || p.Of("emails") != nil {
			t.Errorf("without an answer at the start: %v after %v", p.Of("emails"), took)
		}
		p.Refresh(t.Context())
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("the next message waits, too: %v", took)
		}
		speak(true)
		if _, err := p.Pause(limited(t), "emails", control.Pause{}); err != nil {
			t.Fatal(err)
		}
		speak(false)
		for range 5 {
			time.Sleep(time.Minute)
			p.Refresh(t.Context())
		}
		if p.Of("emails") == nil {
			t.Error("the pause is forgotten, because storage does not answer")
		}
	})
}

// TestUnknownFormat: a row that this build cannot read is left as it is, and what
// was read before holds.
func TestUnknownFormat(t *testing.T) {
	store := memory.NewTable(nil)
	var log strings.Builder
	p := open(t, store, &control.Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
	if _, err := p.Pause(limited(t), "emails", control.Pause{}); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Submit(limited(t), table.Write{Verb: table.Upsert, Row: table.Row{Partition: "paused", Key: "queue-emails", Values: map[string]string{"v": "2"}}}); err != nil {
		t.Fatal(err)
	}
	all, err := p.Read(limited(t))
	if err != nil || all["emails"] == nil || !strings.Contains(log.String(), "cannot read whether a queue is paused") {
		t.Errorf("read %v, %v; log:\n%s", all, err, log.String())
	}
	if err := p.Resume(limited(t), "emails"); err == nil {
		t.Error("it is overwritten")
	}
}

// TestSignal: a change wakes a worker, which reads at once; without signals it
// notices a resume by itself, and it reads nothing while nothing is paused.
func TestSignal(t *testing.T) {
	for _, signalled := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			store := memory.NewTable(nil)
			o := &control.Options{}
			if signalled {
				o.Signals = memory.NewTopic[control.Signal](nil)
			}
			worker, changes := open(t, store, o), open(t, store, o)
			ctx, stop := context.WithCancel(t.Context())
			var running sync.WaitGroup
			running.Go(func() { worker.Run(ctx) })
			defer running.Wait()
			defer stop()
			time.Sleep(time.Hour)
			if n := store.Calls(); n != 0 {
				t.Errorf("signalled %v: %d requests in an hour without a pause", signalled, n)
			}
			if _, err := changes.Pause(limited(t), "emails", control.Pause{}); err != nil {
				t.Fatal(err)
			}
			if !signalled {
				worker.Refresh(ctx) // as when a message was received
			}
			synctest.Wait()
			if worker.Of("emails") == nil {
				t.Errorf("signalled %v: the worker does not know of the pause", signalled)
			}
			before := store.Calls()
			time.Sleep(time.Hour)
			if n := store.Calls() - before; n < 240 || n > 301 {
				t.Errorf("signalled %v: %d requests in an hour of a pause, want four or five a minute", signalled, n)
			}
			_, changed := worker.Known()
			if err := changes.Resume(limited(t), "emails"); err != nil {
				t.Fatal(err)
			}
			resumed := time.Now()
			<-changed
			if took := time.Since(resumed); took > 15*time.Second || signalled && took > 0 || worker.Of("emails") != nil {
				t.Errorf("signalled %v: the worker knows of the resume after %v", signalled, took)
			}
		})
	}
}

// TestWithoutReply: each request of a change is refused, or made without a reply.
// The answer is never wrong, and a repeated change ends well.
func TestWithoutReply(t *testing.T) {
	lost := errors.New("connection reset")
	for n := 1; n <= 4; n++ {
		for _, applied := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				sent, from := 0, 1<<40
				store := memory.NewTable(&memory.TableOptions{Options: memory.Options{Fault: func(memory.Call) memory.Fault {
					if sent++; sent >= from && sent < from+4 { // all repeats of the request
						return memory.Fault{Err: lost, Lost: !applied}
					}
					return memory.Fault{}
				}}})
				p, reader := open(t, store, nil), open(t, store, nil)
				for _, pauses := range []bool{true, false} {
					change := func() error {
						if pauses {
							_, err := p.Pause(limited(t), "emails", control.Pause{})
							return err
						}
						return p.Resume(limited(t), "emails")
					}
					isPaused := func() bool {
						all, err := reader.Read(limited(t))
						if err != nil {
							t.Fatal(err)
						}
						return all["emails"] != nil
					}
					from = sent + n
					err := change()
					from = 1 << 40
					if err == nil && isPaused() != pauses {
						t.Errorf("request %d, made %v: the change is confirmed and was not made", n, applied)
					}
					if err != nil && !errors.Is(err, table.ErrUnclear) && isPaused() == pauses {
						t.Errorf("request %d, made %v: the change was made, and %v", n, applied, err)
					}
					if (p.Of("emails") != nil) != pauses && err == nil {
						t.Errorf("request %d, made %v: the process does not know its change", n, applied)
					}
					if err := change(); err != nil || isPaused() != pauses {
						t.Errorf("again after request %d, made %v: %v, paused %v", n, applied, err, isPaused())
					}
				}
			})
		}
	}
}

// TestSimulations: people change the pauses through several processes, whose
// requests fail and are late, and which are killed. A process never knows less
// than its own last confirmed change, and in the end all know what is stored.
func TestSimulations(t *testing.T) {
	all := storetest.Simulate(t, storetest.Scale(30, 2000), func(s *storetest.Simulation) {
		mishaps := &memory.Mishaps{Each: 6, Trip: 200 * time.Millisecond, Lost: errors.New("connection reset"), After: 20 * time.Second, Slow: 5 * time.Second}
		var mu sync.Mutex
		random, calm := s.Chance("store", 0), false
		store := memory.NewTable(&memory.TableOptions{Options: memory.Options{OnMisuse: s.Misused, Fault: func(memory.Call) memory.Fault {
			mu.Lock()
			defer mu.Unlock()
			if calm {
				return memory.Fault{}
			}
			return mishaps.Draw(random)
		}}})
		topic := memory.NewTopic(&memory.TopicOptions[control.Signal]{Fault: func(int, control.Signal) memory.SignalFault {
			mu.Lock()
			defer mu.Unlock()
			return memory.SignalFault{Lost: random.Below(2) == 0}
		}})
		only := make(chan struct{}, 1) // one person changes at a time
		var people sync.WaitGroup
		for i := range 3 {
			people.Go(func() { operate(s, s.Chance("person", i), store, topic, only) })
		}
		people.Wait()
		store.Wait()
		mu.Lock()
		calm = true
		mu.Unlock()
		last, err := control.New(store, both, nil)
		if err != nil {
			s.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if _, err := last.Pause(ctx, "emails", control.Pause{}); err != nil || last.Of("emails") == nil {
			s.Errorf("in the end: %v, %v", last.Of("emails"), err)
		}
	})
	all.Want("changes", 10)
	all.Want("unclear", 0.1)
}

// operate changes pauses through a process, in several lives of it.
func operate(s *storetest.Simulation, c *chance.Source, store table.Store, topic control.Signals, only chan struct{}) {
	for range 4 {
		process := storetest.NewProcess(nil)
		p, err := control.New(process.Table(store), both, &control.Options{Signals: topic})
		if err != nil {
			s.Fatal(err)
		}
		life, stop := context.WithTimeout(process.Context(), 3*time.Minute)
		time.AfterFunc(c.UpTo(5*time.Minute), process.Die)
		var running sync.WaitGroup
		running.Go(func() { p.Run(life) })
		for life.Err() == nil {
			queue, pauses := both[c.Below(2)], c.Below(2) == 0
			only <- struct{}{}
			one, cancel := context.WithTimeout(life, 10*time.Second)
			if pauses {
				_, err = p.Pause(one, queue, control.Pause{By: control.Person{Name: "ann"}})
			} else {
				err = p.Resume(one, queue)
			}
			cancel()
			if err == nil {
				s.Count("changes", 1)
				p.Refresh(life)
				table.Pause(life, c.UpTo(20*time.Second)) // reads that began before end
				if known := p.Of(queue) != nil; known != pauses && life.Err() == nil {
					s.Errorf("paused %v is confirmed, and the process knows %v", pauses, known)
				}
			} else if errors.Is(err, table.ErrUnclear) {
				s.Count("unclear", 1)
				table.Pause(context.Background(), 25*time.Second) // it may still arrive
			}
			<-only
			table.Pause(life, c.UpTo(10*time.Second))
		}
		stop()
		running.Wait()
	}
}
