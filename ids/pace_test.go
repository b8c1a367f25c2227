package ids

import (
	"testing"
	"time"
)

func TestPace(t *testing.T) {
	at := time.Now()
	p := pace{minSize: 1000, maxSize: 100_000, lasts: time.Minute}
	p.begin(at, 0)
	p.began, p.hungry = at.Add(-time.Hour), true
	reserve := func(racesLost int) int64 {
		p.size = p.next(at, 0, racesLost)
		return p.size
	}
	demand := func(perSecond float64, d time.Duration) {
		at = at.Add(d)
		p.sample(at, p.issued+int64(perSecond*d.Seconds()))
	}

	check := func(when string, got, want int64) {
		t.Helper()
		if got != want {
			t.Errorf("%s: %d, want %d", when, got, want)
		}
	}
	check("the first range has the minimum size", reserve(0), 1000)
	check("half a range is enough before demand is measured", p.enough(), 500)
	demand(200, time.Second)
	check("a range is at most 4 × the last", reserve(0), 4000)
	check("at 200/s a range lasts a minute", reserve(0), 12_000)
	check("at 200/s enough lasts half a minute", p.enough(), 6000)
	check("three lost races make the range 4 × as large", reserve(3), 48_000)
	demand(1e9, time.Microsecond)
	check("a microsecond is too short to measure", int64(p.rate), 200)
	demand(1e9, time.Second)
	for range 5 {
		reserve(1000)
	}
	check("a range has at most the maximum size", p.size, 100_000)
	check("enough is at most a range", p.enough(), 100_000)
	demand(10_000, time.Second)
	demand(1, time.Hour)
	check("the mean of an hour hides the demand at its end", int64(p.rate), 2500)
	for range 5 {
		demand(1, time.Hour)
	}
	check("after some idle hours the range has the minimum size", reserve(0), 1000)
	p.leased(at, 700)
	check("a lease does not change a range that is larger", reserve(0), 1000)
	p.leased(at, 5000)
	check("a range is at least as long as the largest lease", reserve(0), 5000)
	p.leased(at.Add(time.Minute), 1)
	check("a lease counts for a minute more", p.useful(), 5000)
	p.leased(at.Add(2*time.Minute), 1)
	check("a lease is forgotten", p.useful(), 1)
}
