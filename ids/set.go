package ids

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// ErrTooMany reports that a Set holds the maximum of different sequences.
var ErrTooMany = errors.New("too many sequences in use")

// maxSequences bounds the memory that callers can use with new names. A
// generator takes about a kilobyte.
const maxSequences = 10_000

// Set holds the generators of one store by name. It creates each on first use.
// Sets do not share generators: sequences of the same name in two stores have
// their own numbers.
type Set struct {
	store Store
	opt   Options

	generators sync.Map // string → *Generator; added to under mu

	mu     sync.Mutex
	count  int
	closed bool
}

// NewSet returns an empty set whose generators all use the same options.
func NewSet(store Store, options *Options) (*Set, error) {
	opt, err := options.withDefaults()
	if err != nil {
		return nil, err
	}
	return &Set{store: store, opt: opt}, nil
}

// Get returns the generator of a sequence. It does no I/O.
func (s *Set) Get(sequence string) (*Generator, error) {
	if g, ok := s.generators.Load(sequence); ok {
		return g.(*Generator), nil
	}
	if err := CheckName(sequence); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if g, ok := s.generators.Load(sequence); ok {
		return g.(*Generator), nil
	}
	switch {
	case s.closed:
		return nil, ErrClosed
	case s.count >= maxSequences:
		return nil, fmt.Errorf("%w: this process uses %d", ErrTooMany, s.count)
	}
	g := newGenerator(s.store, sequence, s.opt)
	s.generators.Store(sequence, g)
	s.count++
	return g, nil
}

// Stats returns the statistics of each sequence in use.
func (s *Set) Stats() map[string]Stats {
	all := make(map[string]Stats)
	for name, g := range s.generators.Range {
		all[name.(string)] = g.(*Generator).Stats()
	}
	return all
}

// Close closes all generators, up to 32 at a time. It returns the first three
// errors joined, with the number of further ones.
func (s *Set) Close(ctx context.Context) error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	var (
		closing sync.WaitGroup
		slots   = make(chan struct{}, 32)
		mu      sync.Mutex
		errs    []error
		failed  int
	)
	for _, g := range s.generators.Range {
		slots <- struct{}{}
		closing.Go(func() {
			defer func() { <-slots }()
			if err := g.(*Generator).Close(ctx); err != nil {
				mu.Lock()
				defer mu.Unlock()
				if failed++; failed <= 3 {
					errs = append(errs, err)
				}
			}
		})
	}
	closing.Wait()
	if failed > len(errs) {
		errs = append(errs, fmt.Errorf("and errors of %d more sequences", failed-len(errs)))
	}
	return errors.Join(errs...)
}
