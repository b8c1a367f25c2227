package cost_test

import (
	"context"
	"errors"
	"maps"
	"math"
	"slices"
	"sync"
	"testing"
	"time"

	"kennel/gate"
	"kennel/ids"
	"kennel/internal/cost"
	"kennel/internal/table"
	"kennel/queue"
)

// counter counts the requests to stores in memory, with the names that they
// have in Azure.
type counter struct {
	mu     sync.Mutex
	counts map[[2]string]int64 // by service and operation; guarded by mu
}

func (c *counter) add(service, operation string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.counts == nil {
		c.counts = make(map[[2]string]int64)
	}
	c.counts[[2]string{service, operation}]++
}

// take returns the counts since the last call.
func (c *counter) take() map[[2]string]int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	counts := c.counts
	c.counts = nil
	return counts
}

// check compares counts with a prediction: in total, and each operation. It
// returns by how much the total is off.
func check(t testing.TB, what string, counted map[[2]string]int64, predicted []cost.Line) (off float64) {
	t.Helper()
	want := make(map[[2]string]float64)
	for _, l := range predicted {
		want[[2]string{l.Service, l.Operation}] += l.Count
	}
	total := 0.0
	for name, n := range counted {
		total += float64(n)
		want[name] += 0 // so that it is compared
	}
	for _, name := range slices.SortedFunc(maps.Keys(want), func(a, b [2]string) int { return slices.Compare(a[:], b[:]) }) {
		n, w := float64(counted[name]), want[name]
		if math.Abs(n-w) > max(1, 0.02*n) && math.Abs(n-w) > 0.01*total {
			t.Errorf("%s: %s %s: %.0f requests, %.1f predicted", what, name[0], name[1], n, w)
		}
	}
	off = math.Abs(cost.Total(predicted)/total - 1)
	if off > 0.01 {
		t.Errorf("%s: %.0f requests, %.1f predicted: %.2f %% off", what, total, cost.Total(predicted), 100*off)
	}
	return off
}

// rows is a table whose requests are counted.
type rows struct {
	table.Store
	*counter
}

func (r rows) Get(ctx context.Context, partition, key string) (table.Row, error) {
	r.add("table", "get")
	return r.Store.Get(ctx, partition, key)
}

func (r rows) Query(ctx context.Context, q table.Query) (table.Page, error) {
	r.add("table", "query")
	return r.Store.Query(ctx, q)
}

func (r rows) Submit(ctx context.Context, writes ...table.Write) ([]string, error) {
	name := "transaction"
	if len(writes) == 1 {
		name = map[table.Verb]string{table.Insert: "insert", table.Replace: "update", table.Upsert: "update", table.Merge: "merge", table.Delete: "delete"}[writes[0].Verb]
	}
	r.add("table", name)
	return r.Store.Submit(ctx, writes...)
}

// blobs is a container whose requests are counted.
type blobs struct {
	queue.Container
	*counter
}

func (b blobs) Put(ctx context.Context, name string, content []byte) error {
	b.add("blob", "put")
	return b.Container.Put(ctx, name, content)
}

func (b blobs) Get(ctx context.Context, name string, max int) ([]byte, error) {
	b.add("blob", "get")
	return b.Container.Get(ctx, name, max)
}

func (b blobs) Delete(ctx context.Context, name string) error {
	b.add("blob", "delete")
	return b.Container.Delete(ctx, name)
}

func (b blobs) List(ctx context.Context, max int) ([]string, error) {
	b.add("blob", "list")
	return b.Container.List(ctx, max)
}

// queues are queues whose requests are counted.
type queues struct {
	queue.Store
	*counter
}

func (q queues) Receive(ctx context.Context, name string, max int, visibility time.Duration) ([]queue.Message, error) {
	messages, err := q.Store.Receive(ctx, name, max, visibility)
	if len(messages) > 0 {
		q.add("queue", "receive")
	} else {
		q.add("queue", "receive nothing")
	}
	return messages, err
}

func (q queues) Update(ctx context.Context, name string, m queue.Message, visibility time.Duration) (queue.Message, error) {
	q.add("queue", "update")
	return q.Store.Update(ctx, name, m, visibility)
}

func (q queues) Delete(ctx context.Context, name string, m queue.Message) error {
	q.add("queue", "delete")
	return q.Store.Delete(ctx, name, m)
}

func (q queues) Put(ctx context.Context, name, body string, delay time.Duration) (queue.Message, error) {
	q.add("queue", "put")
	return q.Store.Put(ctx, name, body, delay)
}

func (q queues) Count(ctx context.Context, name string) (int64, error) {
	q.add("queue", "head")
	return q.Store.Count(ctx, name)
}

// outbox is the outbox of channels, counted.
type outbox struct {
	inner interface {
		Put(context.Context, string, time.Duration) (string, error)
		Delete(context.Context, string) error
	}
	*counter
}

func (o outbox) Put(ctx context.Context, text string, delay time.Duration) (string, error) {
	o.add("queue", "put")
	return o.inner.Put(ctx, text, delay)
}

func (o outbox) Delete(ctx context.Context, receipt string) error {
	o.add("queue", "delete")
	return o.inner.Delete(ctx, receipt)
}

// sequences is a store of sequences, counted. A sequence that is missing costs
// a read of its marker.
type sequences struct {
	ids.Store
	*counter
}

func (s sequences) Load(ctx context.Context, sequence, seen string) (ids.Value, error) {
	s.add("blob", "get")
	v, err := s.Store.Load(ctx, sequence, seen)
	if v.Version == "" && (err == nil || errors.Is(err, ids.ErrMissing)) {
		s.add("blob", "get")
	}
	return v, err
}

func (s sequences) Replace(ctx context.Context, sequence string, old, next ids.Value) (ids.Value, error) {
	s.add("blob", "put")
	return s.Store.Replace(ctx, sequence, old, next)
}

func (s sequences) Remember(ctx context.Context, sequence string) error {
	s.add("blob", "put")
	return s.Store.Remember(ctx, sequence)
}

// flags is a store of gates, counted.
type flags struct {
	gate.Store
	*counter
}

func (f flags) Load(ctx context.Context, name, seen string) (gate.Value, error) {
	f.add("blob", "get")
	return f.Store.Load(ctx, name, seen)
}
