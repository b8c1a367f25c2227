package work_test

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"kennel/internal/chance"
	"kennel/internal/memory"
	"kennel/internal/storetest"
	"kennel/internal/table"
	"kennel/work"
)

// TestSimulations submits, processes and sweeps batches in processes that are
// killed at random, with every kind of fault, storms of refused requests,
// messages that are delivered several times, delayed and in any order, a gate
// that opens and closes, fewer partitions, and submissions that race with the
// same key. Some have large parcels, whose longer rows storage may refuse. Then each
// item has one result, and nothing is left.
func TestSimulations(t *testing.T) {
	t.Parallel()
	defer debug.SetGCPercent(debug.SetGCPercent(400)) // each process allocates compressors
	all := storetest.Simulate(t, storetest.Scale(8, 1_000), func(run *storetest.Simulation) {
		s := simulate(run)
		run.Count("kills", int(s.kills.Load()))
		run.Count("copies of messages", int(s.copies.Load()))
		run.Count("rows refused as too large", int(s.refused.Load()))
		if s.largeFrom > 0 {
			run.Count("with large parcels", 1)
		}
		for _, o := range s.orders {
			run.Count("batches", len(o.ids))
			for _, i := range o.items {
				run.Count("items processed again", max(0, s.tries[i.ID]-1-i.Fails-i.Snooze))
				run.Count("items put off", i.Snooze)
			}
		}
	})
	t.Logf("figure: items without one result, wrong reports, and what is left, in simulations with faults (%d runs, %d of them with large parcels, %d batches, %d kills, %d copies of messages, %d rows refused as too large, %d items processed again) | 0 | 0",
		all.Runs, all.Of("with large parcels"), all.Of("batches"), all.Of("kills"), all.Of("copies of messages"), all.Of("rows refused as too large"), all.Of("items processed again"))
	all.Want("batches", 1/float64(storetest.Scale(2, 1)))
	all.Want("kills", 0.5)
	all.Want("copies of messages", 1)
}

const (
	faultsEnd = 4 * time.Minute
	maxCopies = 8 // of messages, or a few more

	// minRow is how many results storage accepts at least. With fewer, the tries
	// might not suffice for a row that becomes half as long with each.
	minRow = work.LargeParcel / 2
)

// simulation is one run.
type simulation struct {
	*storetest.Simulation
	*world
	mishaps memory.Mishaps
	storms  [2]time.Duration
	lowered time.Duration // from then on, processes have two partitions
	orders  []*order
	others  sync.WaitGroup

	kills, copies atomic.Int64
}

func simulate(run *storetest.Simulation) *simulation {
	s := &simulation{Simulation: run}
	random := s.Chance("world", 0)
	s.mishaps = memory.Mishaps{
		Each: 7 * 1000 / max(1, random.Below(100)), Trip: 20 * time.Millisecond, // up to one request in ten fails
		Lost: errReset, After: 40 * time.Second, Slow: 20 * time.Second, Rejected: []error{table.ErrRefused},
	}
	for i := range s.storms {
		s.storms[i] = random.UpTo(faultsEnd)
	}
	s.lowered = 24 * time.Hour
	s.world = newWorld(run.T, run.Seed|1, s.faults)
	if random.Below(3) == 0 {
		s.lowered = random.UpTo(faultsEnd)
		s.partitions = 2
	}
	if large := s.Chance("large", 0); large.Below(4) == 0 {
		s.largeFrom, s.each = 1+large.Below(200), 201+large.Below(work.LargeParcel-200)
		if large.Below(2) == 0 {
			s.maxRow = minRow + large.Below(work.LargeParcel-minRow)
		}
	}
	if bounds := s.Chance("bounds", 0); bounds.Below(3) == 0 {
		s.attempts, s.atOnce = work.MaxTries+bounds.Below(8), bounds.Below(4)
	}
	for i := range 1 + random.Below(3) {
		s.orders = append(s.orders, s.order(i))
	}
	calm, begin := context.WithCancel(run.Context())
	time.AfterFunc(faultsEnd, begin)
	for i, o := range s.orders {
		for client := range 1 + s.Chance("clients", i).Below(2) {
			s.others.Go(func() { s.client(calm, o, 10*i+client) })
		}
	}
	s.others.Go(func() { s.copier(calm) })
	s.others.Go(func() { s.gatekeeper(calm) })
	ended, end := context.WithCancel(run.Context())
	var workers sync.WaitGroup
	for i := range 2 {
		workers.Go(func() { s.worker(calm, ended, i) })
	}
	s.others.Wait()
	<-calm.Done()
	time.Sleep(time.Minute) // no request is late after that
	s.await(ended, 6*time.Hour)
	end()
	workers.Wait()
	s.wait()
	s.check(s.orders, 1<<30)
	s.checkRetention(s.start(nil, nil))
	return s
}

// order draws a batch.
func (s *simulation) order(i int) *order {
	random := s.Chance("order", i)
	of := fmt.Sprint("o", i)
	o := &order{name: of, array: random.Below(3) == 0, invalid: random.Below(12) == 0}
	if random.Below(2) == 0 {
		o.key = "key of " + of
	}
	switch which := random.Below(64); {
	case s.largeFrom > 0 && which < 32:
		o.items = someItems(of, s.largeFrom+random.Below(3*s.each), small)
	case which == 0:
		o.items = someItems(of, 1+random.Below(2), claimed)
	case which == 1:
		o.items = someItems(of, 11+random.Below(3), aParcel) // spread over the partitions
	case which < 4:
		o.items = someItems(of, 2+random.Below(3), aParcel)
	case which < 6:
		o.items = someItems(of, 201+random.Below(20), small)
	case which < 16:
		o.items = someItems(of, 101+random.Below(10), small)
	default:
		o.items = someItems(of, 1+random.Below(8), small)
	}
	if o.invalid {
		o.array = false
	}
	for i := range o.items {
		it := &o.items[i]
		if len(o.items) > 20 && random.Below(10) > 0 {
			continue
		}
		switch random.Below(12) {
		case 0:
			it.Bad = true
		case 1, 2:
			it.Fails, it.Panics = 1+random.Below(work.MaxTries-1), random.Below(4) == 0
		case 3:
			it.Fails = always
		case 4, 5:
			it.Millis = 1 + random.Below(3000)
		}
	}
	later := s.Chance("later", i) // of its own, so that the other draws stay the same
	for i := range min(len(o.items), 20) {
		if it := &o.items[i]; later.Below(4) == 0 {
			it.Snooze, it.Wait = later.Below(4), 1+later.Below(200)
		}
	}
	return o
}

// client submits a batch. With a key it repeats the submission until that is
// confirmed, sometimes in another process, or it gives up.
func (s *simulation) client(calm context.Context, o *order, i int) {
	random := s.Chance("client", i)
	time.Sleep(random.UpTo(time.Minute))
	p := s.start(s.options(), s.killer(random))
	for n := 0; ; n++ {
		ctx, cancel := context.WithTimeout(p.Context(), 5*time.Second+random.UpTo(time.Minute))
		_, _, err := o.submit(ctx, p)
		cancel()
		var invalid *work.ItemErrors
		switch {
		case err == nil || errors.As(err, &invalid) && o.invalid:
			if random.Below(3) > 0 || calm.Err() != nil {
				return
			}
		case !p.Dead() && (errors.Is(err, work.ErrKeyReused) || errors.Is(err, work.ErrCorrupt) || errors.As(err, &invalid)):
			s.Errorf("submit: %v", err)
			return
		case o.key == "" || random.Below(10) == 0:
			return
		}
		if p.Dead() {
			s.kills.Add(1)
			p = s.start(s.options(), s.killer(random))
		}
		if o.key == "" {
			return
		}
		time.Sleep(random.UpTo(30 * time.Second))
	}
}

// worker works in several lives until ended ends; the last one is not killed.
func (s *simulation) worker(calm, ended context.Context, i int) {
	for life := 0; ; life++ {
		random := s.Chance("worker", 100*i+life)
		p := s.start(s.options(), nil)
		if calm.Err() == nil {
			p = s.start(s.options(), s.killer(random))
		}
		ctx, stop := context.WithCancel(ended)
		if calm.Err() == nil {
			time.AfterFunc(random.UpTo(4*time.Minute), func() {
				if random.Below(2) == 0 {
					p.Die()
				} else {
					stop()
				}
			})
			context.AfterFunc(calm, func() { // the next life is the last one
				time.Sleep(random.UpTo(time.Minute))
				stop()
			})
		}
		p.live(ctx, 1+random.Below(6), random)
		stop()
		if p.Dead() {
			s.kills.Add(1)
		}
		p.Die()
		if ended.Err() != nil {
			return
		}
		time.Sleep(random.UpTo(10 * time.Second))
	}
}

// options returns those of a process that starts now.
func (s *simulation) options() *work.Options {
	o := &work.Options{Gate: s.gate, HoldTime: time.Minute, Partitions: maxPartitions, Parallel: 4}
	if s.Elapsed() > s.lowered {
		o.Partitions = 2
	}
	return o
}

// killer kills every other process at one of its first requests.
func (s *simulation) killer(random *chance.Source) *storetest.Killer {
	if random.Below(2) == 0 {
		return nil
	}
	return &storetest.Killer{N: int64(1 + random.Below(60)), After: random.Below(2) == 0}
}

// copier puts copies of messages.
func (s *simulation) copier(calm context.Context) {
	random := s.Chance("copier", 0)
	names := queueNames(maxPartitions)
	for calm.Err() == nil && s.copies.Load() < maxCopies {
		time.Sleep(random.UpTo(5 * time.Second))
		name := names[random.Below(len(names))]
		for _, m := range s.queues.All(name) {
			if random.Below(4) > 0 {
				continue
			}
			for range 1 + random.Below(4) {
				delay := random.UpTo(20 * time.Second)
				if random.Below(8) == 0 {
					delay = random.UpTo(2 * time.Hour)
				}
				ctx, cancel := context.WithTimeout(s.Context(), time.Minute)
				_, _ = s.queues.Put(ctx, name, m.Body, delay)
				cancel()
				s.copies.Add(1)
			}
		}
	}
}

// gatekeeper closes and opens the gate.
func (s *simulation) gatekeeper(calm context.Context) {
	random := s.Chance("gate", 0)
	for random.Below(2) == 0 && calm.Err() == nil {
		time.Sleep(random.UpTo(2 * time.Minute))
		s.gate.set(false)
		time.Sleep(random.UpTo(5 * time.Minute))
		s.gate.set(true)
	}
}

// faults returns the faults of a store.
func (s *simulation) faults(store string) func(memory.Call) memory.Fault {
	return func(call memory.Call) memory.Fault {
		now := s.Elapsed()
		if now > faultsEnd {
			return memory.Fault{}
		}
		random := s.Chance(store, int(call.N))
		f := s.mishaps.Draw(random)
		for _, storm := range s.storms {
			if now > storm && now < storm+15*time.Second && random.Below(10) < 8 {
				return memory.Fault{Delay: f.Delay, Back: f.Back, Err: memory.ErrBusy, Lost: true}
			}
		}
		return f
	}
}
