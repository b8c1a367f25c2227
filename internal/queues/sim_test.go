package queues

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"kennel/internal/chance"
	"kennel/internal/memory"
	"kennel/internal/program"
	"kennel/internal/storetest"
)

// size is the size of a simulated world.
type size struct {
	processes int
	lives     int           // of each process, one after the other
	orders    int           // sent in each life, of random kinds; 0: one of each kind to each queue
	attempts  int           // MaxAttempts
	each      int           // one in so many requests has a fault of each kind
	requests  int           // a kill at a request is at one of so many first ones of a life
	life      time.Duration // the longest one, and 5 s

	// Storage takes no message between these times, for longer than the rules wait
	// for it.
	outage, restored time.Duration
}

// sizeOf draws a size. A world costs what its messages cost, and a message is lost
// by a kill or a fault at one of its own requests. So most worlds have few
// messages and more faults. One in a hundred has full batches, waits for slots
// and all attempts.
func sizeOf(random *chance.Source) size {
	if random.Below(100) == 0 {
		return size{processes: 3, lives: 3, attempts: program.MaxAttempts, each: 60, requests: 500, life: 90 * time.Second}
	}
	z := size{
		processes: 1 + random.Below(3), lives: 1 + random.Below(2), orders: 1 + random.Below(3),
		attempts: 8 + random.Below(5), each: 10 + random.Below(50), requests: 40, life: time.Minute,
	}
	if random.Below(4) == 0 {
		z.outage = random.UpTo(30 * time.Second)
		z.restored = z.outage + 4*time.Minute + random.UpTo(6*time.Minute)
	}
	return z
}

// padding makes a body too long for a message.
var padding = sync.OnceValue(func() string { return noise(70 << 10) })

// sendSome sends n random orders, one in six of each kind with a long body, and
// returns those that were confirmed.
func sendSome(ctx context.Context, q *Queues, random *chance.Source, n, first int) (confirmed map[int]order) {
	names, all := []string{"orders", "mails", "bills"}, slices.Sorted(maps.Keys(kinds))
	confirmed = make(map[int]order)
	for i := range n {
		o := order{Kind: all[random.Below(len(all))], N: first + 1 + i}
		if random.Below(6) == 0 || o.Kind == "long" {
			o.Pad = padding()
		}
		if id, err := q.Send(ctx, names[random.Below(len(names))], o.text(), 0); err == nil && id != "" {
			confirmed[o.N] = o
		}
	}
	return confirmed
}

// process returns a process that may be killed before or after one of its
// requests, or at a random time.
func (z size) process(random *chance.Source) (*storetest.Process, *storetest.Killer) {
	how := random.Below(8)
	if how < 4 {
		kill := &storetest.Killer{N: int64(1 + random.Below(z.requests)), After: how < 2}
		return storetest.NewProcess(kill), kill
	}
	p := storetest.NewProcess(nil)
	if how < 6 {
		time.AfterFunc(random.UpTo(z.life), p.Die)
	}
	return p, nil
}

// simulated is the world of a simulation.
type simulated struct {
	*storetest.Simulation
	*world
	size   size
	random *chance.Source

	mu        sync.Mutex
	calm      bool          // there are no faults any more; guarded by mu
	confirmed map[int]order // guarded by mu
}

func newSimulated(s *storetest.Simulation) *simulated {
	sim := &simulated{Simulation: s, random: s.Chance("world", 0), confirmed: make(map[int]order)}
	sim.size = sizeOf(sim.random)
	mishaps := &memory.Mishaps{Each: sim.size.each, Trip: 200 * time.Millisecond, Lost: errors.New("connection reset"), After: 5 * time.Second, Slow: 15 * time.Second}
	sim.world = newWorld(&memory.Options{ShuffleSeed: s.Seed | 1, OnMisuse: s.Misused, Fault: func(c memory.Call) memory.Fault {
		sim.mu.Lock()
		defer sim.mu.Unlock()
		if sim.calm {
			return memory.Fault{}
		}
		if at := s.Elapsed(); at > sim.size.outage && at < sim.size.restored && (c.Op == "Put" || c.Op == "Update") {
			s.Count("messages not taken in an outage", 1)
			return memory.Fault{Err: memory.ErrBusy, Lost: true}
		}
		f := mishaps.Draw(sim.random)
		if f.Err != nil && !f.Lost {
			s.Count("replies lost", 1)
		}
		return f
	}})
	sim.attempts = sim.size.attempts
	return sim
}

// life is one life of a process, hosted or a worker, which sends orders and works
// until it stops or is killed. first is the number of its first order.
func (s *simulated) life(lives *chance.Source, first int) {
	p, kill := s.size.process(lives)
	hosted := lives.Below(2) == 0
	q := s.open(s.T, p, hosted, nil)
	until, stop := context.WithTimeout(p.Context(), 5*time.Second+lives.UpTo(s.size.life))
	defer stop()
	var sending sync.WaitGroup
	defer sending.Wait()
	sending.Go(func() {
		var sent map[int]order
		if s.size.orders > 0 {
			sent = sendSome(until, q, s.Chance("orders", first), s.size.orders, first)
		} else {
			sent = send(until, q, first)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		maps.Copy(s.confirmed, sent)
	})
	s.live(until, s.T, p, q)
	s.Count(endOf(p, kill, hosted), 1)
}

// end has a process without faults do what is left, checks the world, and counts
// what was in it.
func (s *simulated) end() {
	s.queues.Wait()
	s.rows.Wait()
	s.blobs.Wait()
	s.mu.Lock()
	s.calm = true
	s.mu.Unlock()
	ctx, stop := context.WithTimeout(context.Background(), 2*time.Hour)
	defer stop()
	p := storetest.NewProcess(nil)
	s.untilEmpty(ctx, s.T, p, s.open(s.T, p, s.random.Below(2) == 0, nil))
	s.check(s.T, s.confirmed)
	s.Count("messages", len(s.confirmed))
	for n, o := range s.confirmed {
		s.Count(o.Kind, 1)
		if len(o.Pad) > 0 && s.calls[n] > 1 {
			s.Count("long bodies tried again", 1)
		}
	}
	if s.size.orders == 0 {
		s.Count("large worlds", 1)
	}
}

// endOf names how a life ended.
func endOf(p *storetest.Process, kill *storetest.Killer, hosted bool) string {
	how := "as a worker"
	if hosted {
		how = "behind a host"
	}
	switch {
	case !p.Dead():
		return "stopped " + how
	case kill == nil:
		return "killed at a time " + how
	case kill.After:
		return "killed after a request " + how
	}
	return "killed before a request " + how
}

// wanted is how much of what simulations must have, for each of them.
func wanted() map[string]float64 {
	all := map[string]float64{"messages": 2, "replies lost": 2, "messages not taken in an outage": 2, "long bodies tried again": 0.05, "large worlds": 0}
	for _, how := range []string{"behind a host", "as a worker"} {
		for _, end := range []string{"stopped ", "killed at a time ", "killed after a request ", "killed before a request "} {
			all[end+how] = 0.05
		}
	}
	for kind := range kinds {
		all[kind] = 0.1
	}
	return all
}

// TestSimulations: several processes behind a host and as workers, kills, stops,
// faults, outages and lost replies: no confirmed message is lost.
func TestSimulations(t *testing.T) {
	all := storetest.Simulate(t, storetest.Scale(12, 2000), func(s *storetest.Simulation) {
		sim := newSimulated(s)
		var running sync.WaitGroup
		for i := range sim.size.processes {
			running.Go(func() {
				lives := s.Chance("lives", i)
				for life := range sim.size.lives {
					sim.life(lives, (i*10+life)*100)
				}
			})
		}
		running.Wait()
		sim.end()
	})
	for what, perRun := range wanted() {
		if storetest.Proving() { // a sample may lack something
			all.Want(what, perRun)
		}
	}
	t.Logf("figure: confirmed messages lost in simulations (%d runs, %d messages) | 0 | 0", all.Runs, all.Of("messages"))
}
