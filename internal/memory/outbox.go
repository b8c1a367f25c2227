package memory

import "kennel/queue"

// NewOutbox returns an outbox. Its queue must have a valid name.
func NewOutbox(queues *Queues, name string) *queue.Outbox {
	outbox, err := queue.NewOutbox(queues, name)
	if err != nil {
		panic(err) // a mistake in a test
	}
	return outbox
}
