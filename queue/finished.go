package queue

import "sync"

// maxFinished is how many messages are remembered whose work is done but which
// could not be deleted.
const maxFinished = 1000

// finished remembers these messages by Message.ID, so that they are deleted
// without work when they are received again. It forgets the oldest.
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
