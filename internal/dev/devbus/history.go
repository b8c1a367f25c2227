package devbus

import (
	"fmt"
	"time"
)

// history holds the message-ids that an entity accepted within the window of
// its duplicate detection.
type history struct {
	sequence map[string]int64
	order    []sighting // oldest first
}

type sighting struct {
	id string
	at time.Time
}

// seen returns the sequence number of an earlier message with the same id.
func (h *history) seen(id any, window time.Duration) (sequence int64, seen bool) {
	if window == 0 {
		return 0, false
	}
	for len(h.order) > 0 && time.Since(h.order[0].at) >= window {
		delete(h.sequence, h.order[0].id)
		h.order = h.order[1:]
	}
	sequence, seen = h.sequence[idKey(id)]
	return sequence, seen
}

func (h *history) remember(id any, sequence int64, window time.Duration) {
	if window == 0 {
		return
	}
	if h.sequence == nil {
		h.sequence = map[string]int64{}
	}
	h.sequence[idKey(id)] = sequence
	h.order = append(h.order, sighting{idKey(id), time.Now()})
}

// idKey includes the type of an id, so that 1 and "1" differ.
func idKey(id any) string { return fmt.Sprintf("%T %v", id, id) }
