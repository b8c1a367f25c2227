package relay

import (
	"context"
	"math/rand/v2"
	"time"
)

// pingsToFailback is how many pings in a row have to be answered.
const pingsToFailback = 2

// moved starts the pings of an entity that fails over. The entity is locked.
func (s *Sender) moved(e *entity, from, to State, cause error) {
	s.options.OnEvent(Event{At: time.Now(), Kind: StateChanged, Entity: e.name, From: from, To: to, Cause: cause})
	switch {
	case to == FailedOver:
		s.count.failovers.Add(1)
		s.mu.Lock() // so that Close does not begin to wait in between
		defer s.mu.Unlock()
		if s.background.Err() == nil {
			s.running.Go(func() { s.ping(e) })
		}
	case from == FailedOver:
		s.count.failbacks.Add(1)
	}
}

// ping probes the primary until it answered twice in a row.
func (s *Sender) ping(e *entity) {
	begin := time.Now()
	for good := 0; good < pingsToFailback; {
		// The interval begins with the ping before, however long that took. It
		// varies, so that processes do not ping all at once.
		begin = begin.Add(s.options.pingInterval - rand.N(s.options.pingInterval/10+1))
		select {
		case <-time.After(time.Until(begin)):
		case <-s.background.Done():
			return
		}
		err := s.pingOnce(e.name)
		if s.background.Err() != nil {
			return
		}
		good++
		if err != nil && classOf(err) != NotFound { // a sender must learn that its entity is gone
			good = 0
			e.pingFailed(err)
			s.options.OnEvent(Event{At: time.Now(), Kind: PingFailed, Entity: e.name, Cause: err})
		}
	}
	s.primary.of(e.name).renew()
	e.failback()
}

// pingOnce uses a connection of its own: that of the sends may not notice for
// a minute that the primary answers again.
func (s *Sender) pingOnce(entity string) error {
	ctx, cancel := context.WithTimeout(s.background, min(s.options.attemptTimeout, s.options.pingInterval))
	defer cancel()
	c, err := s.pings.Connect()
	if err != nil {
		return err
	}
	err = c.Ping(ctx, entity)
	closing, cancel := context.WithTimeout(s.primary.patience, time.Second)
	defer cancel()
	c.Close(closing) // only the ping's result counts
	return err
}
