package ids

import "time"

// pace computes from the measured demand how much to reserve and when. It does
// no I/O. The generator's mu guards it.
type pace struct {
	minSize, maxSize int64         // of a range
	lasts            time.Duration // how long a range should last

	rate   float64 // numbers per second, in the last period
	at     time.Time
	issued int64
	size   int64 // of the last range reserved
}

// A burst that empties a range at once does not predict the demand of the next
// minute. Therefore shorter periods than minSample are not measured, and a
// range is at most maxGrowth times as large as the last one.
const (
	minSample = 200 * time.Millisecond
	maxGrowth = 4
)

// sample measures the demand since the last sample.
func (p *pace) sample(now time.Time, issued int64) {
	if p.at.IsZero() {
		p.at, p.issued = now, issued
		return
	}
	period := now.Sub(p.at)
	if period < minSample {
		return
	}
	p.rate = float64(issued-p.issued) / period.Seconds()
	p.at, p.issued = now, issued
}

// next returns the size of the next range: the demand during the time that a
// range should last. Each race that this reservation lost makes it larger,
// because nodes that compete for one blob have to reserve less often.
func (p *pace) next(racesLost int) int64 {
	size := p.minSize
	if byDemand := p.rate * p.lasts.Seconds(); byDemand > float64(size) {
		size = int64(min(byDemand, float64(p.maxSize)))
	}
	if p.size > 0 {
		size = min(size, max(p.size*maxGrowth, p.minSize))
	}
	return min(size*int64(1+racesLost), p.maxSize)
}

// enough returns how many available numbers are enough. With fewer, the next
// range is reserved. It is the demand during half the time that a range should
// last, at least half a range (for a sudden burst) and at most one range, so
// that never more than two ranges are available.
func (p *pace) enough() int64 {
	byDemand := p.rate * p.lasts.Seconds() / 2
	return max(p.size/2, int64(min(byDemand, float64(p.size))))
}
