package deadletters_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"kennel/deadletters"
	"kennel/internal/chance"
	"kennel/internal/memory"
	"kennel/internal/storetest"
	"kennel/queue"
)

// TestSimulations has several operators redrive at once, at random and killed at
// random, while the work of many messages fails again, over queues with every
// kind of fault. The work of each message is done with its body, and no letter is
// left of which the body is not known to be removed.
func TestSimulations(t *testing.T) {
	t.Parallel()
	all := storetest.Simulate(t, storetest.Scale(3, 150), func(run *storetest.Simulation) {
		s := simulate(run)
		run.Count("messages", len(s.fails))
		run.Count("moves", s.moved)
		run.Count("kills", s.killed)
	})
	t.Logf("figure: messages lost, left or damaged by redrives in simulations (%d runs, %d messages, %d moves, %d kills) | 0 | 0",
		all.Runs, all.Of("messages"), all.Of("moves"), all.Of("kills"))
	all.Want("messages", 5)
	all.Want("moves", 5)
	if storetest.Proving() { // a sample may have few
		all.Want("kills", 1)
	}
}

// Two queues: of texts, and of envelopes.
const (
	texts     = "texts"
	envelopes = "envelopes"
)

var simulated = []string{texts, envelopes}

const faultsEnd = 5 * time.Minute

var errLost = errors.New("connection reset")

type simulation struct {
	*storetest.Simulation
	*world

	mu     sync.Mutex
	fails  map[string]int  // by message: how often its work fails after a redrive
	done   map[string]bool // guarded by mu
	moved  int             // guarded by mu
	killed int             // guarded by mu
}

func simulate(run *storetest.Simulation) *simulation {
	s := &simulation{Simulation: run, fails: make(map[string]int), done: make(map[string]bool)}
	s.world = newWorld(run, nil)
	s.queues = memory.NewQueues(&memory.Options{Fault: s.fault, OnMisuse: run.Misused, ShuffleSeed: run.Seed | 1})
	run.Cleanup(s.queues.Wait)
	random := s.Chance("world", 0)
	s.begin(random)
	ctx, stop := context.WithCancel(context.Background())
	var working, operating sync.WaitGroup
	working.Go(func() { consume(ctx, s, texts, queue.Text{}, func(body string) string { return body }) })
	working.Go(func() {
		consume(ctx, s, envelopes, queue.Packed{Claims: s.claims(nil)}, func(body []byte) string { return string(body) })
	})
	for i := range 1 + random.Below(3) {
		operating.Go(func() { s.operate(i) })
	}
	operating.Wait()
	time.Sleep(max(0, faultsEnd-s.Elapsed()) + deadletters.MaxHidden)
	s.end(ctx)
	stop()
	working.Wait()
	s.check()
	return s
}

// begin puts dead letters of all writers, some of them twice.
func (s *simulation) begin(random *chance.Source) {
	until := func(do func(ctx context.Context) error) {
		for {
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			err := do(ctx)
			cancel()
			if err == nil {
				return
			}
		}
	}
	put := func(name, body string) {
		for range 1 + random.Below(5)/4 {
			until(func(ctx context.Context) error {
				_, err := s.queues.Put(ctx, name, body, 0)
				return err
			})
		}
	}
	for i := range 5 + random.Below(60) {
		id := fmt.Sprint("message ", i)
		s.fails[id] = max(0, random.Below(5)-2)
		d := queue.DeadLetter{Queue: texts, Message: id, Reason: "r", At: time.Now(), Text: id}
		body := id
		if random.Below(6) == 0 {
			body += noise(i, 47_000)
		}
		switch random.Below(4) {
		case 0:
			put(texts+queue.PoisonSuffix, d.Encode())
		case 1:
			put(texts+queue.PoisonSuffix, d.Text)
		default:
			var text string
			until(func(ctx context.Context) (err error) {
				text, err = s.claims(nil).Pack(ctx, queue.Envelope{ID: id, Time: time.Now(), Reason: strings.Repeat("r", random.Below(2))}, []byte(body))
				return err
			})
			put(envelopes+queue.PoisonSuffix, text)
		}
	}
	until(func(ctx context.Context) error {
		text, err := s.claims(nil).Pack(ctx, queue.Envelope{ID: "message 0", Time: time.Now()}, []byte("message 0"))
		if err == nil {
			_, err = s.queues.Put(ctx, envelopes, text, 0)
		}
		if err == nil {
			_, err = s.queues.Put(ctx, texts, "message 0", 0)
		}
		return err
	})
}

// consume works on a queue until ctx ends. An attempt that fails makes the
// message a dead letter.
func consume[T any](ctx context.Context, s *simulation, name string, codec queue.Codec[T], text func(T) string) {
	l, err := queue.NewListener(s.queues, []string{name}, codec, func(_ context.Context, d queue.Delivery[T]) error {
		body := text(d.Body)
		id, pad, padded := strings.Cut(body, "#")
		var i int
		if _, err := fmt.Sscanf(id, "message %d", &i); err != nil || padded && "#"+pad != noise(i, 47_000) {
			s.Errorf("received %.100q, %v", body, err)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.fails[id] > 0 {
			s.fails[id]--
			return queue.ErrMessage
		}
		s.done[id] = true
		return nil
	}, &queue.ListenerOptions{MaxIdle: time.Second, Lease: 10 * time.Second})
	if err == nil {
		err = l.Run(ctx)
	}
	if err != nil {
		s.Error(err)
	}
}

// operate redrives in several lives until faultsEnd.
func (s *simulation) operate(i int) {
	random := s.Chance("operator", i)
	for s.Elapsed() < faultsEnd {
		p := storetest.NewProcess(nil)
		var living sync.WaitGroup
		living.Go(func() {
			l := s.letters(p, deadletters.Options{})
			for p.Context().Err() == nil && s.Elapsed() < faultsEnd {
				s.act(p.Context(), l, random)
				time.Sleep(random.UpTo(10 * time.Second))
			}
		})
		time.Sleep(random.UpTo(time.Minute))
		if random.Below(2) == 0 {
			p.Die()
			s.mu.Lock()
			s.killed++
			s.mu.Unlock()
		}
		living.Wait()
	}
}

// act lists letters and redrives some of them. Its errors are those of faults.
func (s *simulation) act(ctx context.Context, l *deadletters.Letters, random *chance.Source) {
	name := simulated[random.Below(2)] + queue.PoisonSuffix
	list, _ := l.Front(ctx, name)
	seen := make(map[string]bool)
	var some []string
	for _, item := range list.Items {
		if seen[item.ID] {
			s.Errorf("letter %s is listed twice", item.ID)
		}
		seen[item.ID] = true
		if random.Below(3) == 0 {
			some = append(some, item.ID)
		}
	}
	selection := deadletters.Selection{All: true, Limit: 1 + random.Below(50), DryRun: random.Below(10) == 0}
	if random.Below(2) == 0 && len(some) > 0 {
		selection.All, selection.IDs = false, some
	}
	if random.Below(3) == 0 {
		selection.PerSecond = float64(1 + random.Below(20))
	}
	began := time.Now()
	for range 3 { // the calls of a run
		r, err := l.Redrive(ctx, name, selection)
		s.mu.Lock()
		s.moved += r.Moved
		s.mu.Unlock()
		if took := time.Since(began); took > deadletters.MaxCall {
			s.Errorf("a call took %v", took)
		}
		if r.Moved > selection.Limit || r.Moved > r.Matched || selection.DryRun && r.Moved > 0 {
			s.Errorf("%+v: %+v", selection, r)
		}
		if err != nil || !r.More || r.Moved == 0 {
			return
		}
		selection.Before, began = r.Before, time.Now()
	}
}

// end redrives until all work is done.
func (s *simulation) end(ctx context.Context) {
	l := s.letters(nil, deadletters.Options{})
	for range 100 {
		for _, name := range simulated {
			r, err := l.Redrive(ctx, name+queue.PoisonSuffix, all)
			if err != nil {
				s.Error(err)
			}
			s.moved += r.Moved
		}
		time.Sleep(10 * time.Second)
		if s.isDone() {
			time.Sleep(deadletters.MaxHidden) // copies are worked on, too
			return
		}
	}
}

func (s *simulation) isDone() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.done) == len(s.fails)
}

// check checks that all is done. Copies of messages whose work is done may be
// left without a body: an operator deletes them.
func (s *simulation) check() {
	for id := range s.fails {
		if !s.done[id] {
			s.Errorf("%s is not done", id)
		}
	}
	l := s.letters(nil, deadletters.Options{})
	for _, name := range simulated {
		if left := s.bodies(name); len(left) > 0 {
			s.Errorf("%d messages are left in %s", len(left), name)
		}
		list, err := l.Front(context.Background(), name+queue.PoisonSuffix)
		if err != nil || list.More {
			s.Errorf("%+v, %v", list, err)
		}
		for _, item := range list.Items {
			if !strings.Contains(item.Problem, "is gone") {
				s.Errorf("left: %+.200v", item)
			}
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
