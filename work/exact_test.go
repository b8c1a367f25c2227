package work

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"kennel/internal/memory"
	"kennel/internal/storetest"
)

// TestItemsEnd runs items that end in every possible way.
func TestItemsEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, nil, 0)
		in := s.start(nil, nil)
		ctx, stop := context.WithTimeout(in.p.Context(), 3*time.Hour)
		defer stop()
		var items []string
		for i, do := range []string{"", "reject", "fail", "fail twice", "panic", "goexit", "hang", "wait", "long", "invalid", "vast error", "slow", ""} {
			items = append(items, item(i, do))
		}
		d, err := in.submit(ctx, items, 5)
		if err != nil {
			t.Fatal(err)
		}
		var running sync.WaitGroup
		working, end := context.WithCancel(ctx)
		running.Go(func() { in.work(working) })
		if !in.finished(ctx, d.ID) {
			t.Error("the batch has not ended")
		}
		end()
		running.Wait()
		s.check(d, items)
		time.Sleep(25 * time.Hour) // until the items that hang return
	})
}

// TestKilledAtEachRequest kills a process before and after each of its requests.
// Another process must finish its work.
func TestKilledAtEachRequest(t *testing.T) {
	t.Parallel()
	few := []string{item(1, ""), item(2, "fail twice"), item(3, "reject"), item(4, "")}
	ran := killAtEach(t, few, 2, 1)
	if ran < 60 {
		t.Errorf("%d runs are too few", ran)
	}
	for i := range LargeParcel {
		few = append(few, item(10+i, []string{"", "", "", "", "fail twice", "reject"}[i%6]))
	}
	ran += killAtEach(t, few, LargeParcel, storetest.Scale(30, 1))
	t.Logf("figure: items without exactly one result, a process killed before and after each request (%d runs) | 0 | 0", ran)
}

// killAtEach runs a batch with so many items a parcel for each request at which
// its process can be killed, or for one of so many.
func killAtEach(t *testing.T, items []string, each, step int) (ran int) {
	return storetest.KillAtEachRequest(t, step, func(t *testing.T, kill *storetest.Killer) { runKilled(t, kill, items, each) })
}

func runKilled(t *testing.T, kill *storetest.Killer, items []string, each int) {
	s := newSite(t, nil, 0)
	ctx, stop := context.WithTimeout(context.Background(), 3*time.Hour)
	defer stop()
	d, err := s.start(nil, nil).submit(ctx, items, each)
	if err != nil {
		t.Fatal(err)
	}
	live := func(in *instance) {
		working, end := context.WithCancel(ctx)
		defer end()
		var running sync.WaitGroup
		running.Go(func() { in.work(working) })
		ended := in.finished(ctx, d.ID)
		if !ended && !in.p.Dead() {
			t.Error("the batch has not ended")
		}
		end()
		running.Wait()
	}
	live(s.start(kill, nil))
	if kill.Struck() {
		live(s.start(nil, nil))
	}
	s.wait()
	s.check(d, items)
}

// TestUnreliableStorage runs processes whose requests get lost, arrive late or
// lose their replies, with messages that exist up to five times and arrive in
// any order. In every other run, one of the two puts messages of results instead
// of counting them, as during a rollout.
func TestUnreliableStorage(t *testing.T) {
	t.Parallel()
	storetest.Simulate(t, storetest.Scale(3, 500), runUnreliable)
}

func runUnreliable(t *storetest.Simulation) {
	random := t.Chance("storage", 0)
	quiet := false
	var mu sync.Mutex
	fault := func(memory.Call) memory.Fault {
		mu.Lock()
		defer mu.Unlock()
		if quiet {
			return memory.Fault{}
		}
		f := memory.Fault{Delay: random.UpTo(50 * time.Millisecond), Back: random.UpTo(50 * time.Millisecond)}
		switch random.Below(10) {
		case 0:
			f.Err = errors.New("the reply is lost")
		case 1:
			f.Err, f.Lost = errors.New("the request is lost"), true
		case 2:
			f.Err, f.After = errors.New("the request is late"), random.UpTo(time.Minute)
		}
		return f
	}
	s := newSite(t, fault, t.Seed)
	s.copies = func() int { return max(1, random.Below(12)-6) }
	s.setQuiet(&mu, &quiet, true)
	var items []string
	for i := range 12 {
		items = append(items, item(i, []string{"", "", "", "reject", "fail twice", "fail"}[random.Below(6)]))
	}
	ctx, stop := context.WithTimeout(context.Background(), 24*time.Hour)
	defer stop()
	d, err := s.start(nil, nil).submit(ctx, items, 4)
	if err != nil {
		t.Fatal(err)
	}
	s.setQuiet(&mu, &quiet, false)
	var running sync.WaitGroup
	working, end := context.WithCancel(ctx)
	for range 2 {
		running.Go(func() { s.start(nil, nil).work(working) })
	}
	time.Sleep(5 * time.Minute)
	s.setQuiet(&mu, &quiet, true)
	if !s.start(nil, nil).finished(ctx, d.ID) {
		t.Error("the batch has not ended")
	}
	end()
	running.Wait()
	s.wait()
	s.check(d, items)
}

func (s *site) setQuiet(mu *sync.Mutex, quiet *bool, to bool) {
	mu.Lock()
	defer mu.Unlock()
	*quiet = to
}
