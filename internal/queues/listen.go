package queues

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"kennel/internal/observe"
	"kennel/internal/worker"
	"kennel/queue"
)

// listen has a worker receive messages: by a listener for each storage queue,
// with as many hands as its queues have attempts at a time.
func (q *Queues) listen(storageQueues []string) error {
	l := q.opt.Listening
	if l == nil {
		return nil
	}
	for _, name := range storageQueues {
		o := l.Options()
		o.HandsFor, o.MaxAttempts, o.Hands = nil, -1, 0
		for _, one := range q.storage[name] {
			o.Hands += one.Concurrency
			o.MaxWork = max(o.MaxWork, one.Timeout+lastWords*(one.Timeout+wordPause)+patience)
		}
		o.Hands = max(2, o.Hands)
		listener, err := worker.ListenUntimed(l, q.store, []string{name}, codec{q, name}, q.receive, o)
		if err != nil {
			return err
		}
		q.listeners = append(q.listeners, listener)
	}
	return nil
}

// codec reads the messages of a storage queue in a worker.
type codec struct {
	*Queues
	storage string
}

// Decode implements [queue.Codec].
func (c codec) Decode(_ context.Context, m queue.Message) (queue.Content[*delivery], error) {
	d := c.delivered(m)
	c.open(d)
	content := queue.Content[*delivery]{Body: d, ID: d.envelope.ID}
	if !d.raw {
		content.Done = func(ctx context.Context) error { return c.forget(ctx, d) }
	}
	return content, nil
}

// delivered returns the delivery of a message.
func (c codec) delivered(m queue.Message) *delivery {
	d := &delivery{storage: c.storage, id: m.ID, text: m.Body, deliveries: m.DequeueCount, inserted: m.Inserted}
	if text, err := worker.TextOf(m.Body); err == nil {
		d.text = text
	}
	return d
}

// Attempts implements [queue.Codec]. The listener does not use the body.
func (c codec) Attempts(m queue.Message) (failed int64, next string) {
	d := c.delivered(m)
	c.open(d)
	if d.own != nil {
		if end, _, ok := d.dying(); ok {
			return int64(end.attempts) - 1, m.Body
		}
	}
	return int64(d.number) - 1, m.Body
}

// Returned implements [queue.Returner]: a message that was not begun.
func (c codec) Returned(m queue.Message) string {
	d := c.delivered(m)
	if c.open(d); d.raw {
		return m.Body
	}
	text, err := c.again(context.Background(), d, d.again(0, nil), m.DequeueCount)
	if err != nil {
		return m.Body
	}
	return worker.InBase64(text)
}

// Size implements [queue.Sizer].
func (c codec) Size(m queue.Message) int {
	text, err := worker.TextOf(m.Body)
	if err != nil {
		return 0
	}
	return queue.Packed{}.Size(queue.Message{Body: text})
}

// TraceParent implements [queue.Tracer].
func (c codec) TraceParent(m queue.Message) string {
	d := c.delivered(m)
	c.open(d)
	return d.envelope.TraceParent
}

// dead is the error after which the listener moves a message to the dead
// letters.
type dead struct {
	delivery *delivery
	ending
}

func (d *dead) Error() string { return d.err.Error() }

func (*dead) Is(target error) bool { return target == queue.ErrMessage }

// DeadLetter implements [queue.Codec].
func (c codec) DeadLetter(ctx context.Context, letter queue.DeadLetter) (string, error) {
	d := c.delivered(queue.Message{ID: letter.Message, Body: letter.Text, Inserted: letter.At})
	c.open(d)
	end := ending{attempts: int(letter.Attempts), err: errors.New(letter.Reason)}
	text, err := c.letter(ctx, d, end)
	if err != nil {
		return "", fmt.Errorf("write a dead letter: %w", err)
	}
	c.letters[c.storage].Added(end.err, observe.MoveTimeout)
	return worker.InBase64(text), nil
}

// receive works on a message in a worker.
func (q *Queues) receive(ctx context.Context, m queue.Delivery[*delivery]) error {
	d := m.Body
	switch end := q.work(ctx, d); end.fate {
	case fateAgain:
		text, err := q.again(context.WithoutCancel(ctx), d, end, d.deliveries)
		if err != nil {
			return queue.Again("", end.wait, err)
		}
		return queue.Again(worker.InBase64(text), end.wait, end.err)
	case fateDead:
		return &dead{d, end}
	}
	return nil
}

// Work receives messages until ctx ends.
func (q *Queues) Work(ctx context.Context) error {
	if err := q.opt.Ready(ctx); err != nil {
		return nil // the stop came before the start
	}
	var parts []func(context.Context) error
	for _, l := range q.listeners {
		parts = append(parts, l.Run)
	}
	return worker.Together(ctx, parts...)
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
