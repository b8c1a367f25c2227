package queue

// A heap holds messages in an order in which the first can be found at once.
// Each message knows its slot, so that any of them can be removed.
type heap struct {
	less  func(a, b *message) bool
	slot  func(*message) *int32
	items []*message
}

func (h *heap) first() *message {
	if len(h.items) == 0 {
		return nil
	}
	return h.items[0]
}

func (h *heap) push(m *message) {
	h.items = append(h.items, m)
	h.up(len(h.items) - 1)
}

// remove takes out a message, which must be in the heap.
func (h *heap) remove(m *message) {
	i, last := int(*h.slot(m)), len(h.items)-1
	moved := h.items[last]
	h.items[last] = nil
	h.items = h.items[:last]
	if i != last {
		h.items[i] = moved
		h.up(i)
		h.down(int(*h.slot(moved)))
	}
	if cap(h.items) > 1024 && last < cap(h.items)/4 {
		h.items = append(make([]*message, 0, 2*last), h.items...)
	}
}

func (h *heap) up(i int) {
	m := h.items[i]
	for i > 0 {
		parent := (i - 1) / 2
		if !h.less(m, h.items[parent]) {
			break
		}
		h.set(i, h.items[parent])
		i = parent
	}
	h.set(i, m)
}

func (h *heap) down(i int) {
	m := h.items[i]
	for {
		child := 2*i + 1
		if child >= len(h.items) {
			break
		}
		if right := child + 1; right < len(h.items) && h.less(h.items[right], h.items[child]) {
			child = right
		}
		if !h.less(h.items[child], m) {
			break
		}
		h.set(i, h.items[child])
		i = child
	}
	h.set(i, m)
}

func (h *heap) set(i int, m *message) {
	h.items[i] = m
	*h.slot(m) = int32(i)
}
