package channels_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"kennel/channels"
	"kennel/internal/memory"
	"kennel/internal/storetest"
)

var (
	simulations = flag.Int("simulations", 100, "seeded simulations to run")
	simulateOne = flag.Uint64("seed", 0, "run the one simulation with this seed")
)

// TestSimulations lets clients do everything at once that the API offers, on
// few names and stores that fail in every way, kills processes at random, and
// then checks that every row has its place. In every other simulation all
// goes slowly.
func TestSimulations(t *testing.T) {
	t.Parallel()
	if *simulateOne != 0 {
		synctest.Test(t, func(t *testing.T) { simulate(t, *simulateOne) })
		return
	}
	base := rand.Uint64()
	t.Logf("seeds %d to %d", base, base+uint64(*simulations))
	var deleted, failed int
	for i := range *simulations {
		seed := base + uint64(i)
		synctest.Test(t, func(t *testing.T) {
			s := simulate(t, seed)
			deleted += s.deleted
			failed += s.failed
			if t.Failed() { // which ends the test with this simulation
				t.Logf("seed %d: run it alone with -run TestSimulations -seed %d", seed, seed)
			}
		})
	}
	t.Logf("%d simulations deleted %d channels; %d calls failed, as they should", *simulations, deleted, failed)
	if deleted < *simulations || failed == 0 {
		t.Errorf("%d channels and %d failures are too few to have tried anything", deleted, failed)
	}
}

type simulation struct {
	t     *testing.T
	world *world

	mu      sync.Mutex
	rng     *rand.Rand
	slow    bool // requests are late by hours, machines asleep, and sweeps do not wait for either
	calm    bool // nothing goes wrong any more
	blogs   map[string]*blogLife
	deleted int
	failed  int
}

// blogLife is what a simulation knows of a blog.
type blogLife struct {
	channels.Blog        // as it was posted, if its writer has heard of that
	updated, doomed bool // somebody tried to update it, or to remove it
	removed         bool // and heard that it is
}

// life is for holders of s.mu.
func (s *simulation) life(blog string) *blogLife {
	if s.blogs[blog] == nil {
		s.blogs[blog] = &blogLife{}
	}
	return s.blogs[blog]
}

func simulate(t *testing.T, seed uint64) *simulation {
	s := &simulation{t: t, rng: rand.New(rand.NewPCG(seed, 0)), slow: seed%2 == 0, blogs: map[string]*blogLife{}}
	o := &memory.TableOptions{
		Options: memory.Options{Fate: s.fate, Police: func(problem string) { t.Error(problem) }, ShuffleSeed: seed},
		Scan:    s.scan,
	}
	s.world = &world{channels: memory.NewTable(o), blogs: memory.NewTable(o), queues: memory.NewQueues(&o.Options), witness: &witness{}}
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

func (s *simulation) fate(memory.Call) memory.Fate {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.calm {
		return memory.Fate{}
	}
	fate := memory.Fate{
		Delay: time.Duration(s.rng.IntN(20)) * time.Millisecond,
		Back:  time.Duration(s.rng.IntN(20)) * time.Millisecond,
	}
	switch s.rng.IntN(40) {
	case 0:
		fate.Err, fate.Lost = memory.ErrBusy, true
	case 1:
		fate.Err = errReset
	case 2:
		fate.Err, fate.After = errReset, time.Duration(s.rng.IntN(60))*time.Second
		if s.slow {
			fate.After *= 180
		}
	case 3:
		fate.Err, fate.Lost = channels.ErrRefused, true
	}
	return fate
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

// client lives some lives.
func (s *simulation) client() {
	for range 2 + s.below(3) {
		o := &channels.Options{Parallel: 1 + s.below(4)}
		if s.below(2) == 0 {
			o.AcceptFor = -1
		}
		if s.slow {
			o.OrphanAfter = time.Duration(1+s.below(5000)) * time.Millisecond
			o.StalledAfter = time.Duration(1+s.below(30)) * time.Second
			o.Step = func(string) { s.doze() }
		}
		var kill *storetest.Killer
		if s.below(2) == 0 {
			kill = &storetest.Killer{N: 1 + int64(s.below(60)), After: s.below(2) == 0}
		}
		p := s.world.start(o, kill)
		for range 5 + s.below(30) {
			if p.Dead() {
				break
			}
			s.call(p)
			time.Sleep(time.Duration(s.below(2000)) * time.Millisecond)
		}
	}
}

// doze is what a machine does now and then that is busy, or is put to sleep.
func (s *simulation) doze() {
	switch {
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
		_, _, err = p.Create(ctx, name, fmt.Sprint("owner", s.below(2)))
		if errors.Is(err, channels.ErrChanged) {
			s.t.Errorf("%v, and nobody stated a condition", err)
		}
	case 2:
		var d channels.Deletion
		d, err = p.Delete(ctx, name, "")
		if err == nil && d.State == channels.Done {
			s.mu.Lock()
			s.deleted++
			s.mu.Unlock()
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
			blog, err = p.Post(ctx, name, channels.Draft{Title: "t", Text: fmt.Sprint(s.below(1000)), UserID: "u"})
			if err == nil {
				s.mu.Lock()
				s.life(blog.ID).Blog = blog
				s.mu.Unlock()
			}
		}
	}
	if err != nil {
		s.mu.Lock()
		s.failed++
		s.mu.Unlock()
	}
	for _, never := range []error{channels.ErrCorrupt, channels.ErrExists, channels.ErrLimit, channels.ErrToken, channels.ErrMessage} {
		if errors.Is(err, never) && !errors.Is(err, storetest.ErrKilled) {
			s.t.Errorf("%v: nobody should ever hear that", err)
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
	life.updated, life.doomed = life.updated || !remove, life.doomed || remove
	s.mu.Unlock()
	if !remove {
		_, err = p.Update(ctx, name, blog.ID, []string{blog.ETag, "*"}[s.below(2)], channels.Draft{Title: "u", UserID: "u"})
		return err
	}
	if err = p.Remove(ctx, name, blog.ID, []string{"", blog.ETag}[s.below(2)]); err == nil {
		s.mu.Lock()
		life.removed = true
		s.mu.Unlock()
	}
	return err
}

// host delivers messages, sometimes twice, for an hour.
func (s *simulation) host() {
	for range 200 {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		messages, _ := s.world.queues.Receive(ctx, cleanupQueue, 1+s.below(3), time.Duration(1+s.below(600))*time.Second)
		var invocations sync.WaitGroup
		for _, m := range messages {
			for range 1 + s.below(2) {
				invocations.Go(func() {
					var kill *storetest.Killer
					if s.below(3) == 0 {
						kill = &storetest.Killer{N: 1 + int64(s.below(10)), After: s.below(2) == 0}
					}
					p := s.world.start(nil, kill)
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

// settle ends all faults and lets what was begun come to its end.
func (s *simulation) settle() {
	s.mu.Lock()
	s.calm = true
	s.mu.Unlock()
	s.world.wait()
	for range 4 {
		s.world.host(s.t, func() *process { return s.world.start(nil, nil) })
		time.Sleep(26 * time.Hour) // after which no late request is reckoned with any more
		s.world.sweepAll(s.t)
	}
	s.world.host(s.t, func() *process { return s.world.start(nil, nil) })
}

// check that every row belongs to a channel that is there.
func (s *simulation) check() {
	p := s.world.start(nil, nil)
	live := make(map[string]bool)
	list, err := p.List(p.Context(), 1000, "")
	for ; ; list, err = p.List(p.Context(), 1000, list.Continuation) {
		if err != nil {
			s.t.Fatal(err)
		}
		for _, ch := range list.Items {
			live[ch.Name+"@"+ch.Incarnation] = true
			if _, err := p.Post(p.Context(), ch.Name, channels.Draft{Title: "still open", UserID: "u"}); err != nil {
				s.t.Errorf("%s is there and takes no blogs: %v", ch.Name, err)
			}
		}
		if list.Continuation == "" {
			break
		}
	}
	blogs := s.rows(s.world.blogs)
	for _, row := range blogs {
		if !live[row.Partition] {
			s.t.Errorf("row %s of %s has no channel", row.Key, row.Partition)
		}
	}
	for _, row := range s.rows(s.world.channels) {
		switch state := row.Values["state"]; {
		case row.Key == "name" && !live[row.Partition+"@"+row.Values["incarnation"]]:
			s.t.Errorf("the name %s stands for nothing", row.Partition)
		case state == "live" && !live[row.Partition+"@"+row.Key]:
			s.t.Errorf("incarnation %s of %s has no name", row.Key, row.Partition)
		case state == "creating":
			s.t.Errorf("incarnation %s of %s is neither created nor given up", row.Key, row.Partition)
		case state == "abandoned":
			s.t.Errorf("incarnation %s of %s was given up, and is remembered for ever", row.Key, row.Partition)
		case state == "deleting":
			s.t.Errorf("incarnation %s of %s never was deleted", row.Key, row.Partition)
		}
	}
	s.checkBlogs(live, blogs)
}

// checkBlogs that each has become what its writers were told: what was posted
// is in its incarnation, if that is there, and else in the count of its
// deletion; what was removed has not come back.
func (s *simulation) checkBlogs(live map[string]bool, rows []channels.Row) {
	there := make(map[string]channels.Row)
	for _, row := range rows {
		there[row.Key] = row
	}
	kept := make(map[string]int64) // blogs of a partition that nobody but its deletion can have removed
	for id, blog := range s.blogs {
		partition := s.world.witness.partitionOf(id)
		row, ok := there[id]
		posted := blog.ID != ""
		if posted && !blog.doomed {
			kept[partition]++
		}
		switch {
		case ok && row.Partition != partition:
			s.t.Errorf("blog %s of %s is in %s", id, partition, row.Partition)
		case blog.removed && ok:
			s.t.Errorf("blog %s was removed and has come back", id)
		case live[partition] && posted && !blog.doomed && !ok:
			s.t.Errorf("blog %s was posted into %s and is gone", id, partition)
		case ok && posted && !blog.updated && (row.Values["text0"] != blog.Text || row.Version != blog.ETag):
			s.t.Errorf("blog %s is %+v, posted was %+v", id, row, blog)
		}
	}
	counted := make(map[string]int64)
	for _, row := range s.rows(s.world.channels) {
		if row.Values["state"] == "done" {
			n, err := strconv.ParseInt(row.Values["counted"], 10, 64)
			if err != nil {
				s.t.Fatal(err)
			}
			counted[row.Partition+"@"+row.Key] = n
		}
	}
	for partition, n := range kept {
		got, ok := counted[partition]
		if most := s.world.witness.inserts(partition); !live[partition] && (!ok || got < n || got > most) {
			s.t.Errorf("the deletion of %s (%v) counts %d blogs, want %d to %d", partition, ok, got, n, most)
		}
	}
}

func (s *simulation) rows(table *memory.Table) (rows []channels.Row) {
	q := channels.Query{Top: 1000}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for {
		page, err := table.Query(ctx, q)
		if err != nil {
			s.t.Fatal(err)
		}
		rows = append(rows, page.Rows...)
		if q.After = page.Next; q.After == "" {
			return rows
		}
		if strings.Count(q.After, "") > 10_000 {
			s.t.Fatal("no end")
		}
	}
}
