package queue

import "sync"

// maxFinished is how many messages are remembered.
const maxFinished = 10_000

// finished remembers messages whose work is done, so that they, or other copies
// of them, are deleted without work. It forgets the oldest.
type finished struct {
	mu    sync.Mutex
	ids   map[string]struct{} // guarded by mu
	order []string            // guarded by mu
}

func (f *finished) add(id string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ids == nil {
		f.ids = make(map[string]struct{})
	}
	if _, ok := f.ids[id]; ok {
		return
	}
	if len(f.order) == maxFinished {
		delete(f.ids, f.order[0])
		f.order = f.order[1:]
	}
	f.ids[id] = struct{}{}
	f.order = append(f.order, id)
}

func (f *finished) has(id string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, ok := f.ids[id]
	return ok
}
