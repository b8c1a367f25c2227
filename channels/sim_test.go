package channels_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"kennel/channels"
	"kennel/internal/chance"
	"kennel/internal/memory"
	"kennel/internal/storetest"
	"kennel/internal/table"
)

// TestSimulations runs clients that make all calls of the API concurrently, on
// few names, with every kind of fault, and kills processes at random. Then it
// checks that every row belongs to a channel. Every other simulation is slow.
func TestSimulations(t *testing.T) {
	t.Parallel()
	all := storetest.Simulate(t, storetest.Scale(12, 1_000), func(run *storetest.Simulation) {
		s := simulate(run)
		run.Count("channels deleted", s.deleted)
		run.Count("calls that failed", s.failed)
	})
	t.Logf("figure: violations in simulations with faults and kills (%d runs, %d channels deleted, %d calls failed as expected) | 0 | 0",
		all.Runs, all.Of("channels deleted"), all.Of("calls that failed"))
	all.Want("channels deleted", 1)
	all.Want("calls that failed", 0)
}

type simulation struct {
	*storetest.Simulation
	world *world
	slow  bool // requests arrive hours late, machines sleep, and sweeps do not wait for either

	mu      sync.Mutex
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

func simulate(run *storetest.Simulation) *simulation {
	s := &simulation{Simulation: run, slow: run.Seed%2 == 0, blogs: map[string]*blogLife{}, sent: map[string]string{}, keys: map[string]string{}, created: map[string]bool{}}
	options := func(store string) *memory.TableOptions {
		pages := s.Chance("pages of "+store, 0)
		return &memory.TableOptions{
			Options: memory.Options{Fault: s.faults(store), OnMisuse: run.Misused, ShuffleSeed: run.Seed},
			Scan:    func(top int) int { return scan(pages, top) },
		}
	}
	s.world = &world{channels: memory.NewTable(options("channels")), blogs: memory.NewTable(options("blogs")), queues: memory.NewQueues(&options("queues").Options)}
	var clients sync.WaitGroup
	for i := range 5 {
		clients.Go(func() { s.client(i) })
	}
	clients.Go(s.host)
	clients.Wait()
	s.settle()
	s.check()
	return s
}

// faults returns the faults of a store.
func (s *simulation) faults(store string) func(memory.Call) memory.Fault {
	mishaps := memory.Mishaps{
		Each: 70, Trip: 20 * time.Millisecond, Lost: errReset, After: time.Minute, Slow: time.Minute,
		Rejected: []error{channels.ErrRefused},
	}
	if s.slow {
		mishaps.After *= 180
	}
	return func(call memory.Call) memory.Fault {
		s.mu.Lock()
		calm := s.calm
		s.mu.Unlock()
		if calm {
			return memory.Fault{}
		}
		return mishaps.Draw(s.Chance(store, int(call.N)))
	}
}

// scan makes pages short, and some empty.
func scan(random *chance.Source, top int) int {
	switch random.Below(4) {
	case 0:
		return random.Below(4)
	case 1:
		return top
	}
	return 1 + random.Below(2*top)
}

// killer kills one process in in, at one of its first requests.
func killer(random *chance.Source, in, first int) *storetest.Killer {
	if random.Below(in) > 0 {
		return nil
	}
	return &storetest.Killer{N: 1 + int64(random.Below(first)), After: random.Below(2) == 0}
}

// client runs one to three processes, one after the other.
func (s *simulation) client(i int) {
	random := s.Chance("client", i)
	for range 1 + random.Below(3) {
		o := &channels.Options{Parallel: 1 + random.Below(4)}
		if random.Below(2) == 0 {
			o.AcceptFor = -1
		}
		if s.slow {
			o.OrphanAfter = time.Duration(1+random.Below(5000)) * time.Millisecond
			o.StalledAfter = time.Duration(1+random.Below(30)) * time.Second
		}
		wrote := func(_ *process, writes []table.Write, err error) { s.wrote(random, writes, err) }
		p := s.world.watch(o, killer(random, 2, 60), wrote)
		for range 5 + random.Below(20) {
			if p.Dead() {
				break
			}
			s.call(p, random)
			time.Sleep(time.Duration(random.Below(2000)) * time.Millisecond)
		}
	}
}

// wrote records the partition that a blog was sent to, and its key. In a slow simulation it
// sometimes delays the machine, or puts it to sleep for hours.
func (s *simulation) wrote(random *chance.Source, writes []table.Write, err error) {
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
	case random.Below(100) == 0:
		time.Sleep(time.Duration(random.Below(10)) * time.Hour)
	case random.Below(10) == 0:
		time.Sleep(time.Duration(random.Below(40)) * time.Second)
	}
}

func (s *simulation) call(p *process, random *chance.Source) {
	patience := time.Duration(1+random.Below(60)) * time.Second
	if s.slow {
		patience *= 720
	}
	ctx, cancel := context.WithTimeout(p.Context(), patience)
	defer cancel()
	name := fmt.Sprint("news", random.Below(3))
	var err error
	switch random.Below(12) {
	case 0, 1:
		owner := fmt.Sprint("owner", random.Below(2))
		var ch channels.Channel
		var created bool
		ch, created, err = p.Create(ctx, name, owner)
		s.mu.Lock()
		if err == nil && ch.Owner != owner || created && s.created[ch.Incarnation] || errors.Is(err, channels.ErrChanged) && !errors.Is(err, channels.ErrUnclear) {
			s.Errorf("create for %s: %+v, %v, %v", owner, ch, created, err)
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
		err = s.change(ctx, p, name, random)
	default:
		for range 1 + random.Below(5) {
			var blog channels.Blog
			var o channels.PostOptions
			d := channels.Draft{Title: "t", Text: fmt.Sprint(random.Below(1000)), UserID: "u"}
			if random.Below(2) == 0 { // the keys of few posts, which the clients share
				o.Key = fmt.Sprint("k", random.Below(8))
				d.Text = fmt.Sprint(o.Key, random.Below(10)/9)
			}
			blog, err = p.PostWith(ctx, name, d, o)
			if err == nil {
				s.locked(func() {
					life := s.life(blog.ID)
					if life.Blog = blog; !life.updated && blog.Text != d.Text {
						s.Errorf("posted %+v with key %q, returned %+v", d, o.Key, blog)
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
			s.Errorf("a call returned %v, which no call may return", err)
		}
	}
}

// change updates or removes the first blog.
func (s *simulation) change(ctx context.Context, p *process, name string, random *chance.Source) error {
	list, err := p.Blogs(ctx, name, 1+random.Below(3), "")
	if err != nil || len(list.Items) == 0 {
		return err
	}
	blog := list.Items[len(list.Items)-1]
	remove := random.Below(2) == 0
	s.mu.Lock()
	life := s.life(blog.ID)
	life.updated, life.removing = life.updated || !remove, life.removing || remove
	s.mu.Unlock()
	if !remove {
		_, err = p.Update(ctx, name, blog.ID, []string{blog.ETag, "*"}[random.Below(2)], channels.Draft{Title: "u", UserID: "u"})
		return err
	}
	if err = p.Remove(ctx, name, blog.ID, []string{"", blog.ETag}[random.Below(2)]); err == nil {
		s.locked(func() { life.removed = true })
	}
	return err
}

// host delivers messages, some of them twice.
func (s *simulation) host() {
	random := s.Chance("host", 0)
	for range 200 {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		messages, _ := s.world.queues.Receive(ctx, cleanupQueue, 1+random.Below(3), time.Duration(1+random.Below(600))*time.Second)
		var invocations sync.WaitGroup
		for _, m := range messages {
			for range 1 + random.Below(2) {
				kill := killer(random, 3, 10)
				invocations.Go(func() {
					p := s.world.start(nil, kill)
					ctx, cancel := context.WithTimeout(p.Context(), 5*time.Minute)
					defer cancel()
					_, err := p.Handle(ctx, text(s.T, m.Body))
					if errors.Is(err, channels.ErrMessage) {
						s.Errorf("dead letter: %v", err)
					}
					if err == nil && !p.Dead() {
						s.world.queues.Delete(ctx, cleanupQueue, m)
					}
				})
			}
		}
		invocations.Wait()
		cancel()
		time.Sleep(time.Duration(random.Below(3000)) * time.Millisecond)
	}
}

// settle ends all faults and waits until all work is finished.
func (s *simulation) settle() {
	s.locked(func() { s.calm = true })
	s.world.wait()
	for range 4 {
		s.world.plain(s.T)
		time.Sleep(26 * time.Hour) // no late request arrives after that
		s.world.sweepAll(s.T)
	}
	s.world.plain(s.T)
}
