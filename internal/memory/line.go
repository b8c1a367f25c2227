package memory

import (
	"errors"
	"sync"
	"time"
)

// ErrBusy is what a 503 looks like: too many requests wait already, and this
// one was turned away without being carried out.
var ErrBusy = errors.New("server busy")

// Line models one resource that serves one request after the other, such as a
// storage partition, behind a network. Its Fate method goes into
// [Options.Fate]; stores that share a Line compete for it.
//
// Set the fields before the first request.
type Line struct {
	PerSecond float64       // requests served in a second; 0 serves at once
	RoundTrip time.Duration // to the resource and back, without the serving
	Limit     int           // requests that may wait; one more hears ErrBusy; 0: no limit

	mu   sync.Mutex
	free time.Time // when everything accepted so far is served; guarded by mu
}

// Fate gives the request the next place in the line.
func (l *Line) Fate(Call) Fate {
	half := l.RoundTrip / 2
	if l.PerSecond <= 0 {
		return Fate{Delay: half, Back: half}
	}
	service := time.Duration(float64(time.Second) / l.PerSecond)

	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	arrival := now.Add(half) // the same for all, so they arrive as they are sent
	start := arrival
	if l.free.After(arrival) {
		start = l.free
	}
	if l.Limit > 0 && start.Sub(arrival) > time.Duration(l.Limit)*service {
		return Fate{Delay: half, Back: half, Err: ErrBusy, Lost: true}
	}
	l.free = start.Add(service)
	return Fate{Delay: l.free.Sub(now), Back: half}
}
