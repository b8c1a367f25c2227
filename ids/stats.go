package ids

import (
	"time"
)

// Stats counts one generator's numbers and requests since it was created. At
// any time Reserved + TakenBack = Issued + Lost + Returned + Available.
type Stats struct {
	Issued    int64 `json:"issued"`    // returned by Next and Lease
	Reserved  int64 `json:"reserved"`  // confirmed by the store
	Lost      int64 `json:"lost"`      // given up: no node issues them
	Returned  int64 `json:"returned"`  // returned to the store by Close, for any node to issue
	TakenBack int64 `json:"takenBack"` // given back by callers that did not use them
	Available int64 `json:"available"` // reserved and not issued, or taken back

	Requests  int64 `json:"requests"`  // to the store, reads and writes
	Conflicts int64 `json:"conflicts"` // writes that the store rejected with ErrChanged
	Failures  int64 `json:"failures"`  // requests that failed otherwise
	Waits     int64 `json:"waits"`     // calls that had to wait for the store

	Problem string `json:"problem,omitempty"` // why no numbers can be reserved, such as a corrupt text

	Highest   int64   `json:"-"` // the highest number reserved, and not returned
	Writer    string  `json:"-"` // of the newest write; see Reported
	Serial    int64   `json:"-"` // of the newest write; 0: none
	From      int64   `json:"-"` // the lower one of the stored numbers before and after the newest write
	End       int64   `json:"-"` // one past the highest number that this generator reserved and did not return
	Used      int64   `json:"-"` // one past the highest number issued, which is never returned
	PerSecond float64 `json:"-"` // numbers issued, as last measured

	LastError   string    `json:"-"` // of the store, since the last success
	LastErrorAt time.Time `json:"-"`
}

// Stats returns the statistics. They may include numbers that are issued during
// the call.
func (g *Generator) Stats() Stats {
	g.mu.Lock()
	defer g.mu.Unlock()
	left, used := unpack(g.word.Load()).Count(), g.lastUsed
	if g.opened > left {
		used = max(used, g.openedLast-left)
	}
	issued := g.issued + g.opened - left
	stats := Stats{
		Issued:    issued,
		Reserved:  g.reserved,
		Lost:      g.lost,
		Returned:  g.returned,
		TakenBack: g.takenBack,
		Available: g.reserved + g.takenBack - issued - g.lost - g.returned,
		Requests:  g.counts.loads.Load() + g.counts.writes.Load(),
		Conflicts: g.counts.conflicts.Load(),
		Failures:  g.counts.failures.Load(),
		Waits:     g.waits,
	}
	stats.Highest, stats.PerSecond = g.highest, g.pace.rate
	stats.Writer, stats.Serial, stats.From, stats.End, stats.Used = g.place.writer, g.place.serial, g.place.from, g.place.end, used+1
	if g.lastError != nil {
		stats.LastError, stats.LastErrorAt = g.lastError.Error(), g.lastErrorAt
	}
	if g.problem != nil {
		stats.Problem = g.problem.Error()
	}
	return stats
}

// Stats returns the statistics of each sequence in use.
func (s *Set) Stats() map[string]Stats {
	s.mu.Lock()
	all := make(map[string]*Generator, len(s.generators))
	for name, at := range s.generators {
		all[name] = at.Value.(*member).Generator
	}
	s.mu.Unlock()
	stats := make(map[string]Stats, len(all))
	for name, g := range all {
		stats[name] = g.Stats()
	}
	return stats
}

// StatsOf returns the statistics of a sequence, or false if it is not in use.
func (s *Set) StatsOf(sequence string) (Stats, bool) {
	s.mu.Lock()
	at, ok := s.generators[sequence]
	s.mu.Unlock()
	if !ok {
		return Stats{}, false
	}
	return at.Value.(*member).Stats(), true
}

// Used is a sequence in use with its statistics.
type Used struct {
	Sequence string
	Stats
}

// Recent returns up to n sequences in use, the most recently used first.
func (s *Set) Recent(n int) []Used {
	s.mu.Lock()
	var recent []*Generator
	for at := s.byUse.Front(); at != nil && len(recent) < n; at = at.Next() {
		recent = append(recent, at.Value.(*member).Generator)
	}
	s.mu.Unlock()
	used := make([]Used, len(recent))
	for i, g := range recent {
		used[i] = Used{g.sequence, g.Stats()}
	}
	return used
}

// Unusable returns the sequences in use that this process found unusable, in no
// particular order. It makes no request. While Run is running, they are read
// again every 30 seconds.
func (s *Set) Unusable() []Unusable {
	var all []Unusable
	for _, g := range s.all() {
		g.mu.Lock()
		if g.unusable != nil {
			all = append(all, *g.unusable)
		}
		g.mu.Unlock()
	}
	return all
}

// NearEnd returns the sequences of which this process has reserved numbers from
// the last hundredth, or of which none is left, with the last number reserved.
func (s *Set) NearEnd() map[string]int64 {
	near := make(map[string]int64)
	for _, g := range s.all() {
		g.mu.Lock()
		if last := g.opt.Last; g.usedUp {
			near[g.sequence] = last
		} else if g.highest > last-last/100 {
			near[g.sequence] = g.highest
		}
		g.mu.Unlock()
	}
	return near
}

// Len returns how many sequences are in use. Their maximum is MaxSequences.
func (s *Set) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.generators)
}
