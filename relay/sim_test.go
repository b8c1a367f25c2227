package relay_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"kennel/internal/chance"
	"kennel/internal/storetest"
	"kennel/internal/table"
	"kennel/relay"
)

// TestSimulation lets senders and syphons run through random outages of both
// namespaces while they are killed at random requests.
func TestSimulation(t *testing.T) {
	all := storetest.Simulate(t, storetest.Scale(8, 400), func(run *storetest.Simulation) { (&sim{Simulation: run}).run() })
	t.Logf("%d failovers, %d messages moved, %d kills, %d duplicates, at most %d allowed",
		all.Of("failovers"), all.Of("messages moved"), all.Of("kills"), all.Of("duplicates"), all.Of("duplicates allowed"))
	all.Want("failovers", 1)
	all.Want("messages moved", 1)
	all.Want("kills", 1)
}

const (
	simSenders   = 3
	simProducers = 2 // in each sender
	simMessages  = 40
	simSyphons   = 2
)

type sim struct {
	*storetest.Simulation
	primary, secondary *bus
	allowed            atomic.Int64 // duplicates; what a kill makes unclear counts as ambiguous or unsettled
	kills              atomic.Int64
	moved              atomic.Int64
	failovers          atomic.Int64
}

func (s *sim) run() {
	s.primary, s.secondary = newBus("orders", "other"), newBus(queues...)
	s.primary.dedup = s.Seed%4 == 0
	ctx, stop := context.WithCancel(context.Background())
	var background, senders sync.WaitGroup
	background.Go(func() { s.outages(ctx) })
	for i := range simSyphons {
		background.Go(func() { s.syphon(ctx, i) })
	}
	for i := range simSenders {
		senders.Go(func() { s.sender(i) })
	}
	senders.Wait()
	stop()
	background.Wait()
	s.primary.set(nil)
	s.secondary.set(nil)
	time.Sleep(2 * time.Minute) // locks of killed syphons end
	last := newSyphon(s.T, s.primary, s.secondary, queues, nil)
	s.add(drain(s.T, last))
	last.Close(context.Background())
	s.check()
}

// life returns a process that is killed at a random request, or never.
func (s *sim) life(c *chance.Source, killed bool) *process {
	p := &process{left: 1 << 40, before: c.Below(2) == 0, killed: make(chan struct{})}
	if killed {
		p.left = 1 + c.Below(60)
	}
	return p
}

// outages changes what the namespaces do.
func (s *sim) outages(ctx context.Context) {
	c := s.Chance("outage", 0)
	faults := []fault{refuse, hang, drop, storeDrop, storeHang, internal, busy}
	for ctx.Err() == nil {
		f, only := faults[c.Below(len(faults))], ""
		if c.Below(3) == 0 {
			only = "orders"
		}
		onlySends := c.Below(3) == 0 // so that pings lead to trials
		s.primary.set(func(op, entity string) fault {
			if (only == "" || entity == only) && (op == "send" || !onlySends) {
				return f
			}
			return none
		})
		if c.Below(3) == 0 {
			bad := queues[c.Below(len(queues))]
			g := faults[c.Below(len(faults))]
			s.secondary.set(onlyAt(bad, g))
		}
		table.Pause(ctx, c.UpTo(time.Minute))
		s.primary.set(nil)
		s.secondary.set(nil)
		table.Pause(ctx, c.UpTo(time.Minute))
	}
}

// sender runs processes one after the other until all messages are accepted.
func (s *sim) sender(i int) {
	c := s.Chance("sender", i)
	next := make([]int, simProducers) // message of each producer
	for lives := 0; ; lives++ {
		p := s.life(c, s.Seed%2 == 1 && lives < 5)
		ctx, cancel := context.WithCancel(context.Background())
		go func() { // a killed process stops at once
			select {
			case <-p.killed:
				s.kills.Add(1)
				cancel()
			case <-ctx.Done():
			}
		}()
		x := newSender(s.T, view{s.primary, p}, view{s.secondary, p}, queues, relay.Options{Interval: new(5 * time.Second)}.WithTimes(0, 5*time.Second))
		var wg sync.WaitGroup
		for j := range next {
			wg.Go(func() { s.produce(ctx, x, i, j, &next[j]) })
		}
		wg.Wait()
		cancel()
		x.Close(context.Background())
		s.allowed.Add(x.Stats().Ambiguous)
		s.failovers.Add(x.Stats().Failovers)
		done := true
		for _, n := range next {
			done = done && n == simMessages
		}
		if done {
			return
		}
	}
}

// produce sends each message until it is accepted.
func (s *sim) produce(ctx context.Context, x *relay.Sender, i, j int, next *int) {
	c := s.Chance("producer", 1000*(i*simProducers+j)+*next)
	for *next < simMessages && ctx.Err() == nil {
		bounded, cancel := context.WithTimeout(ctx, 2*time.Second+c.UpTo(30*time.Second))
		_, err := x.Send(bounded, []string{"orders", "other"}[j], s.message(i, j, *next))
		cancel()
		if err == nil {
			*next++
		}
		table.Pause(ctx, c.UpTo(3*time.Second))
	}
}

// message returns a message whose order matters for all but the last sender.
func (s *sim) message(i, j, n int) *relay.Message {
	if i == simSenders-1 {
		return text(s.prefix(i, j) + fmt.Sprintf("%03d", n))
	}
	return inSession(s.prefix(i, j)+fmt.Sprintf("%03d", n), s.prefix(i, j))
}

func (s *sim) prefix(i, j int) string { return fmt.Sprintf("%d-%d-", i, j) }

func (s *sim) syphon(ctx context.Context, i int) {
	c := s.Chance("syphon", i)
	for ctx.Err() == nil {
		p := s.life(c, s.Seed%3 != 0)
		life, cancel := context.WithCancel(ctx)
		go func() {
			select {
			case <-p.killed:
				s.kills.Add(1)
				cancel()
			case <-life.Done():
			}
		}()
		x := newSyphon(s.T, view{s.primary, p}, view{s.secondary, p}, queues, nil)
		for life.Err() == nil {
			r, _ := x.Pass(life)
			s.add(r)
			table.Pause(life, c.UpTo(5*time.Second))
		}
		cancel()
		x.Close(context.Background())
		table.Pause(ctx, c.UpTo(20*time.Second))
	}
}

func (s *sim) add(r relay.Result) {
	s.moved.Add(r.Moved)
	s.allowed.Add(r.Ambiguous + r.Unsettled)
	if r.DeadLettered+r.Expired+r.Unreadable > 0 {
		s.Errorf("%+v", r)
	}
}

func (s *sim) check() {
	copies := 0
	for j, entity := range []string{"orders", "other"} {
		got := s.primary.got(entity)
		seen := ids(got)
		copies += len(got) - len(seen)
		for i := range simSenders {
			n, ok := inOrder(got, s.prefix(i, j))
			if n != simMessages {
				s.Errorf("%d messages of producer %d-%d arrived, want %d", n, i, j, simMessages)
			}
			// The barrier of a sender ends with its process.
			if !ok && i < simSenders-1 && s.Seed%2 == 0 {
				s.Errorf("session %d-%d lost its order", i, j)
			}
		}
	}
	for _, q := range queues {
		if active, dead := s.secondary.left(q); active+dead > 0 {
			s.Errorf("%s holds %d messages and %d dead letters", q, active, dead)
		}
	}
	bound := s.allowed.Load()
	if s.primary.dedup {
		bound = 0
	}
	if int64(copies) > bound {
		s.Errorf("%d duplicates, more than %d", copies, bound)
	}
	if n, m := s.primary.open, s.secondary.open; n != 0 || m != 0 {
		s.Errorf("%d and %d connections are left open", n, m)
	}
	s.Count("failovers", int(s.failovers.Load()))
	s.Count("messages moved", int(s.moved.Load()))
	s.Count("kills", int(s.kills.Load()))
	s.Count("duplicates", copies)
	s.Count("duplicates allowed", int(bound))
}
