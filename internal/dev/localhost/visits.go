package localhost

import "sync"

// visits counts what callers from outside have under way, so that the host can wait for it.
type visits struct {
	mu     sync.Mutex
	closed bool // guarded by mu
	group  sync.WaitGroup
}

// enter begins a visit; false: the host is closing.
func (v *visits) enter() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.closed {
		v.group.Add(1)
	}
	return !v.closed
}

func (v *visits) leave() { v.group.Done() }

// extend runs a function that goes on after the visit it is called in.
func (v *visits) extend(run func()) { v.group.Go(run) }

// close lets nobody in any more and waits until all have left.
func (v *visits) close() {
	v.mu.Lock()
	v.closed = true
	v.mu.Unlock()
	v.group.Wait()
}
