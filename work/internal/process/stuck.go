package process

import (
	"fmt"
	"sync"
	"time"

	"kennel/work/internal/format"
	"kennel/work/internal/model"
)

// Stuck is a batch with items that failed repeatedly where this process tried
// them.
type Stuck struct {
	Batch string
	Since time.Time
	model.Retrying
}

// stuckLasts is for how long after the next try was due this process reports
// items that another process may have done.
const stuckLasts = 2 * time.Minute

// stuck is what this process knows of items that fail.
type stuck struct {
	mu       sync.Mutex
	byParcel map[string]Stuck // failed repeatedly; guarded by mu

	recordedFrom time.Time // guarded by mu
	recorded     int       // since then; guarded by mu
}

// maxStuck bounds the parcels that are remembered; recordsAtOnce the records of
// a process in recordsIn.
const (
	maxStuck      = 1000
	recordsAtOnce = 2 * format.MaxRetries
	recordsIn     = 10 * time.Second
)

func parcelKey(batch string, p format.ParcelID) string { return fmt.Sprintf("%s/%d", batch, p.Parcel) }

// done forgets a parcel of which nothing remains.
func (s *stuck) done(batch string, p format.ParcelID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.byParcel, parcelKey(batch, p))
}

// failed takes a parcel that is tried again, and reports whether to record it.
func (s *stuck) failed(batch string, r format.Retry) (record bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	key := parcelKey(batch, format.ParcelID{Parcel: r.Parcel})
	if known, ok := s.byParcel[key]; r.Attempts > 1 && (ok || len(s.byParcel) < maxStuck) {
		if !ok {
			known = Stuck{Batch: batch, Since: now}
		}
		known.Retrying = model.Retrying{Items: r.Items, Attempts: r.Attempts, MaxAttempts: r.MaxAttempts, Item: r.Item, Error: r.Error, NextAt: r.NextAt}
		if s.byParcel == nil {
			s.byParcel = make(map[string]Stuck)
		}
		s.byParcel[key] = known
	}
	if now.Sub(s.recordedFrom) >= recordsIn {
		s.recordedFrom, s.recorded = now, 0
	}
	s.recorded++
	return s.recorded <= recordsAtOnce
}
