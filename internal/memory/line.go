package memory

import (
	"errors"
	"sync"
	"time"
)

// ErrBusy corresponds to a 503: too many requests are waiting, and this one was
// rejected without effect.
var ErrBusy = errors.New("server busy")

// Line models a resource behind a network that serves one request at a time,
// such as a storage partition. Use its Fault method as [Options.Fault]; stores
// that share a Line compete for it.
//
// Set the fields before the first request.
type Line struct {
	PerSecond float64       // requests served per second; 0 serves at once
	RoundTrip time.Duration // to the resource and back, without the service time
	Limit     int           // waiting requests before ErrBusy; 0: no limit

	mu   sync.Mutex
	free time.Time // when all accepted requests are served; guarded by mu
}

// Fault puts the request at the end of the line.
func (l *Line) Fault(Call) Fault {
	half := l.RoundTrip / 2
	if l.PerSecond <= 0 {
		return Fault{Delay: half, Back: half}
	}
	service := time.Duration(float64(time.Second) / l.PerSecond)

	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	arrival := now.Add(half) // the same delay for all requests keeps their order
	start := arrival
	if l.free.After(arrival) {
		start = l.free
	}
	if l.Limit > 0 && start.Sub(arrival) > time.Duration(l.Limit)*service {
		return Fault{Delay: half, Back: half, Err: ErrBusy, Lost: true}
	}
	l.free = start.Add(service)
	return Fault{Delay: l.free.Sub(now), Back: half}
}
