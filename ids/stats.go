package ids

import "sync/atomic"

// counts are the requests made to the store.
type counts struct {
	loads, writes, conflicts, failures atomic.Int64
}

// Stats is an account of one generator's numbers and requests since it was
// made. At any time Reserved = Issued + Burnt + Returned + InHand.
type Stats struct {
	Issued   int64 `json:"issued"`   // handed out
	Reserved int64 `json:"reserved"` // confirmed by the store
	Burnt    int64 `json:"burnt"`    // given up: will never be issued by anybody
	Returned int64 `json:"returned"` // given back by Close, for others to issue
	InHand   int64 `json:"inHand"`   // reserved and not issued yet

	Requests  int64 `json:"requests"`  // to the store, reads and writes
	Conflicts int64 `json:"conflicts"` // writes that another node had overtaken
	Failures  int64 `json:"failures"`  // requests the store failed
	Waits     int64 `json:"waits"`     // calls that had to wait for the store

	Problem string `json:"problem,omitempty"` // why no numbers can be reserved, such as a corrupt text
}

// Stats returns the account. Numbers issued meanwhile may or may not be in it.
func (g *Generator) Stats() Stats {
	g.mu.Lock()
	defer g.mu.Unlock()
	issued := g.issued + g.opened - unpack(g.word.Load()).Count()
	stats := Stats{
		Issued:    issued,
		Reserved:  g.reserved,
		Burnt:     g.burnt,
		Returned:  g.returned,
		InHand:    g.reserved - issued - g.burnt - g.returned,
		Requests:  g.counts.loads.Load() + g.counts.writes.Load(),
		Conflicts: g.counts.conflicts.Load(),
		Failures:  g.counts.failures.Load(),
		Waits:     g.waits,
	}
	if g.problem != nil {
		stats.Problem = g.problem.Error()
	}
	return stats
}
