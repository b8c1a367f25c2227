package ids

import (
	"slices"
	"time"
)

// The open window is the run of numbers that are issued without the lock. It is
// packed in one word, so that a single atomic add takes a number and shows
// whether it may be used. The low bits hold the number issued last; the high
// bits hold how many are left. Adding windowStep changes both. When no number
// is left, the word becomes negative and stays negative: every caller that
// finds it negative takes the lock and sets it again. To make it overflow, 2^23
// callers would have to be between these two steps at once, which is more than
// memory can hold.
//
// The hot path reads nothing else, and Generator.Next is small enough to be
// inlined, which saves a third of its time.
const (
	windowBits = 40
	windowStep = 1 - 1<<windowBits
	windowMask = -1<<63 | (1<<windowBits - 1) // the sign and the number

	// windowShut is a word without numbers.
	windowShut = -1 << windowBits

	// maxWindow is the largest count that a word can hold. A window is not
	// made shorter than minWindow to measure the demand.
	maxWindow = 1<<(63-windowBits) - 1
	minWindow = 1024

	// windowTop bounds the numbers that fit, with room for every add to a
	// shut word. Larger numbers are issued under the lock.
	windowTop = 1<<windowBits - 1<<24
)

// pack returns the word that issues r, or windowShut if r does not fit.
func pack(r Range) int64 {
	if r.Count() < 1 || r.Count() > maxWindow || r.Last >= windowTop || r.First < 1 {
		return windowShut
	}
	return r.Count()<<windowBits | (r.First - 1)
}

// unpack returns the numbers that a word has not issued yet.
func unpack(word int64) Range {
	if word < 0 {
		return Range{First: 0, Last: -1}
	}
	at := word & (1<<windowBits - 1)
	return Range{First: at + 1, Last: at + word>>windowBits}
}

// takeOpen takes n consecutive numbers from the open window.
func (g *Generator) takeOpen(n int64) (Range, bool) {
	for {
		word := g.word.Load()
		left := unpack(word)
		if left.Count() < n {
			return Range{}, false
		}
		if g.word.CompareAndSwap(word, word+n*windowStep) {
			return left.take(n), true
		}
	}
}

// takeAvailable takes n consecutive numbers from all that are available and
// opens the window on the next ones. If few are left, it starts a reservation.
// The caller holds mu.
func (g *Generator) takeAvailable(n int64) (Range, bool) {
	now := time.Now()
	g.called = true
	g.shutWindow()
	g.pace.begin(now, n)
	g.pace.sample(now, g.issued)
	g.pace.leased(now, n)
	r, ok := g.cut(n)
	g.openWindow()
	return r, ok
}

func (g *Generator) cut(n int64) (Range, bool) {
	for i := range g.ready {
		if run := &g.ready[i]; run.Count() >= n {
			r := run.take(n)
			if run.Count() == 0 {
				g.ready = slices.Delete(g.ready, i, i+1)
			}
			g.issued += n
			g.lastUsed = max(g.lastUsed, r.Last)
			return r, true
		}
	}
	return Range{}, false
}

// openWindow makes the first available numbers issuable without the lock. The
// window ends where the next reservation is due, so that the hot path need not
// check for it, and after an eighth of a long run, so that the demand is
// measured in time.
func (g *Generator) openWindow() {
	useful := g.pace.useful()
	available := int64(0)
	for _, r := range g.ready {
		if r.Count() >= useful {
			available += r.Count()
		}
	}
	ahead := available - g.pace.enough()
	if ahead <= 0 && !(g.usedUp && len(g.ready) > 0) {
		g.low = true
		g.startFilling()
	}
	if len(g.ready) == 0 {
		return
	}
	run := &g.ready[0]
	least := int64(minWindow)
	if ahead <= 0 {
		least = 1 // the next caller that takes the lock repeats a reservation that failed
	}
	count := min(run.Count(), max(least, run.Count()/8), maxWindow)
	if run.Count() >= useful && ahead > 0 {
		count = min(count, ahead, run.Count()-useful+1)
	}
	word := pack(Range{First: run.First, Last: run.First + count - 1})
	if word == windowShut {
		return
	}
	run.take(count)
	if run.Count() == 0 {
		g.ready = g.ready[1:]
	}
	g.opened, g.openedLast = count, unpack(word).Last
	g.word.Store(word)
}

// shutWindow ends the open window, if any: it issues no number afterwards. Its
// unissued numbers go before the other available ones. The caller holds mu.
func (g *Generator) shutWindow() {
	rest := unpack(g.word.Swap(windowShut))
	if g.opened > rest.Count() {
		g.lastUsed = max(g.lastUsed, g.openedLast-rest.Count())
	}
	g.issued += g.opened - rest.Count()
	g.opened = 0
	switch {
	case rest.Count() == 0:
	case len(g.ready) > 0 && g.ready[0].First == rest.Last+1:
		g.ready[0].First = rest.First
	default:
		g.ready = slices.Insert(g.ready, 0, rest)
	}
}
