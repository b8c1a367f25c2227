package localhost

import "sync"

// visits counts the requests of callers, so that the host can wait for them.
type visits struct {
	mu     sync.Mutex
	closed bool // guarded by mu
	group  sync.WaitGroup
}

// enter starts a visit. It returns false if the host is stopping.
func (v *visits) enter() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.closed {
		v.group.Add(1)
	}
	return !v.closed
}

func (v *visits) leave() { v.group.Done() }

// extend runs a function that continues after the current visit.
func (v *visits) extend(run func()) { v.group.Go(run) }

// close rejects new visits and waits until all visits have ended.
func (v *visits) close() {
	v.mu.Lock()
	v.closed = true
	v.mu.Unlock()
	v.group.Wait()
}
