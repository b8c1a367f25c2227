package queues

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

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
		if q.opt.Pauses != nil {
			o.Admit = q.admit
		}
		c := codec{q, name, &deliveries{all: make(map[string]*delivery)}}
		listener, err := worker.ListenUntimed(l, q.store, []string{name}, c, c.receive, o)
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
	read    *deliveries
}

// deliveries are those that were read and have not ended: a listener asks several
// times about each, and reading an envelope is most of the work of a short message.
type deliveries struct {
	mu  sync.Mutex
	all map[string]*delivery // by the id of the store; guarded by mu
}

// maxRead is how many deliveries are kept: a lost lease ends one without notice.
const maxRead = 1000

// of returns the delivery of a message. It is never changed.
func (c codec) of(m queue.Message) *delivery {
	c.read.mu.Lock()
	d := c.read.all[m.ID]
	c.read.mu.Unlock()
	if d != nil && d.deliveries == m.DequeueCount && d.body == m.Body {
		return d
	}
	d = &delivery{storage: c.storage, id: m.ID, text: m.Body, body: m.Body, deliveries: m.DequeueCount, inserted: m.Inserted}
	if text, err := worker.TextOf(m.Body); err == nil {
		d.text = text
	}
	c.open(d)
	c.read.mu.Lock()
	defer c.read.mu.Unlock()
	if len(c.read.all) >= maxRead {
		clear(c.read.all)
	}
	c.read.all[m.ID] = d
	return d
}

// ended forgets a delivery.
func (c codec) ended(m queue.Message) {
	c.read.mu.Lock()
	defer c.read.mu.Unlock()
	delete(c.read.all, m.ID)
}

// Decode implements [queue.Codec].
func (c codec) Decode(_ context.Context, m queue.Message) (queue.Content[*delivery], error) {
	d := c.of(m)
	content := queue.Content[*delivery]{Body: d, ID: d.envelope.ID}
	if !d.raw {
		content.Done = func(ctx context.Context) error {
			if d.copied {
				return nil // the new message has the claim
			}
			return c.forget(ctx, d)
		}
	}
	return content, nil
}

// Attempts implements [queue.Codec]. The listener does not use the body.
func (c codec) Attempts(m queue.Message) (failed int64, next string) {
	d := c.of(m)
	if d.own != nil {
		if end, _, ok := d.dying(); ok {
			return int64(end.attempts) - 1, m.Body
		}
	}
	return int64(d.number) - 1, m.Body
}

// Returned implements [queue.Returner]: a message that was not begun.
func (c codec) Returned(m queue.Message) string {
	d := c.of(m)
	defer c.ended(m)
	if d.raw {
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
	d := c.of(m)
	if d.envelope.ClaimExpires().IsZero() {
		return d.envelope.Size()
	}
	return queue.Packed{}.Size(queue.Message{Body: d.text})
}

// TraceParent implements [queue.Tracer].
func (c codec) TraceParent(m queue.Message) string {
	return c.of(m).envelope.TraceParent
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
	d := c.of(queue.Message{ID: letter.Message, Body: letter.Text, Inserted: letter.At})
	end := ending{attempts: int(letter.Attempts), err: errors.New(letter.Reason)}
	text, err := c.letter(ctx, d, end)
	if err != nil {
		return "", fmt.Errorf("write a dead letter: %w", err)
	}
	c.letters[c.storage].Added(end.err, observe.MoveTimeout)
	return worker.InBase64(text), nil
}

// receive works on a message in a worker.
func (c codec) receive(ctx context.Context, m queue.Delivery[*delivery]) error {
	d := m.Body
	defer c.ended(m.Message)
	switch end := c.work(ctx, d); end.fate {
	case fateAgain:
		text, err := c.again(context.WithoutCancel(ctx), d, end, d.deliveries)
		if err != nil {
			return queue.Again("", end.wait, err)
		}
		if d.deliveries >= maxHosted && c.putCopy(ctx, d, end) == nil {
			return nil // and this one is deleted
		}
		return queue.Again(worker.InBase64(text), end.wait, end.err)
	case fateDead:
		return &dead{d, end}
	}
	return nil
}

// putCopy puts a message again that was delivered often, so that its count begins
// anew: a Functions host beside this worker would move it to the dead letters by
// itself.
func (c codec) putCopy(ctx context.Context, d *delivery, end ending) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), sendTimeout)
	defer cancel()
	text, err := c.again(ctx, d, end, 0)
	if err == nil {
		err = c.publisher.Publish(ctx, c.storage, worker.InBase64(text), end.wait)
	}
	d.copied = err == nil
	return err
}

// Work receives messages until ctx ends.
func (q *Queues) Work(ctx context.Context) error {
	if err := q.opt.Ready(ctx); err != nil {
		return nil // the stop came before the start
	}
	var parts []func(context.Context) error
	if q.opt.Pauses != nil {
		q.opt.Pauses.Refresh(ctx) // a message of a paused queue need not be received
		parts = append(parts, q.opt.Pauses.Run)
	}
	for _, l := range q.listeners {
		parts = append(parts, l.Run)
	}
	return worker.Together(ctx, parts...)
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
