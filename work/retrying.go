package work

import (
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"kennel/work/internal/model"
)

// What is tried again is recorded in the ledger, so that a batch shows why it
// does not advance. The write that counts the results of a try records what
// remains of it, so that costs no request. It is bounded in size and number, and is
// no part of the promise: what a later delivery counts is not recorded.

// retry is the items of one parcel that are tried again.
type retry struct {
	Parcel int       `json:"parcel"`
	Try    int       `json:"try"`   // that failed
	Items  int       `json:"items"` // that remain
	Item   string    `json:"item"`  // the first one of them
	Error  string    `json:"error"`
	NextAt time.Time `json:"nextAt"`
}

const (
	retryingColumn = "retrying"
	maxRetries     = 10  // entries of a ledger; about 4 KiB
	maxRetryError  = 200 // bytes
)

// retries are the entries of a ledger.
type retries []retry

func (r retries) text() string {
	if len(r) == 0 {
		return ""
	}
	text, err := json.Marshal(r)
	if err != nil {
		panic(err) // cannot occur: numbers, times and valid texts
	}
	return string(text)
}

// readRetries reads the column, which builds that do not know it drop.
func readRetries(text string) (r retries, err error) {
	if text == "" {
		return nil, nil
	}
	err = json.Unmarshal([]byte(text), &r)
	return r, err
}

// isDue reports whether an entry still describes its parcel: the results of the
// next try are not counted.
func (l *ledger) isDue(r retry) bool {
	next := parcelID{r.Parcel, r.Try + 1}
	return next.check() == nil && !l.counted.has(next.bit())
}

// addRetry adds an entry, and removes those that are over.
func (l *ledger) addRetry(r retry) (changed bool) {
	if l.ended() || !l.isDue(r) || slices.ContainsFunc(l.retries, func(other retry) bool { return other.Parcel == r.Parcel && other.Try >= r.Try }) {
		return false
	}
	kept := make(retries, 0, maxRetries)
	for _, other := range l.retries {
		if l.isDue(other) && other.Parcel != r.Parcel {
			kept = append(kept, other)
		}
	}
	if len(kept) == maxRetries {
		return false
	}
	l.retries = append(kept, r)
	return true
}

// retrying returns what is tried again, or nil.
func (l *ledger) retrying() *Retrying {
	var all Retrying
	entries := 0
	for _, r := range l.retries {
		if !l.isDue(r) {
			continue
		}
		entries++
		all.Items += r.Items
		if r.Try+1 > all.Attempts {
			all.Attempts, all.Item, all.Error = r.Try+1, r.Item, r.Error
		}
		if all.NextAt.IsZero() || r.NextAt.Before(all.NextAt) {
			all.NextAt = r.NextAt.UTC()
		}
	}
	if entries == 0 || l.ended() {
		return nil
	}
	all.Items = min(all.Items, l.details.Items-l.done-l.rejected-l.failed)
	all.More = entries == maxRetries
	return &all
}

// Stuck is a batch with items that failed repeatedly where this process tried
// them.
type Stuck struct {
	Batch string
	Since time.Time
	Retrying
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
	recordsAtOnce = 2 * maxRetries
	recordsIn     = 10 * time.Second
)

func parcelKey(batch string, p parcelID) string { return fmt.Sprintf("%s/%d", batch, p.Parcel) }

// done forgets a parcel of which nothing remains.
func (s *stuck) done(batch string, p parcelID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.byParcel, parcelKey(batch, p))
}

// failed takes a parcel that is tried again, and reports whether to record it.
func (s *stuck) failed(batch string, r retry) (record bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	key := parcelKey(batch, parcelID{Parcel: r.Parcel})
	if known, ok := s.byParcel[key]; r.Try > 0 && (ok || len(s.byParcel) < maxStuck) {
		if !ok {
			known = Stuck{Batch: batch, Since: now}
		}
		known.Retrying = Retrying{Items: r.Items, Attempts: r.Try + 1, Item: r.Item, Error: r.Error, NextAt: r.NextAt}
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

// Stuck returns the batches with items that failed more than once where this
// process tried them, those with the most attempts first.
func (b *Batches) Stuck() []Stuck {
	s := &b.stuck
	s.mu.Lock()
	defer s.mu.Unlock()
	byBatch := make(map[string]Stuck)
	for key, parcel := range s.byParcel {
		if time.Since(parcel.NextAt) > stuckLasts {
			delete(s.byParcel, key)
			continue
		}
		all, ok := byBatch[parcel.Batch]
		items, since := all.Items+parcel.Items, parcel.Since
		if ok && all.Since.Before(since) {
			since = all.Since
		}
		if parcel.Attempts > all.Attempts {
			all = parcel
		}
		all.Items, all.Since = items, since
		byBatch[parcel.Batch] = all
	}
	var found []Stuck
	for _, batch := range byBatch {
		found = append(found, batch)
	}
	slices.SortFunc(found, func(a, b Stuck) int {
		if a.Attempts != b.Attempts {
			return b.Attempts - a.Attempts
		}
		return a.Since.Compare(b.Since)
	})
	return found
}

// retryOf returns what to record of a parcel after a try, or nil: nothing remains,
// the try was made in an earlier delivery, or enough was recorded.
func (b *Batches) retryOf(p parcel, row resultRow, next time.Time) *retry {
	switch {
	case len(row.remaining) == 0:
		b.stuck.done(p.Batch, p.ID)
		return nil
	case row.cause == "":
		return nil
	}
	r := retry{Parcel: p.ID.Parcel, Try: p.ID.Try, Items: len(row.remaining), Item: row.item, Error: model.ShortenTo(row.cause, maxRetryError), NextAt: next.UTC()}
	if !b.stuck.failed(p.Batch, r) {
		return nil
	}
	return &r
}
