// Package table imitates the table service of Azure Storage: tables, entities,
// queries and entity group transactions.
package table

import (
	"math/rand/v2"
	"sync"

	"kennel/devstore/internal/properties"
	"kennel/devstore/internal/rest"
)

// A Service keeps the tables of all accounts. It implements [rest.Service] and
// is safe for concurrent use.
type Service struct {
	log        rest.Log
	stamps     rest.Stamps
	early      early
	properties *properties.Store

	mu       sync.RWMutex
	accounts accounts // guarded by mu
	last     int64    // the stamp of the last change; guarded by mu
}

// New returns a service without tables. With a seed other than 0, some queries
// return less than a page and go on from there, as in Azure, where a page ends
// at the borders of partitions and servers.
func New(log rest.Log, seed uint64) *Service {
	return &Service{
		log:        log,
		early:      newEarly(seed),
		properties: properties.New(properties.Table, propertyLog{log}),
		accounts:   make(accounts),
	}
}

// A propertyLog marks the records of the service properties.
type propertyLog struct{ log rest.Log }

func (l propertyLog) Append(record []byte) {
	l.log.Append(append([]byte{recordVersion, setProperty}, record...))
}

// Policy implements [rest.Service].
func (s *Service) Policy(account, container, id string) (rest.Policy, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if t := s.accounts.find(account, container); t != nil {
		for _, p := range t.policies {
			if p.ID == id {
				return p, true
			}
		}
	}
	return rest.Policy{}, false
}

// Apply implements [rest.Service].
func (s *Service) Apply(record []byte) error {
	kind, texts, err := parseRecord(record)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch kind {
	case setProperty:
		return s.properties.Apply(record[2:])
	case forgetAll:
		s.forget()
		return nil
	case setStamp:
		if len(texts) != 1 || len(texts[0]) != 8 {
			return errDamaged
		}
		s.seen(readInt64(texts[0]))
		return nil
	default:
		stamp, err := s.accounts.apply(kind, texts)
		s.seen(stamp)
		return err
	}
}

// seen makes later stamps larger than one.
func (s *Service) seen(stamp int64) {
	if stamp > s.last {
		s.last = stamp
		s.stamps.Seen(timeOf(stamp))
	}
}

// Snapshot implements [rest.Service].
func (s *Service) Snapshot(emit func(record []byte) error) error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if err := emit(stampRecord(s.last)); err != nil {
		return err
	}
	err := s.properties.Snapshot(func(record []byte) error {
		return emit(append([]byte{recordVersion, setProperty}, record...))
	})
	if err != nil {
		return err
	}
	return s.accounts.snapshot(emit)
}

// Reset implements [rest.Service]. Versions do not repeat after it.
func (s *Service) Reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forget()
	s.log.Append(newRecord(forgetAll))
}

func (s *Service) forget() {
	clear(s.accounts)
	s.properties.Reset()
}

// stamp returns the time of a change. Its caller holds the lock.
func (s *Service) stamp(r *rest.Request) int64 {
	s.last = ticks(s.stamps.Next(r.Now))
	return s.last
}

// early decides where queries end before their page is full.
type early struct {
	mu  sync.Mutex
	rng *rand.Rand // nil for never; guarded by mu
}

func newEarly(seed uint64) early {
	if seed == 0 {
		return early{}
	}
	return early{rng: rand.New(rand.NewPCG(seed, seed))}
}

// end returns after how many rows a query ends, or false for a full page.
func (e *early) end() (int, bool) {
	if e.rng == nil {
		return 0, false
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.rng.IntN(4) != 0 {
		return 0, false
	}
	return e.rng.IntN(20), true
}
