package work_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"kennel/internal/storetest"
	"kennel/work"
)

// readable checks that a processor that is told of the end of a batch can read its
// results and its report. It is for [sums.atEnd].
func (w *world) readable(_ context.Context, b work.Batch, _ int) error {
	p, ctx := w.start(nil, nil), w.t.Context()
	got, err := p.Get(ctx, b.ID)
	if err != nil || got.State != b.State || got.Done != b.Done || got.Rejected != b.Rejected || got.Failed != b.Failed || b.FinishedAt == nil {
		w.t.Errorf("at its end, batch %+v is %+v, %v", b, got, err)
	}
	if b.Done+b.Rejected+b.Failed != b.Items || b.State != work.Done {
		w.t.Errorf("told of the end of batch %+v", b)
	}
	if _, err := p.Report(ctx, b.ID, false); err != nil {
		w.t.Errorf("report of batch %s at its end: %v", b.ID, err)
	}
	n := 0
	for page := (work.Page{Top: 1000}); ; {
		l, err := p.Results(ctx, b.ID, page)
		if err != nil {
			w.t.Errorf("results of batch %s at its end: %v", b.ID, err)
			break
		}
		if n, page.Continuation = n+len(l.Items), l.Continuation; page.Continuation == "" {
			break
		}
	}
	if n != b.Items {
		w.t.Errorf("batch %s has %d results at its end, want %d", b.ID, n, b.Items)
	}
	return nil
}

// TestToldOnce: without a kill, the processor is told once.
func TestToldOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 0, nil)
		w.sums.atEnd = w.readable
		id := w.runEnding(time.Hour)
		if n := w.sums.ends(id); n != 1 {
			t.Errorf("told %d times, want once", n)
		}
	})
}

// runEnding submits a batch, and has a process live until nothing is left, at most
// for a time. It returns the id of the batch.
func (w *world) runEnding(limit time.Duration) (id string) {
	w.t.Helper()
	o := &order{name: "n", items: someItems("i", 3, small)}
	p := w.start(nil, nil)
	b, _, err := o.submit(p.Context(), p)
	if err != nil {
		w.t.Fatal(err)
	}
	life, stop := context.WithCancel(p.Context())
	var living sync.WaitGroup
	living.Go(func() { p.live(life, 8, nil) })
	w.await(p.Context(), limit)
	stop()
	living.Wait()
	w.wait()
	w.check([]*order{o}, 0)
	return b.ID
}

// TestToldAgain: a call that fails or panics is repeated after pauses that grow,
// and the message that completed the batch is done all the same.
func TestToldAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 0, nil)
		var mu sync.Mutex
		var at []time.Time
		var tries []int
		w.sums.atEnd = func(_ context.Context, b work.Batch, try int) error {
			mu.Lock()
			at, tries = append(at, time.Now()), append(tries, try)
			calls := len(tries)
			mu.Unlock()
			for _, name := range queueNames(maxPartitions) {
				if n := len(w.queues.All(name)); try > 1 && n > 0 {
					t.Errorf("try %d: %d messages are in %s", try, n, name)
				}
			}
			switch calls {
			case 1, 3:
				return errors.New("broken")
			case 2:
				panic("broken")
			case 4:
				if l, err := w.start(nil, nil).Sweep(t.Context()); err != nil || l.Untold != 1 || l.UntoldMost.Batch != b.ID || l.UntoldMost.Tries != 3 || l.UntoldMost.Error != "broken" {
					t.Errorf("a sweep found %+v, %v", l, err)
				}
				return nil
			}
			return nil
		}
		w.runEnding(6 * time.Hour)
		if !slices.Equal(tries, []int{1, 2, 3, 4}) && !slices.Equal(tries, []int{1, 2, 3, 4, 4}) { // the sweep in it calls again
			t.Fatalf("tries %v", tries)
		}
		for i, least := range []time.Duration{time.Minute, 2 * time.Minute, 4 * time.Minute} {
			if pause := at[i+1].Sub(at[i]); pause < least {
				t.Errorf("try %d followed after %v, want at least %v", i+2, pause, least)
			}
		}
	})
}

// TestToldNoMore: after ErrRejected there is no further call, and one that fails for
// ever ends with the retention of its batch.
func TestToldNoMore(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		err   error
		limit time.Duration
		least int
		most  int
	}{
		{fmt.Errorf("%w: never", work.ErrRejected), time.Hour, 1, 1},
		{errors.New("broken"), 40 * 24 * time.Hour, 150, 1000},
	} {
		t.Run(test.err.Error(), func(t *testing.T) {
			if test.limit > 24*time.Hour {
				storetest.OnlyInProve(t)
			}
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, 0, nil)
				w.sums.atEnd = func(context.Context, work.Batch, int) error { return test.err }
				o := &order{name: "n", items: someItems("i", 3, small)}
				p := w.start(nil, nil)
				b, _, err := o.submit(p.Context(), p)
				if err != nil {
					t.Fatal(err)
				}
				life, stop := context.WithCancel(p.Context())
				var living sync.WaitGroup
				living.Go(func() { p.live(life, 8, nil) })
				w.await(p.Context(), test.limit)
				stop()
				living.Wait()
				if n := w.sums.ends(b.ID); n < test.least || n > test.most {
					t.Errorf("told %d times, want %d to %d", n, test.least, test.most)
				}
				if n := w.rows.Rows(activeRows); n != 0 {
					t.Errorf("%d unfinished batches are left", n)
				}
			})
		})
	}
}

// TestToldAfterStop: a call that a stop ended is no try, and follows again with the
// message.
func TestToldAfterStop(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 0, nil)
		var mu sync.Mutex
		var tries []int
		w.sums.atEnd = func(ctx context.Context, _ work.Batch, try int) error {
			mu.Lock()
			tries = append(tries, try)
			first := len(tries) == 1
			mu.Unlock()
			if first {
				<-ctx.Done() // of the message
				return ctx.Err()
			}
			return nil
		}
		w.runEnding(time.Hour)
		if !slices.Equal(tries, []int{1, 1}) {
			t.Errorf("tries %v, want the first one twice", tries)
		}
	})
}

// TestToldOfAnother: an ended batch waits for a process that has its processor, and
// is completed without one after a day.
func TestToldOfAnother(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 0, nil)
		w.sums.atEnd = func(context.Context, work.Batch, int) error { return errors.New("broken") }
		o := &order{name: "n", items: someItems("i", 3, small)}
		p := w.start(nil, nil)
		b, _, err := o.submit(p.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		life, stop := context.WithCancel(p.Context())
		var living sync.WaitGroup
		living.Go(func() { p.live(life, 8, nil) })
		for w.sums.ends(b.ID) == 0 {
			time.Sleep(time.Second)
		}
		time.Sleep(time.Second)
		stop()
		living.Wait()
		w.wait()
		other := w.without()
		told := w.sums.ends(b.ID)
		sweep := func(after time.Duration, wantActive int) {
			t.Helper()
			time.Sleep(after)
			if _, err := other.Sweep(t.Context()); err != nil {
				t.Error(err)
			}
			if n := w.rows.Rows(activeRows); n != wantActive || w.sums.ends(b.ID) != told {
				t.Errorf("%d unfinished batches are left, want %d; told %d times, want %d", n, wantActive, w.sums.ends(b.ID), told)
			}
		}
		sweep(time.Hour, 1)
		sweep(24*time.Hour, 0)
	})
}

// without returns batches without a processor.
func (w *world) without() *work.Batches {
	w.t.Helper()
	p := w.start(nil, nil)
	batches, _ := openWith(w.t, stores{
		rows: w.rows, staging: w.staging, reports: w.reports, claimRows: w.claimRows, claimBlobs: w.claimBlobs,
		queues: p.queues, peeker: w.queues,
	}, nil, nil)
	return batches
}

// TestSlowEnds: a sweep has the time for several ended batches whose processor
// takes long to be told, as while a receiver does not answer, and they do not keep
// it from the unfinished ones.
func TestSlowEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 0, nil)
		const slow = 8
		var hangs atomic.Bool
		w.sums.atEnd = func(ctx context.Context, _ work.Batch, _ int) error {
			if !hangs.Load() {
				return errors.New("broken")
			}
			ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
			defer cancel()
			<-ctx.Done()
			return ctx.Err()
		}
		p := w.start(nil, nil)
		submit := func(name string) (id string) {
			o := &order{name: name, items: someItems("i", 3, small)}
			b, _, err := o.submit(p.Context(), p)
			if err != nil {
				t.Fatal(err)
			}
			return b.ID
		}
		var ids []string
		for i := range slow {
			ids = append(ids, submit(fmt.Sprint(i)))
		}
		life, stop := context.WithCancel(p.Context())
		var living sync.WaitGroup
		living.Go(func() { p.live(life, 8, nil) })
		for _, id := range ids {
			for w.sums.ends(id) == 0 {
				time.Sleep(time.Second)
			}
		}
		time.Sleep(time.Second)
		stop()
		living.Wait()
		hangs.Store(true)
		submit("stuck")
		receiving, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for _, name := range queueNames(maxPartitions) { // its messages are lost
			if _, err := w.queues.Receive(receiving, name, 32, 24*time.Hour); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(2 * time.Hour)
		before := 0
		for _, id := range ids {
			before += w.sums.ends(id)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 150*time.Second)
		defer cancel()
		l, err := p.Sweep(ctx)
		if l.Restarted != 1 || err != nil {
			t.Errorf("restarted %d batches, want 1: %v", l.Restarted, err)
		}
		told := -before
		for _, id := range ids {
			told += w.sums.ends(id)
		}
		if told != slow {
			t.Errorf("a sweep called the ends of %d batches, want %d", told, slow)
		}
	})
}
