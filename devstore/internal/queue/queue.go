// Package queue imitates the queue service of Azure Storage: queues with
// metadata and access policies, messages with visibility timeouts, pop
// receipts, dequeue counts and a time to live.
//
// A message is received in microseconds, however many there are.
package queue

import (
	"sync"

	"kennel/devstore/internal/properties"
	"kennel/devstore/internal/rest"
)

// Service is the queue service. It implements [rest.Service].
type Service struct {
	log        rest.Log
	seed       uint64
	properties *properties.Store
	stamps     rest.Stamps

	mu       sync.Mutex
	accounts map[string]*account // guarded by mu
	sequence uint64              // of the newest message; guarded by mu
	last     ticks               // the stamp of the last change; guarded by mu
	now      ticks               // the latest time of a request; guarded by mu
}

// New returns a service without queues. Visible messages are received in the
// order of their arrival if seed is 0, else nearly in this order, shuffled.
func New(log rest.Log, seed uint64) *Service {
	return &Service{
		log:        log,
		seed:       seed,
		properties: properties.New(properties.Queue, marked{log}),
		accounts:   make(map[string]*account),
	}
}

// seen makes later stamps larger than one.
func (s *Service) seen(stamp ticks) {
	if stamp > s.last {
		s.last = stamp
		s.stamps.Seen(stamp.time())
	}
}

// marked marks the records of package properties in the log.
type marked struct {
	log rest.Log
}

func (l marked) Append(record []byte) {
	l.log.Append(append(encode(recordProperties), record...))
}

// account returns an account, which exists from its first use.
func (s *Service) account(name string) *account {
	a := s.accounts[name]
	if a == nil {
		a = newAccount()
		s.accounts[name] = a
	}
	return a
}

// open returns a queue as it is at the time of a request. Its caller holds the
// lock.
func (s *Service) open(r *rest.Request, name string) (*queue, error) {
	now := ticksOf(r.Now)
	s.now = max(s.now, now)
	a := s.accounts[r.Account]
	if a == nil || a.queues[name] == nil {
		return nil, rest.Fail(404, "QueueNotFound", "The specified queue does not exist.")
	}
	q := a.queues[name]
	q.advance(now)
	return q, nil
}

// Policy implements [rest.Service].
func (s *Service) Policy(account, container, id string) (rest.Policy, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if a := s.accounts[account]; a != nil && a.queues[container] != nil {
		for _, p := range a.queues[container].policies {
			if p.ID == id {
				return p, true
			}
		}
	}
	return rest.Policy{}, false
}

// Reset implements [rest.Service].
func (s *Service) Reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forget()
	s.log.Append(encode(recordReset))
}

func (s *Service) forget() {
	s.properties.Reset()
	clear(s.accounts)
}
