package queues

import (
	"context"
	"fmt"
	"slices"

	"kennel/internal/observe"
	"kennel/internal/worker"
	"kennel/queue"
)

// Letter is a dead letter.
type Letter struct {
	ID       string
	Body     []byte
	Reason   string
	Attempts int
}

// Letters returns the first dead letters of a declared queue.
func (q *Queues) Letters(ctx context.Context, name string) (all []Letter, err error) {
	o := q.declared[name]
	if o == nil {
		return nil, fmt.Errorf("%w: %q", ErrUnknown, name)
	}
	storage := o.Storage()
	messages, err := q.store.Peek(ctx, storage+queue.PoisonSuffix, queue.MaxReceive)
	for _, m := range messages {
		text, _ := worker.TextOf(m.Body)
		e, body, err := q.claims[storage].Unpack(ctx, text)
		if err != nil {
			return nil, err
		}
		if e.Queue == name || e.Queue == "" && name == storage || len(q.storage[storage]) == 1 {
			all = append(all, Letter{ID: e.ID, Body: body, Reason: e.Reason, Attempts: e.Attempts})
		}
	}
	return all, err
}

// LetterCounts returns what is known of the dead letters.
func (q *Queues) LetterCounts() map[string]*observe.LetterCount { return q.letters }

// Private reports whether the body of a message of a storage queue may be shown
// nowhere. A message that names no declared queue may be of any that it has.
func (q *Queues) Private(storageQueue, name string) bool {
	private := func(o *own) bool { return o.Queue.Private }
	all := q.storage[storageQueue]
	if at := slices.IndexFunc(all, func(o *own) bool { return o.Name == name }); at >= 0 {
		return private(all[at])
	}
	return slices.ContainsFunc(all, private)
}
