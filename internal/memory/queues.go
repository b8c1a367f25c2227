package memory

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"kennel/queue"
)

// Queues are storage queues in memory, safe for concurrent use: a
// [queue.Receiver], [queue.Putter], [queue.Counter], [queue.Peeker] and
// [queue.Lister]. They deliver at least once, in the order of becoming visible
// or, with [Options.ShuffleSeed], in a random order. Each message of a Receive
// has its own receipt. Times in messages are in whole seconds, as Azure returns
// them. [Options.OnMisuse] is called for requests without a deadline.
type Queues struct {
	wire
	lag    time.Duration         // of counts
	life   time.Duration         // of messages
	random *rand.Rand            // guarded by mu; nil: in order
	queues map[string][]*message // guarded by mu
	counts map[string][]count    // since lag ago, and one older; guarded by mu
	last   int64                 // number of the last message or receipt; guarded by mu
}

// count is how many messages a queue had from a time on.
type count struct {
	from     time.Time
	messages int64
}

// message has exact times; callers get them rounded down.
type message struct {
	queue.Message
	number int64 // in the order of putting
}

// NewQueues returns an account without queues.
func NewQueues(o *Options) *Queues {
	if o == nil {
		o = &Options{}
	}
	q := &Queues{wire: newWire(o), lag: o.CountLag, life: queue.TimeToLive, queues: make(map[string][]*message), counts: make(map[string][]count)}
	if o.Endless {
		q.life = 100 * 365 * 24 * time.Hour
	}
	if o.ShuffleSeed != 0 {
		q.random = rand.New(rand.NewPCG(o.ShuffleSeed, 0))
	}
	return q
}

// Receive implements [queue.Receiver].
func (q *Queues) Receive(ctx context.Context, name string, max int, visibility time.Duration) ([]queue.Message, error) {
	return request(ctx, q, "Receive", name, queue.CheckReceive(name, max, visibility), func() ([]queue.Message, error) {
		return q.take(name, max, visibility), nil
	})
}

func (q *Queues) take(name string, max int, visibility time.Duration) []queue.Message {
	now := time.Now()
	var taken []queue.Message
	for _, m := range q.front(name, max, now) {
		m.DequeueCount++
		m.Receipt = q.receipt()
		m.NextVisible = now.Add(queue.WholeSeconds(visibility))
		taken = append(taken, m.seen())
	}
	return taken
}

// front returns messages that may be received now.
func (q *Queues) front(name string, max int, now time.Time) []*message {
	var visible []*message
	for _, m := range q.live(name, now) {
		if !m.NextVisible.After(now) {
			visible = append(visible, m)
		}
	}
	slices.SortFunc(visible, func(a, b *message) int {
		return cmp.Or(a.NextVisible.Compare(b.NextVisible), cmp.Compare(a.number, b.number))
	})
	if q.random != nil {
		q.random.Shuffle(len(visible), func(i, j int) { visible[i], visible[j] = visible[j], visible[i] })
	}
	return visible[:min(max, len(visible))]
}

// Peek implements [queue.Peeker].
func (q *Queues) Peek(ctx context.Context, name string, max int) ([]queue.Message, error) {
	return request(ctx, q, "Peek", name, queue.CheckPeek(name, max), func() (peeked []queue.Message, _ error) {
		for _, m := range q.front(name, max, time.Now()) {
			seen := m.seen()
			seen.Receipt, seen.NextVisible = "", time.Time{}
			peeked = append(peeked, seen)
		}
		return peeked, nil
	})
}

// Update implements [queue.Receiver].
func (q *Queues) Update(ctx context.Context, name string, m queue.Message, visibility time.Duration) (queue.Message, error) {
	return request(ctx, q, "Update", name, queue.CheckUpdate(name, m.Body, visibility), func() (queue.Message, error) {
		held, err := q.held(name, m)
		if err != nil {
			return queue.Message{}, err
		}
		held.Body = m.Body
		held.Receipt = q.receipt()
		held.NextVisible = time.Now().Add(queue.WholeSeconds(visibility))
		return held.seen(), nil
	})
}

// Delete implements [queue.Receiver].
func (q *Queues) Delete(ctx context.Context, name string, m queue.Message) error {
	_, err := request(ctx, q, "Delete", name, queue.CheckName(name), func() (struct{}, error) {
		held, err := q.held(name, m)
		if err == nil {
			q.set(name, slices.DeleteFunc(q.queues[name], func(m *message) bool { return m == held }))
		}
		return struct{}{}, err
	})
	return err
}

// Put implements [queue.Putter].
func (q *Queues) Put(ctx context.Context, name, body string, delay time.Duration) (queue.Message, error) {
	return request(ctx, q, "Put", name, queue.CheckPut(name, body, delay), func() (queue.Message, error) {
		now := time.Now()
		m := &message{Message: queue.Message{
			Receipt:     q.receipt(),
			Body:        body,
			Inserted:    now,
			Expires:     now.Add(q.life),
			NextVisible: now.Add(queue.WholeSeconds(delay)),
		}, number: q.last}
		m.ID = fmt.Sprintf("00000000-0000-4000-8000-%012x", m.number)
		q.set(name, append(q.queues[name], m))
		return m.seen(), nil
	})
}

// Count implements [queue.Counter].
func (q *Queues) Count(ctx context.Context, name string) (int64, error) {
	return request(ctx, q, "Count", name, queue.CheckName(name), func() (int64, error) {
		messages := q.live(name, time.Now())
		if q.lag > 0 {
			return q.counted(name), nil
		}
		return int64(len(messages)), nil
	})
}

// List implements [queue.Lister].
func (q *Queues) List(ctx context.Context, prefix string) ([]string, error) {
	names, err := send(ctx, &q.wire, "List", prefix, func() (names []string, _ error) {
		for name := range q.queues {
			if strings.HasPrefix(name, prefix) {
				names = append(names, name)
			}
		}
		slices.Sort(names)
		return names, nil
	})
	if err != nil {
		return nil, fmt.Errorf("list queues with prefix %.80q: %w", prefix, err)
	}
	return names, nil
}

// All returns all messages of a queue in the order in which they were put,
// including invisible ones, without receipts. It is not a request and has no
// faults.
func (q *Queues) All(name string) []queue.Message {
	q.mu.Lock()
	defer q.mu.Unlock()
	var all []queue.Message
	for _, m := range q.live(name, time.Now()) {
		seen := m.seen()
		seen.Receipt = ""
		all = append(all, seen)
	}
	return all
}

// request sends a request unless it exceeds a limit. Its error names the
// operation and the queue.
func request[T any](ctx context.Context, q *Queues, op, name string, limit error, do func() (T, error)) (answer T, err error) {
	if err = limit; err == nil {
		answer, err = send(ctx, &q.wire, op, name, do)
	}
	if err != nil {
		return answer, fmt.Errorf("%s, queue %.80q: %w", op, name, err)
	}
	return answer, nil
}

// live removes expired messages and returns the others. Its caller holds mu.
func (q *Queues) live(name string, now time.Time) []*message {
	messages := q.queues[name]
	if slices.ContainsFunc(messages, func(m *message) bool { return !m.Expires.After(now) }) {
		messages = slices.DeleteFunc(messages, func(m *message) bool { return !m.Expires.After(now) })
		q.set(name, messages)
	}
	return messages
}

// set stores the messages of a queue. Its caller holds mu.
func (q *Queues) set(name string, messages []*message) {
	q.queues[name] = messages
	if q.lag > 0 {
		q.counted(name)
		q.counts[name] = append(q.counts[name], count{time.Now(), int64(len(messages))})
	}
}

// counted returns the count of lag ago and removes older ones. Its caller
// holds mu.
func (q *Queues) counted(name string) int64 {
	counts, then := q.counts[name], time.Now().Add(-q.lag)
	for len(counts) > 1 && !counts[1].from.After(then) {
		counts = counts[1:]
	}
	q.counts[name] = counts
	if len(counts) == 0 || counts[0].from.After(then) {
		return 0
	}
	return counts[0].messages
}

// held returns the message if the caller has its newest receipt. The receipt
// stays valid after the lease, until another caller receives the message.
func (q *Queues) held(name string, m queue.Message) (*message, error) {
	for _, candidate := range q.live(name, time.Now()) {
		if candidate.ID == m.ID && candidate.Receipt == m.Receipt {
			return candidate, nil
		}
	}
	return nil, queue.ErrLeaseLost
}

func (q *Queues) receipt() string {
	q.last++
	return fmt.Sprintf("receipt-%d", q.last)
}

func (m *message) seen() queue.Message {
	seen := m.Message
	for _, t := range []*time.Time{&seen.Inserted, &seen.Expires, &seen.NextVisible} {
		*t = t.UTC().Truncate(time.Second)
	}
	return seen
}
