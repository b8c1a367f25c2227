package ids

import "time"

// pace decides how much to reserve and when, from the demand it has seen. It
// is pure arithmetic, guarded by the generator's mu.
type pace struct {
	least, most int64         // bounds of a range
	lasts       time.Duration // how long a range should last

	rate   float64 // numbers a second, over the last stretch
	at     time.Time
	issued int64
	size   int64 // of the last range reserved
}

// A burst that empties a range in no time says little about the demand of the
// next minute: stretches shorter than this are not measured, and a range
// grows by no more than this factor over the last.
const (
	shortestSample = 200 * time.Millisecond
	maxGrowth      = 4
)

// sample measures the demand since the last sample.
func (p *pace) sample(now time.Time, issued int64) {
	if p.at.IsZero() {
		p.at, p.issued = now, issued
		return
	}
	stretch := now.Sub(p.at)
	if stretch < shortestSample {
		return
	}
	p.rate = float64(issued-p.issued) / stretch.Seconds()
	p.at, p.issued = now, issued
}

// next returns the size of the next range: as much as the demand uses in the
// time a range should last, and more for each race that this reservation has
// lost, because fewer reservations are what a crowd on one blob needs.
func (p *pace) next(racesLost int) int64 {
	size := p.least
	if byDemand := p.rate * p.lasts.Seconds(); byDemand > float64(size) {
		size = int64(min(byDemand, float64(p.most)))
	}
	if p.size > 0 {
		size = min(size, max(p.size*maxGrowth, p.least))
	}
	return min(size*int64(1+racesLost), p.most)
}

// enough returns how many numbers in hand are enough: with fewer, the next
// range is reserved. That is half the time a range should last, at least half
// a range (for a sudden rush), and at most one, so that never more than two
// ranges are in hand.
func (p *pace) enough() int64 {
	byDemand := p.rate * p.lasts.Seconds() / 2
	return max(p.size/2, int64(min(byDemand, float64(p.size))))
}
