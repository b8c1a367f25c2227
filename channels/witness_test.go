package channels_test

import (
	"context"
	"sync"

	"kennel/channels"
)

// witness remembers into which partition each blog was sent, whatever became
// of the request.
type witness struct {
	mu         sync.Mutex
	partitions map[string]string // by blog
}

func (w *witness) saw(partition, blog string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.partitions == nil {
		w.partitions = make(map[string]string)
	}
	w.partitions[blog] = partition
}

func (w *witness) partitionOf(blog string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.partitions[blog]
}

// inserts is how many blogs can ever have been in a partition.
func (w *witness) inserts(partition string) (n int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range w.partitions {
		if p == partition {
			n++
		}
	}
	return n
}

// witnessed is a table of blogs under the eyes of a witness.
type witnessed struct {
	channels.Table
	by *witness
}

func (t witnessed) Submit(ctx context.Context, writes []channels.Write) ([]string, error) {
	for _, w := range writes {
		if w.Verb == channels.Insert && w.Row.Key != "!fence" {
			t.by.saw(w.Row.Partition, w.Row.Key)
		}
	}
	return t.Table.Submit(ctx, writes)
}
