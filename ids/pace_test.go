package ids

import (
	"testing"
	"time"
)

func TestPace(t *testing.T) {
	at := time.Now()
	p := pace{least: 1000, most: 100_000, lasts: time.Minute}
	p.sample(at, 0)
	reserve := func(racesLost int) int64 {
		p.size = p.next(racesLost)
		return p.size
	}
	demand := func(perSecond float64, d time.Duration) {
		at = at.Add(d)
		p.sample(at, p.issued+int64(perSecond*d.Seconds()))
	}

	if got := reserve(0); got != 1000 {
		t.Errorf("first range: %d, want the least", got)
	}
	if got := p.enough(); got != 500 {
		t.Errorf("enough without known demand: %d, want half a range", got)
	}
	demand(200, time.Second)
	if got := reserve(0); got != 4000 {
		t.Errorf("range after 200/s: %d, want 4 × the last", got)
	}
	if got := reserve(0); got != 12_000 {
		t.Errorf("next range after 200/s: %d, want a minute's worth", got)
	}
	if got := p.enough(); got != 6000 {
		t.Errorf("enough at 200/s: %d, want half a minute's worth", got)
	}
	if got := reserve(3); got != 48_000 {
		t.Errorf("range after three lost races: %d, want 4 × a minute's worth", got)
	}
	demand(1e9, time.Microsecond)
	if got := p.rate; got != 200 {
		t.Errorf("a microsecond was believed: rate %v", got)
	}
	demand(1e9, time.Second)
	for range 5 {
		reserve(1000)
	}
	if got := p.size; got != 100_000 {
		t.Errorf("range at any demand: %d, want the most", got)
	}
	if got := p.enough(); got != 100_000 {
		t.Errorf("enough at any demand: %d, want no more than a range", got)
	}
	demand(1, time.Hour)
	if got := reserve(0); got != 1000 {
		t.Errorf("range after an idle hour: %d, want the least", got)
	}
}
