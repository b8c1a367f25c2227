package ids

import (
	"container/list"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

const (
	// maxLoans bounds the loans that a Set remembers. One more replaces the
	// oldest, whose numbers then cannot be taken back.
	maxLoans = 1000

	// loanLasts is for how long the numbers of a loan can be taken back.
	loanLasts = 10 * time.Minute
)

// ErrNotLent reports numbers that are not part of the loan.
var ErrNotLent = errors.New("the number is not part of the lease")

// loan is numbers that their caller may give back.
type loan struct {
	from    *Generator
	era     int64 // of from, when the numbers were drawn or before
	numbers Range
	ends    time.Time
	id      string
}

// loans are the loans that were not taken back. The process that issued the
// numbers remembers them, in memory: only there are they still reserved.
type loans struct {
	mu    sync.Mutex
	byID  map[string]*list.Element // of *loan
	byAge list.List                // the oldest first
}

func (ls *loans) add(l *loan) {
	now := time.Now()
	l.ends = now.Add(loanLasts)
	ls.mu.Lock()
	defer ls.mu.Unlock()
	for at := ls.byAge.Front(); at != nil && (ls.byAge.Len() >= maxLoans || now.After(at.Value.(*loan).ends)); at = ls.byAge.Front() {
		ls.remove(at)
	}
	if ls.byID == nil {
		ls.byID = make(map[string]*list.Element)
	}
	ls.byID[l.id] = ls.byAge.PushBack(l)
}

// take removes a loan, so that it is taken back at most once. It returns nil if
// there is none.
func (ls *loans) take(sequence, id string, first int64) (*loan, error) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	at, ok := ls.byID[id]
	if !ok {
		return nil, nil
	}
	l := at.Value.(*loan)
	switch {
	case l.from.sequence != sequence || time.Now().After(l.ends):
		return nil, nil
	case first < l.numbers.First || first > l.numbers.Last:
		return nil, fmt.Errorf("%w: it has the numbers %d to %d", ErrNotLent, l.numbers.First, l.numbers.Last)
	}
	ls.remove(at)
	return l, nil
}

// remove removes a loan. The caller holds mu.
func (ls *loans) remove(at *list.Element) { delete(ls.byID, ls.byAge.Remove(at).(*loan).id) }

// currentEra returns the era of the generator. It ends when this node finds that
// other nodes may have got numbers that it has issued: what was stored went
// down, was lost or was raised.
func (g *Generator) currentEra() int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.era
}

// takeBack makes numbers available that were issued in an era and not used. It
// returns how many: none after the end of the era, or if the generator issues
// nothing more. They never go back to the store, because the other nodes have
// read that they were issued: a stored number below them would be an older copy
// to them. Until they are issued again they are only in memory.
func (g *Generator) takeBack(r Range, era int64) int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed || g.stopping || g.era != era {
		return 0
	}
	g.shutWindow() // the next caller opens it again; a return causes no reservation
	g.takenBack += r.Count()
	i := slices.IndexFunc(g.ready, func(run Range) bool { return run.Last+1 == r.First || r.Last+1 == run.First })
	switch {
	case i < 0:
		g.ready = slices.Insert(g.ready, 0, r)
	case g.ready[i].First == r.Last+1:
		g.ready[i].First = r.First
	default:
		g.ready[i].Last = r.Last
	}
	g.dropShortest()
	return r.Count()
}
