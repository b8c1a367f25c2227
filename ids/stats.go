package ids

import (
	"sync/atomic"
	"time"
)

// counts are the requests made to the store.
type counts struct {
	loads, writes, conflicts, failures atomic.Int64
}

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
