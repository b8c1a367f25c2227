package ids

import (
	"container/list"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"sync"
	"time"
)

// ErrTooMany reports that a Set uses the maximum of different sequences and
// cannot give one up at the moment.
var ErrTooMany = errors.New("too many sequences in use")

// A Set keeps a generator for each sequence in use. A generator takes about a
// kilobyte.
const (
	// MaxSequences bounds the memory that callers can use with new names. For
	// one more, the Set gives up the sequence that was not used for longest.
	MaxSequences = 10_000

	// idleAfter is how long a sequence has to be unused to be given up.
	idleAfter = 10 * time.Minute

	// returnAfter is how long a sequence has to be unused for its numbers to go
	// back. While other instances have reserved above them, this is tried
	// maxReturns times, after waits that double from returnEvery.
	returnAfter = time.Minute
	returnEvery = 15 * time.Second
	maxReturns  = 4

	// maxClosing bounds the generators that return their numbers at once.
	maxClosing = 32
)

const (
	// recheckInterval is how often the stored numbers of unusable sequences are
	// read again, so that a repair is noticed without a caller.
	recheckInterval = 30 * time.Second

	// maxRechecks bounds these reads in one interval.
	maxRechecks = 100
)

// Set issues the numbers of any number of sequences of one store. It begins
// each with its first use, and gives up those that are not used any more: their
// unissued numbers go back to the store. Sets do not share generators:
// sequences of the same name in two stores have their own numbers.
type Set struct {
	store   Store
	opt     Options
	reports *reports

	closing sync.WaitGroup  // generators that were given up
	slots   chan struct{}   // for them
	inTime  context.Context // of their requests, besides closeTimeout
	abort   func()          // ends inTime

	mu         sync.Mutex
	generators map[string]*list.Element // of *member
	byUse      list.List                // the most recently used first
	stopping   bool

	loans loans
}

// member is a generator of a Set.
type member struct {
	*Generator
	used  time.Time
	tries int // to return its unused numbers since
}

// NewSet returns an empty set whose generators all use the same options.
func NewSet(store Store, options *Options) (*Set, error) {
	if store == nil {
		return nil, errNoStore
	}
	opt, err := options.withDefaults()
	if err != nil {
		return nil, err
	}
	s := &Set{
		store: store, opt: opt, reports: newReports(opt.Reported),
		slots:      make(chan struct{}, maxClosing),
		generators: make(map[string]*list.Element),
	}
	s.inTime, s.abort = context.WithCancel(context.Background())
	return s, nil
}

// Next returns one number of a sequence, as [Generator.Next] does.
func (s *Set) Next(ctx context.Context, sequence string) (int64, error) {
	r, err := s.draw(sequence, func(g *Generator) (r Range, err error) {
		r.First, err = g.Next(ctx)
		return r, err
	})
	return r.First, err
}

// Lease returns n consecutive numbers of a sequence, as [Generator.Lease] does.
func (s *Set) Lease(ctx context.Context, sequence string, n int) (Range, error) {
	return s.draw(sequence, func(g *Generator) (Range, error) { return g.Lease(ctx, n) })
}

// Lend returns n consecutive numbers of a sequence as Next and Lease do, and a
// secret with which their caller can give those back that it did not use.
func (s *Set) Lend(ctx context.Context, sequence string, n int) (r Range, id string, err error) {
	l := &loan{id: rand.Text()}
	l.numbers, err = s.draw(sequence, func(g *Generator) (r Range, err error) {
		l.from, l.era = g, g.currentEra() // before the numbers are taken
		if n == 1 {
			r.First, err = g.Next(ctx)
			r.Last = r.First
			return r, err
		}
		return g.Lease(ctx, n)
	})
	if err != nil {
		return Range{}, "", err
	}
	s.loans.add(l)
	return l.numbers, l.id, nil
}

// TakeBack takes the numbers of a loan from first on, which its caller did not
// use and will not use. This process issues them again. It returns how many it
// took: none if the loan is unknown, was taken back before or is older than ten
// minutes, if the sequence was raised or found unusable since, or if this
// process has given it up or is stopping. Those numbers stay a gap. ErrNotLent
// reports a first that is not part of the loan, which then stays.
func (s *Set) TakeBack(sequence, id string, first int64) (int64, error) {
	l, err := s.loans.take(sequence, id, first)
	if l == nil {
		return 0, err
	}
	return l.from.takeBack(Range{First: first, Last: l.numbers.Last}, l.era), nil
}

func (s *Set) draw(sequence string, from func(*Generator) (Range, error)) (Range, error) {
	for {
		g, err := s.generator(sequence)
		if err != nil {
			return Range{}, err
		}
		r, err := from(g)
		if !errors.Is(err, ErrClosed) || s.isStopping() {
			return r, err
		}
		// The generator was given up at this moment.
	}
}

// generator returns the generator of a sequence. It does no I/O.
func (s *Set) generator(sequence string) (*Generator, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if at, ok := s.generators[sequence]; ok {
		s.byUse.MoveToFront(at)
		m := at.Value.(*member)
		m.used, m.tries = now, 0
		return m.Generator, nil
	}
	if err := CheckName(sequence); err != nil {
		return nil, err
	}
	if s.stopping {
		return nil, ErrClosed
	}
	if len(s.generators) >= MaxSequences && !s.giveUpOldest() {
		return nil, fmt.Errorf("%w: this process uses %d", ErrTooMany, MaxSequences)
	}
	g := newGenerator(s.store, sequence, s.opt, s.reports)
	s.generators[sequence] = s.byUse.PushFront(&member{Generator: g, used: now})
	return g, nil
}

// giveUpOldest gives up the sequence that was not used for longest. The caller
// holds mu.
func (s *Set) giveUpOldest() bool {
	for range maxClosing {
		at := s.byUse.Back()
		m := at.Value.(*member)
		if !m.needed() {
			return s.giveUp(at)
		}
		s.byUse.MoveToFront(at)
		m.used = time.Now()
	}
	return false
}

// giveUp removes a generator and closes it in the background. It returns false
// if too many are being closed. The caller holds mu.
func (s *Set) giveUp(at *list.Element) bool {
	select {
	case s.slots <- struct{}{}:
	default:
		return false
	}
	g := s.byUse.Remove(at).(*member).Generator
	delete(s.generators, g.sequence)
	s.closing.Go(func() {
		defer func() { <-s.slots }()
		ctx, cancel := context.WithTimeout(s.inTime, closeTimeout)
		defer cancel()
		g.close(ctx, 0) // after an error its numbers are lost, as after a kill
	})
	return true
}

// Run returns the numbers of sequences that were not used for a minute, gives up
// the sequences that are not used any more, and reads unusable ones again, until
// ctx ends. Then it ends all waits with ErrClosed: from now on
// only numbers that are available are issued. It returns nil. Call Close
// afterwards.
func (s *Set) Run(ctx context.Context) error {
	ticker := time.NewTicker(idleAfter / 10)
	defer ticker.Stop()
	returns := time.NewTicker(returnEvery)
	defer returns.Stop()
	rechecks := time.NewTicker(recheckInterval)
	defer rechecks.Stop()
	for {
		select {
		case now := <-ticker.C:
			s.giveUpIdle(now)
		case now := <-returns.C:
			s.returnIdle(now)
		case <-rechecks.C:
			s.recheck(ctx)
		case <-ctx.Done():
			s.stop()
			return nil
		}
	}
}

func (s *Set) giveUpIdle(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for at := s.byUse.Back(); at != nil; {
		m, before := at.Value.(*member), at.Prev()
		if now.Sub(m.used) < idleAfter || !m.needed() && !s.giveUp(at) {
			return
		}
		at = before
	}
}

// returnIdle returns the unused numbers of sequences that no caller uses.
func (s *Set) returnIdle(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for at := s.byUse.Back(); at != nil; at = at.Prev() {
		m := at.Value.(*member)
		unused := now.Sub(m.used)
		if unused < returnAfter {
			return
		}
		if m.tries >= maxReturns || unused < returnAfter+returnEvery*(1<<m.tries-1) {
			continue
		}
		select {
		case s.slots <- struct{}{}:
		default:
			return
		}
		m.tries++
		used := m.used
		s.closing.Go(func() {
			defer func() { <-s.slots }()
			left := m.returnIdle()
			s.mu.Lock()
			defer s.mu.Unlock()
			if !left && m.used.Equal(used) {
				m.tries = maxReturns
			}
		})
	}
}

// recheck reads unusable sequences again, in a random order. It ends when the
// store fails, because further reads would fail too.
func (s *Set) recheck(ctx context.Context) {
	var broken []*Generator
	for _, g := range s.all() {
		g.mu.Lock()
		if g.unusable != nil {
			broken = append(broken, g)
		}
		g.mu.Unlock()
	}
	mathrand.Shuffle(len(broken), func(i, j int) { broken[i], broken[j] = broken[j], broken[i] })
	for _, g := range broken[:min(len(broken), maxRechecks)] {
		if err := g.recheck(ctx); err != nil {
			return
		}
	}
}

// stop ends all waits. It returns the generators, the most recently used first.
func (s *Set) stop() []*Generator {
	s.mu.Lock()
	s.stopping = true
	s.mu.Unlock()
	all := s.all() // no other is added
	for _, g := range all {
		g.stopWaits()
	}
	return all
}

// all returns the generators, the most recently used first.
func (s *Set) all() []*Generator {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]*Generator, 0, len(s.generators))
	for at := s.byUse.Front(); at != nil; at = at.Next() {
		all = append(all, at.Value.(*member).Generator)
	}
	return all
}

func (s *Set) isStopping() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stopping
}

// Close closes all generators, up to 32 at a time, the most recently used
// first. It returns the first three errors joined, with the number of further
// ones.
func (s *Set) Close(ctx context.Context) error {
	var (
		mu     sync.Mutex
		errs   []error
		failed int
	)
	defer context.AfterFunc(ctx, s.abort)()
	for i, g := range s.stop() {
		patience := returnPatience
		if i >= maxClosing {
			patience = 0 // so that they do not wait one after the other
		}
		s.slots <- struct{}{}
		s.closing.Go(func() {
			defer func() { <-s.slots }()
			if err := g.close(ctx, patience); err != nil {
				mu.Lock()
				defer mu.Unlock()
				if failed++; failed <= 3 {
					errs = append(errs, err)
				}
			}
		})
	}
	s.closing.Wait()
	if failed > len(errs) {
		errs = append(errs, fmt.Errorf("and errors of %d more sequences", failed-len(errs)))
	}
	return errors.Join(errs...)
}
