package ids

import "time"

// pace computes from the measured demand how much to reserve and when. It
// counts numbers, whatever their grouping: 100 leases of 50 are the same demand
// as 5,000 single numbers. It does no I/O. The generator's mu guards it.
type pace struct {
	minSize, maxSize int64         // of a range
	lasts            time.Duration // how long a range should last

	rate   float64 // numbers per second, in the last period
	at     time.Time
	issued int64
	size   int64 // of the last range reserved, without the numbers that callers waited for
	sizeAt time.Time
	before int64     // numbers issued when it arrived
	began  time.Time // when the first number was requested
	hungry bool      // callers wait

	lease     int64 // the largest lease in the current period of length lasts
	lastLease int64 // and in the one before
	leaseFrom time.Time
}

// A burst that empties a range at once does not predict the demand of the next
// minute. Therefore shorter periods than minSample are not measured, and a
// range is at most maxGrowth times as large as the last one.
const (
	minSample = 200 * time.Millisecond
	maxGrowth = 4

	// fullReach is the age from which ranges last as long as they should.
	fullReach = 110 * time.Second
)

// begin starts to measure, with a first caller that requests n numbers. These
// are no demand in the time after it: on a slow store they would count as
// several a second, and a process with one caller would reserve twice.
func (p *pace) begin(now time.Time, n int64) {
	if p.at.IsZero() {
		p.at, p.began, p.issued = now, now, n
	}
}

// sample measures the demand since the last sample.
func (p *pace) sample(now time.Time, issued int64) {
	period := now.Sub(p.at)
	if period < minSample {
		return
	}
	rate := float64(max(0, issued-p.issued)) / period.Seconds() // the first caller may have given up
	if period > p.lasts {
		rate = max(rate, p.rate/maxGrowth) // the mean of a long period hides the demand at its end
	}
	p.rate, p.at, p.issued = rate, now, issued
}

// leased records that n consecutive numbers were requested.
func (p *pace) leased(now time.Time, n int64) {
	if now.Sub(p.leaseFrom) >= p.lasts {
		p.lastLease, p.lease, p.leaseFrom = p.lease, 0, now
	}
	p.lease = max(p.lease, n)
}

// useful returns how long a run of numbers has to be to count as available: as
// long as the largest of the recent leases. Shorter runs would be issued to
// smaller requests, but a lease would have to wait.
func (p *pace) useful() int64 { return max(1, min(max(p.lease, p.lastLease), p.maxSize)) }

// ranged records the size of a range that was reserved.
func (p *pace) ranged(now time.Time, size, issued int64) {
	p.size, p.sizeAt, p.before = size, now, issued
}

// next returns the size of the next range: the demand during the time that a
// range should last. Each race that this reservation lost makes it larger,
// because nodes that compete for one blob have to reserve less often. A range
// that was used up in a shorter time than can be measured makes the next one
// larger, too.
func (p *pace) next(now time.Time, issued int64, racesLost int) int64 {
	size := max(p.minSize, p.useful())
	byDemand := p.rate * p.reach(now).Seconds()
	switch {
	case now.Sub(p.sizeAt) < minSample && issued-p.before >= p.size/2:
		byDemand = float64(p.maxSize)
	case p.hungry:
		byDemand = max(byDemand, p.rate*p.lasts.Seconds()/60)
	}
	if byDemand > float64(size) {
		limit := min(p.maxSize, max(p.size*maxGrowth, size))
		size = int64(min(byDemand, float64(limit)))
	}
	if !p.hungry {
		racesLost /= 2 // there is time
	}
	return min(size*int64(1+racesLost), p.maxSize)
}

// reach returns for how long a range should last. It grows with the cube of
// the time since the start, so that an instance that lives for seconds does not
// hold a minute's numbers: when several stop together, the rest of a range below
// another one in use cannot go back.
func (p *pace) reach(now time.Time) time.Duration {
	share := min(now.Sub(p.began).Seconds()/fullReach.Seconds(), 1)
	return min(p.lasts, p.lasts/300+time.Duration(share*share*share*float64(p.lasts)))
}

// enough returns how many available numbers are enough. With fewer, the next
// range is reserved. It is the demand during half the time that a range should
// last, at least half a range (for a sudden burst) and at most one range, so
// that never more than two ranges are available.
func (p *pace) enough() int64 {
	byDemand := p.rate * p.lasts.Seconds() / 2
	return max(p.size/2, int64(min(byDemand, float64(p.size))))
}
