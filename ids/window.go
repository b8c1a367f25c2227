package ids

import (
	"slices"
	"time"
)

// The numbers being issued are packed in one word, so that a single atomic add
// takes a number and learns whether it may be used: the low bits hold the
// number issued last, the high bits how many are left. Adding windowStep moves
// both. When none is left the word turns negative and stays so: every caller
// who finds it so goes on to take the lock and to set it anew, so there would
// have to be 2^23 callers between these two steps to bring it round, more than
// memory holds.
//
// Nothing else is read on the hot path, and Generator.Next is small enough for
// the compiler to put into its caller, which is worth a third of its time.
const (
	windowBits = 40
	windowStep = 1 - 1<<windowBits
	windowMask = -1<<63 | (1<<windowBits - 1) // the sign and the number

	// windowShut is a word with nothing left.
	windowShut = -1 << windowBits

	// maxWindow is how many numbers a word can count.
	maxWindow = 1<<(63-windowBits) - 1

	// windowTop bounds the numbers that fit, with room for every add to a
	// shut word. Higher ones are issued under the lock.
	windowTop = 1<<windowBits - 1<<24
)

// pack returns the word that issues r, or windowShut if r does not fit.
func pack(r Range) int64 {
	if r.Count() < 1 || r.Count() > maxWindow || r.Last >= windowTop || r.First < 1 {
		return windowShut
	}
	return r.Count()<<windowBits | (r.First - 1)
}

// unpack returns what a word has not issued yet.
func unpack(word int64) Range {
	if word < 0 {
		return Range{First: 0, Last: -1}
	}
	at := word & (1<<windowBits - 1)
	return Range{First: at + 1, Last: at + word>>windowBits}
}

// takeOpen cuts n numbers in a row out of the open window.
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

// takeInHand cuts n numbers in a row out of all that are in hand, opens the
// window on the next ones, and has more reserved when they are getting few.
// Called under mu.
func (g *Generator) takeInHand(n int64) (Range, bool) {
	g.shutWindow()
	g.pace.sample(time.Now(), g.issued)
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
			return r, true
		}
	}
	return Range{}, false
}

// openWindow lets the first numbers in hand be issued without the lock. The
// window ends where filling is due, so that the hot path need not watch for it.
func (g *Generator) openWindow() {
	total := int64(0)
	for _, r := range g.ready {
		total += r.Count()
	}
	ahead := total - g.pace.enough()
	if ahead <= 0 {
		g.low = true
		g.startFilling()
		ahead = total
	}
	if total == 0 {
		return
	}
	run := &g.ready[0]
	r := *run
	r.Last = r.First + min(r.Count(), ahead, maxWindow) - 1
	word := pack(r)
	if word == windowShut {
		return
	}
	run.take(r.Count())
	if run.Count() == 0 {
		g.ready = g.ready[1:]
	}
	g.opened = r.Count()
	g.word.Store(word)
}

// shutWindow ends the open window, if any: nobody gets a number from it
// afterwards. What it did not issue goes back before the others in hand.
// Called under mu.
func (g *Generator) shutWindow() {
	rest := unpack(g.word.Swap(windowShut))
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
