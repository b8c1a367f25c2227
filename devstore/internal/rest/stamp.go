package rest

import (
	"fmt"
	"sync"
	"time"
)

// Stamps gives each change a time of its own, in steps of 100 ns, so that
// neither ETags nor the Timestamp of an entity repeat, not even after a restart
// with a clock that was set back.
type Stamps struct {
	mu   sync.Mutex
	last time.Time
}

// Next returns now, or the first time after every one that was returned before.
func (s *Stamps) Next(now time.Time) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	now = now.UTC().Truncate(100 * time.Nanosecond)
	if !now.After(s.last) {
		now = s.last.Add(100 * time.Nanosecond)
	}
	s.last = now
	return now
}

// Seen tells of a time that was returned before a restart.
func (s *Stamps) Seen(t time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.After(s.last) {
		s.last = t.UTC()
	}
}

// ETag returns the ETag of a blob, container or queue that changed at a time
// from [Stamps].
func ETag(t time.Time) string {
	return fmt.Sprintf(`"0x%016X"`, uint64(t.UnixNano()/100))
}
