package channels_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"kennel/channels"
	"kennel/internal/memory"
	"kennel/internal/storetest"
	"kennel/internal/table"
)

var (
	simulations = flag.Int("simulations", storetest.Scale(12, 5_000), "seeded simulations to run")
	simulateOne = flag.Uint64("seed", 0, "the seed of the one simulation to run, or of the other random tests")
)

// TestSimulations runs clients that make all calls of the API concurrently, on
// few names, with every kind of fault, and kills processes at random. Then it
// checks that every row belongs to a channel. Every other simulation is slow.
func TestSimulations(t *testing.T) {
	t.Parallel()
	if *simulateOne != 0 {
		synctest.Test(t, func(t *testing.T) { simulate(t, *simulateOne) })
		return
	}
	base := rand.Uint64()
	var deleted, failed, next atomic.Int64
	t.Run("shards", func(t *testing.T) {
		for range runtime.GOMAXPROCS(0) {
			t.Run("", func(t *testing.T) {
				t.Parallel()
				for i := next.Add(1); i <= int64(*simulations) && !t.Failed(); i = next.Add(1) {
					seed := base + uint64(i)
					synctest.Test(t, func(t *testing.T) {
						s := simulate(t, seed)
						deleted.Add(int64(s.deleted))
						failed.Add(int64(s.failed))
						if t.Failed() {
							t.Logf("repeat with -run TestSimulations -seed %d", seed)
						}
					})
				}
			})
		}
	})
	t.Logf("figure: violations in simulations with faults and kills (%d runs, %d channels deleted, %d calls failed as expected) | 0 | 0", *simulations, deleted.Load(), failed.Load())
	if deleted.Load() < int64(*simulations) || failed.Load() == 0 {
		t.Errorf("%d deleted channels and %d failures are too few for a meaningful test", deleted.Load(), failed.Load())
	}
}

type simulation struct {
	t     *testing.T
	world *world

	mu      sync.Mutex
	rng     *rand.Rand
	slow    bool // requests arrive hours late, machines sleep, and sweeps do not wait for either
	calm    bool // no more faults
	blogs   map[string]*blogLife
	created map[string]bool   // the incarnations that a call returned as created
	sent    map[string]string // the partition that each blog was sent to, even if the request failed
	keys    map[string]string // the row of the key that each blog was sent with
	deleted int
	failed  int
}

// blogLife is what the clients of a simulation did to a blog.
type blogLife struct {
	channels.Blog          // as it was posted, if Post returned it
	updated, removing bool // a client tried to update it, or to remove it
	removed           bool // Remove succeeded
}

// locked calls do with s.mu held.
func (s *simulation) locked(do func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	do()
}

// life returns the entry of a blog. The caller holds s.mu.
func (s *simulation) life(blog string) *blogLife {
	if s.blogs[blog] == nil {
		s.blogs[blog] = &blogLife{}
	}
	return s.blogs[blog]
}

func simulate(t *testing.T, seed uint64) *simulation {
	s := &simulation{t: t, rng: rand.New(rand.NewPCG(seed, 0)), slow: seed%2 == 0, blogs: map[string]*blogLife{}, sent: map[string]string{}, keys: map[string]string{}, created: map[string]bool{}}
	o := &memory.TableOptions{
		Options: memory.Options{Fault: s.fault, OnMisuse: func(problem string) { t.Error(problem) }, ShuffleSeed: seed},
		Scan:    s.scan,
	}
	s.world = &world{channels: memory.NewTable(o), blogs: memory.NewTable(o), queues: memory.NewQueues(&o.Options)}
	var clients sync.WaitGroup
	for range 5 {
		clients.Go(s.client)
	}
	clients.Go(s.host)
	clients.Wait()
	s.settle()
	s.check()
	return s
}

func (s *simulation) below(n int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rng.IntN(n)
}

func (s *simulation) fault(memory.Call) memory.Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.calm {
		return memory.Fault{}
	}
	fault := memory.Fault{
		Delay: time.Duration(s.rng.IntN(20)) * time.Millisecond,
		Back:  time.Duration(s.rng.IntN(20)) * time.Millisecond,
	}
	switch s.rng.IntN(40) {
	case 0:
		fault.Err, fault.Lost = memory.ErrBusy, true
	case 1:
		fault.Err = errReset
	case 2:
		fault.Err, fault.After = errReset, time.Duration(s.rng.IntN(60))*time.Second
		if s.slow {
			fault.After *= 180
		}
	case 3:
		fault.Err, fault.Lost = channels.ErrRefused, true
	}
	return fault
}

// scan makes pages short, and some empty.
func (s *simulation) scan(top int) int {
	switch s.below(4) {
	case 0:
		return s.below(4)
	case 1:
		return top
	}
	return 1 + s.below(2*top)
}

// killer kills one process in in, at one of its first requests.
func (s *simulation) killer(in, first int) *storetest.Killer {
	if s.below(in) > 0 {
		return nil
	}
	return &storetest.Killer{N: 1 + int64(s.below(first)), After: s.below(2) == 0}
}

// client runs one to three processes, one after the other.
func (s *simulation) client() {
	for range 1 + s.below(3) {
		o := &channels.Options{Parallel: 1 + s.below(4)}
		if s.below(2) == 0 {
			o.AcceptFor = -1
		}
		if s.slow {
			o.OrphanAfter = time.Duration(1+s.below(5000)) * time.Millisecond
			o.StalledAfter = time.Duration(1+s.below(30)) * time.Second
		}
		p := s.world.watch(o, s.killer(2, 60), s.wrote)
		for range 5 + s.below(20) {
			if p.Dead() {
				break
			}
			s.call(p)
			time.Sleep(time.Duration(s.below(2000)) * time.Millisecond)
		}
	}
}

// wrote records the partition that a blog was sent to, and its key. In a slow simulation it
// sometimes delays the machine, or puts it to sleep for hours.
func (s *simulation) wrote(_ *process, writes []table.Write, err error) {
	s.mu.Lock()
	blog := ""
	for _, w := range writes {
		switch {
		case w.Verb == table.Insert && w.Row.Values["title"] != "":
			blog = w.Row.Key
			s.sent[blog] = w.Row.Partition
		case strings.HasPrefix(w.Row.Key, "!key-") && blog != "":
			s.keys[blog] = w.Row.Key
		}
	}
	s.mu.Unlock()
	switch {
	case !s.slow || err != nil:
	case s.below(100) == 0:
		time.Sleep(time.Duration(s.below(10)) * time.Hour)
	case s.below(10) == 0:
		time.Sleep(time.Duration(s.below(40)) * time.Second)
	}
}

func (s *simulation) call(p *process) {
	patience := time.Duration(1+s.below(60)) * time.Second
	if s.slow {
		patience *= 720
	}
	ctx, cancel := context.WithTimeout(p.Context(), patience)
	defer cancel()
	name := fmt.Sprint("news", s.below(3))
	var err error
	switch s.below(12) {
	case 0, 1:
		owner := fmt.Sprint("owner", s.below(2))
		var ch channels.Channel
		var created bool
		ch, created, err = p.Create(ctx, name, owner)
		s.mu.Lock()
		if err == nil && ch.Owner != owner || created && s.created[ch.Incarnation] || errors.Is(err, channels.ErrChanged) && !errors.Is(err, channels.ErrUnclear) {
			s.t.Errorf("create for %s: %+v, %v, %v", owner, ch, created, err)
		}
		s.created[ch.Incarnation] = s.created[ch.Incarnation] || created
		s.mu.Unlock()
	case 2:
		var d channels.Deletion
		d, err = p.Delete(ctx, name, "")
		if err == nil && d.State == channels.Done {
			s.locked(func() { s.deleted++ })
		}
	case 3:
		_, err = p.Sweep(ctx, "")
	case 4:
		_, err = p.Deletion(ctx, name, "")
	case 5, 6:
		err = s.change(ctx, p, name)
	default:
		for range 1 + s.below(5) {
			var blog channels.Blog
			var o channels.PostOptions
			d := channels.Draft{Title: "t", Text: fmt.Sprint(s.below(1000)), UserID: "u"}
			if s.below(2) == 0 { // the keys of few posts, which the clients share
				o.Key = fmt.Sprint("k", s.below(8))
				d.Text = fmt.Sprint(o.Key, s.below(10)/9)
			}
			blog, err = p.PostWith(ctx, name, d, o)
			if err == nil {
				s.locked(func() {
					life := s.life(blog.ID)
					if life.Blog = blog; !life.updated && blog.Text != d.Text {
						s.t.Errorf("posted %+v with key %q, returned %+v", d, o.Key, blog)
					}
				})
			}
		}
	}
	if err != nil {
		s.locked(func() { s.failed++ })
	}
	for _, never := range []error{channels.ErrCorrupt, table.ErrExists, table.ErrLimit, table.ErrToken, channels.ErrMessage} {
		if errors.Is(err, never) && !errors.Is(err, storetest.ErrKilled) {
			s.t.Errorf("a call returned %v, which no call may return", err)
		}
	}
}

// change updates or removes the first blog.
func (s *simulation) change(ctx context.Context, p *process, name string) error {
	list, err := p.Blogs(ctx, name, 1+s.below(3), "")
	if err != nil || len(list.Items) == 0 {
		return err
	}
	blog := list.Items[len(list.Items)-1]
	remove := s.below(2) == 0
	s.mu.Lock()
	life := s.life(blog.ID)
	life.updated, life.removing = life.updated || !remove, life.removing || remove
	s.mu.Unlock()
	if !remove {
		_, err = p.Update(ctx, name, blog.ID, []string{blog.ETag, "*"}[s.below(2)], channels.Draft{Title: "u", UserID: "u"})
		return err
	}
	if err = p.Remove(ctx, name, blog.ID, []string{"", blog.ETag}[s.below(2)]); err == nil {
		s.locked(func() { life.removed = true })
	}
	return err
}

// host delivers messages, some of them twice.
func (s *simulation) host() {
	for range 200 {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		messages, _ := s.world.queues.Receive(ctx, cleanupQueue, 1+s.below(3), time.Duration(1+s.below(600))*time.Second)
		var invocations sync.WaitGroup
		for _, m := range messages {
			for range 1 + s.below(2) {
				invocations.Go(func() {
					p := s.world.start(nil, s.killer(3, 10))
					ctx, cancel := context.WithTimeout(p.Context(), 5*time.Minute)
					defer cancel()
					_, err := p.Handle(ctx, text(s.t, m.Body))
					if errors.Is(err, channels.ErrMessage) {
						s.t.Errorf("dead letter: %v", err)
					}
					if err == nil && !p.Dead() {
						s.world.queues.Delete(ctx, cleanupQueue, m)
					}
				})
			}
		}
		invocations.Wait()
		cancel()
		time.Sleep(time.Duration(s.below(3000)) * time.Millisecond)
	}
}

// settle ends all faults and waits until all work is finished.
func (s *simulation) settle() {
	s.locked(func() { s.calm = true })
	s.world.wait()
	for range 4 {
		s.world.plain(s.t)
		time.Sleep(26 * time.Hour) // no late request arrives after that
		s.world.sweepAll(s.t)
	}
	s.world.plain(s.t)
}
