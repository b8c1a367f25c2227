package queue_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"kennel/internal/chance"
	"kennel/internal/memory"
	"kennel/internal/storetest"
	"kennel/queue"
)

// TestSimulations runs publishers and listeners that are stopped and killed at
// random, over queues with every kind of fault, late counts and unreliable
// signals. Each published message is done, or is a dead letter if its work
// cannot succeed; none is left, and no lease is held twice.
func TestSimulations(t *testing.T) {
	t.Parallel()
	all := storetest.Simulate(t, storetest.Scale(6, 250), func(run *storetest.Simulation) {
		s := simulate(run)
		run.Count("messages", len(s.published))
		run.Count("kills", s.deaths)
		run.Count("done again", s.repeated)
	})
	t.Logf("figure: messages lost, left or wrongly dead-lettered in simulations (%d runs, %d messages, %d kills, %d done again) | 0 | 0",
		all.Runs, all.Of("messages"), all.Of("kills"), all.Of("done again"))
	all.Want("messages", 20)
	if storetest.Proving() { // a sample may have few
		all.Want("kills", 0.5)
	}
}

// task is the body of a message, and its own codec.
type task struct {
	ID     string `json:"id"`
	Fails  int64  `json:"fails"`  // attempts that must fail; -1: it cannot be read
	Failed int64  `json:"failed"` // attempts that failed
}

type taskCodec struct{ queue.Text }

func (taskCodec) Decode(_ context.Context, m queue.Message) (c queue.Content[task], err error) {
	if err := json.Unmarshal([]byte(m.Body), &c.Body); err != nil || c.Body.Fails < 0 {
		return c, fmt.Errorf("%w: %v", queue.ErrMessage, err)
	}
	return c, nil
}

func (taskCodec) Attempts(m queue.Message) (failed int64, next string) {
	var k task
	if json.Unmarshal([]byte(m.Body), &k) != nil {
		return 0, m.Body
	}
	failed = k.Failed
	k.Failed++
	body, _ := json.Marshal(k) // no error is possible
	return failed, string(body)
}

const (
	simulatedAttempts = 8 // so that no message comes near the limit of deliveries
	simulatedLease    = 12 * time.Second
	faultsEnd         = 3 * time.Minute
)

var simulatedQueues = []string{"work-0", "work-1", "work-2"}

// simulation is one run.
type simulation struct {
	*storetest.Simulation
	queues  *memory.Queues
	signals *memory.QueueSignals
	others  sync.WaitGroup // nodes beside node 0

	mu        sync.Mutex
	published map[string]task
	done      map[string]int
	working   map[string]string // message → the node that works on it
	deaths    int
	repeated  int
}

func simulate(run *storetest.Simulation) *simulation {
	s := &simulation{Simulation: run, published: make(map[string]task), done: make(map[string]int), working: make(map[string]string)}
	world := s.Chance("world", 0)
	s.queues = memory.NewQueues(&memory.Options{
		Fault: s.fault, OnMisuse: run.Misused,
		ShuffleSeed: run.Seed | 1, CountLag: world.UpTo(simulatedLease - time.Second),
	})
	s.signals = memory.NewQueueSignals(&memory.QueueSignalOptions{Fault: s.signalFault, Connect: world.UpTo(2 * time.Second)})
	for i := range 1 + world.Below(3) {
		s.others.Go(func() { s.node(1 + i) })
	}
	s.others.Go(func() {
		for world.Below(2) == 0 {
			time.Sleep(world.UpTo(time.Minute))
			s.signals.Break()
			time.Sleep(world.UpTo(30 * time.Second))
			s.signals.Mend()
		}
	})
	s.node(0)
	s.queues.Wait()
	s.check()
	return s
}

// node publishes and listens in several lives. The last one of node 0 goes on
// until the work is done.
func (s *simulation) node(i int) {
	chance := s.Chance("node", i)
	lives := 1 + chance.Below(4)
	for life := range lives {
		time.Sleep(chance.UpTo(20 * time.Second))
		p := storetest.NewProcess(nil)
		ctx, stop := context.WithCancel(p.Context())
		var running sync.WaitGroup
		running.Go(func() { s.live(ctx, p, fmt.Sprint(i, "/", life), s.Chance("work of node", 10*i+life)) })
		switch {
		case i == 0 && life == lives-1:
			s.awaitEnd()
		case chance.Below(2) == 0:
			time.Sleep(chance.UpTo(time.Minute))
			p.Die()
			s.mu.Lock()
			s.deaths++
			s.mu.Unlock()
		default:
			time.Sleep(chance.UpTo(time.Minute))
		}
		stop()
		running.Wait()
	}
}

// awaitEnd waits until all queues are empty after the faults and the other
// nodes, which must happen within a few rare polls.
func (s *simulation) awaitEnd() {
	s.others.Wait()
	time.Sleep(max(0, faultsEnd-s.Elapsed()) + 10*time.Second) // no request is late after that
	for end := time.Now().Add(40 * time.Minute); time.Now().Before(end); time.Sleep(time.Second) {
		left := 0
		for _, name := range simulatedQueues {
			left += len(s.queues.All(name))
		}
		if left == 0 {
			return
		}
	}
}

func (s *simulation) live(ctx context.Context, p *storetest.Process, node string, chance *chance.Source) {
	store := p.Queues(s.queues)
	publisher := newPublisher(s, store, queue.PublisherOptions{Signals: s.signals}.WithParallel(4))
	l, err := queue.NewListener(store, simulatedQueues, taskCodec{}, func(ctx context.Context, d queue.Delivery[task]) error {
		return s.work(ctx, p, node, d, chance)
	}, &queue.ListenerOptions{
		Signals: s.signals, Hands: 3 + chance.Below(10), Lease: simulatedLease, MaxIdle: 5 * time.Second,
		MaxAttempts: simulatedAttempts, MaxWork: time.Minute, Drain: chance.UpTo(5 * time.Second),
	})
	if err != nil {
		s.Error(err)
		return
	}
	var running sync.WaitGroup
	running.Go(func() { publisher.Run(ctx) })
	running.Go(func() { s.publish(ctx, publisher, node, chance) })
	if err := l.Run(ctx); err != nil {
		s.Error(err)
	}
	running.Wait()
}

func (s *simulation) publish(ctx context.Context, p *queue.Publisher, node string, chance *chance.Source) {
	for n := range chance.Below(25) {
		if s.Elapsed() > faultsEnd {
			return
		}
		k := task{ID: fmt.Sprint(node, "-", n)}
		switch chance.Below(8) {
		case 0:
			k.Fails = int64(chance.Below(simulatedAttempts))
		case 1:
			k.Fails = simulatedAttempts
		case 2:
			k.Fails = -1
		}
		body, _ := json.Marshal(k) // no error is possible
		if p.Publish(ctx, simulatedQueues[chance.Below(len(simulatedQueues))], string(body), chance.UpTo(2*time.Second)) == nil {
			s.mu.Lock()
			s.published[k.ID] = k
			s.mu.Unlock()
		}
		if chance.Below(4) == 0 {
			time.Sleep(chance.UpTo(10 * time.Second))
		}
	}
}

// work is an attempt. It ends when its ctx does.
func (s *simulation) work(ctx context.Context, p *storetest.Process, node string, d queue.Delivery[task], chance *chance.Source) error {
	s.mu.Lock()
	if other := s.working[d.ID]; other != "" {
		s.Errorf("nodes %s and %s work on message %s at the same time", other, node, d.ID)
	}
	s.working[d.ID] = node
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.working, d.ID)
	}()
	limit := 100 * time.Millisecond
	if chance.Below(6) == 0 {
		limit = 30 * time.Second
	}
	select {
	case <-time.After(chance.UpTo(limit)):
	case <-ctx.Done():
		return ctx.Err()
	}
	if d.Attempt <= d.Body.Fails {
		if chance.Below(2) == 0 {
			panic("broken")
		}
		return errors.New("broken")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !p.Dead() {
		if s.done[d.Body.ID]++; s.done[d.Body.ID] > 1 {
			s.repeated++
		}
	}
	return nil
}

func (s *simulation) check() {
	letters := make(map[string]queue.DeadLetter)
	for _, name := range simulatedQueues {
		if all := s.queues.All(name); len(all) > 0 {
			s.Errorf("left in %s: %+v", name, all)
		}
		for _, m := range s.queues.All(name + queue.PoisonSuffix) {
			d, err := queue.ReadDeadLetter(m.Body)
			var k task
			if err == nil {
				err = json.Unmarshal([]byte(d.Text), &k)
			}
			if err != nil || d.Queue != name || k.Fails >= 0 && d.Attempts != simulatedAttempts {
				s.Errorf("dead letter %+v, %v", d, err)
			}
			letters[k.ID] = d
		}
	}
	for id, k := range s.published {
		dead := k.Fails < 0 || k.Fails >= simulatedAttempts
		_, letter := letters[id]
		if letter && k.Fails+int64(s.deaths) >= simulatedAttempts {
			dead = true // an attempt that is recorded before it begins counts although its process is killed
		}
		if letter != dead {
			s.Errorf("message %+v is a dead letter: %v", k, letter)
		}
		if ok := s.done[id] > 0; ok == letter {
			s.Errorf("message %+v is done: %v", k, ok)
		}
	}
}

// mishaps make one request in five fail while there are faults.
var mishaps = memory.Mishaps{Each: 30, Trip: 50 * time.Millisecond, Lost: errLost, After: 5 * time.Second, Slow: 4 * time.Second}

func (s *simulation) fault(call memory.Call) memory.Fault {
	m := mishaps
	if s.Elapsed() > faultsEnd {
		m.Each = 0
	}
	return m.Draw(s.Chance("request", int(call.N)))
}

func (s *simulation) signalFault(listener int, _ queue.Signal) memory.SignalFault {
	chance := s.Chance("signal", listener+1000*int(time.Now().UnixMilli()%1e6))
	return memory.SignalFault{Lost: chance.Below(4) == 0, Delay: chance.UpTo(2 * time.Second), Twice: chance.Below(4) == 0}
}
