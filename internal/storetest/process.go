package storetest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"kennel/channels"
	"kennel/internal/table"
	"kennel/queue"
)

// Process simulates a process that can be killed. Its methods wrap the stores
// and the network that it uses. After its death they send no request and return
// no response.
type Process struct {
	Requests *atomic.Int64 // counts the requests sent; may be shared; nil: not counted

	kill *Killer
	dead atomic.Bool
	life context.Context
	end  context.CancelFunc
}

// Killer kills the process that sends the N-th request of all processes that
// share the Killer: before the request is sent or, with After, after it was
// executed and before the response arrives.
type Killer struct {
	N     int64
	After bool
	sent  atomic.Int64
}

// Struck reports whether a process was killed.
func (k *Killer) Struck() bool { return k.sent.Load() >= k.N }

// Sent returns how many requests were sent so far.
func (k *Killer) Sent() int64 { return k.sent.Load() }

func (k *Killer) String() string {
	when := "before"
	if k.After {
		when = "after"
	}
	return fmt.Sprintf("killed %s request %d", when, k.N)
}

// ErrKilled is the error of every request of a dead process.
var ErrKilled = errors.New("the process is dead")

// NewProcess returns a process that runs until kill kills it; nil never does.
func NewProcess(kill *Killer) *Process {
	p := &Process{kill: kill}
	p.life, p.end = context.WithCancel(context.Background())
	return p
}

// Context ends with the process.
func (p *Process) Context() context.Context { return p.life }

// Die kills the process now.
func (p *Process) Die() {
	p.dead.Store(true)
	p.end()
}

// Dead reports whether the process was killed.
func (p *Process) Dead() bool { return p.dead.Load() }

// Table wraps a table for the process.
func (p *Process) Table(table table.Store) table.Store { return processTable{p, table} }

// Outbox wraps an outbox for the process.
func (p *Process) Outbox(outbox channels.Outbox) channels.Outbox { return processOutbox{p, outbox} }

// Queues wraps queues for the process.
func (p *Process) Queues(queues queue.Store) queue.Store { return processQueues{p, queues} }

// Peeker wraps a peeker for the process.
func (p *Process) Peeker(peeker queue.Peeker) queue.Peeker { return processPeeker{p, peeker} }

// Lister wraps a lister for the process.
func (p *Process) Lister(lister queue.Lister) queue.Lister { return processLister{p, lister} }

// Transport wraps the network for the process, for stores that send their
// requests by HTTP.
func (p *Process) Transport(network http.RoundTripper) http.RoundTripper {
	return processTransport{p, network}
}

func request[T any](p *Process, do func() (T, error)) (T, error) {
	var none T
	if p.Dead() {
		return none, ErrKilled
	}
	last := false
	if p.kill != nil {
		last = p.kill.sent.Add(1) == p.kill.N
	}
	if last && !p.kill.After {
		p.Die()
		return none, ErrKilled
	}
	if p.Requests != nil {
		p.Requests.Add(1)
	}
	answer, err := do()
	if last {
		p.Die()
	}
	if p.Dead() {
		return none, ErrKilled
	}
	return answer, err
}

type processTable struct {
	p     *Process
	table table.Store
}

func (t processTable) Get(ctx context.Context, partition, key string) (table.Row, error) {
	return request(t.p, func() (table.Row, error) { return t.table.Get(ctx, partition, key) })
}

func (t processTable) Query(ctx context.Context, q table.Query) (table.Page, error) {
	return request(t.p, func() (table.Page, error) { return t.table.Query(ctx, q) })
}

func (t processTable) Submit(ctx context.Context, writes ...table.Write) ([]string, error) {
	return request(t.p, func() ([]string, error) { return t.table.Submit(ctx, writes...) })
}

type processOutbox struct {
	p      *Process
	outbox channels.Outbox
}

func (o processOutbox) Put(ctx context.Context, text string, delay time.Duration) (string, error) {
	return request(o.p, func() (string, error) { return o.outbox.Put(ctx, text, delay) })
}

func (o processOutbox) Delete(ctx context.Context, receipt string) error {
	_, err := request(o.p, func() (struct{}, error) { return struct{}{}, o.outbox.Delete(ctx, receipt) })
	return err
}

type processQueues struct {
	p      *Process
	queues queue.Store
}

func (q processQueues) Receive(ctx context.Context, name string, max int, visibility time.Duration) ([]queue.Message, error) {
	return request(q.p, func() ([]queue.Message, error) { return q.queues.Receive(ctx, name, max, visibility) })
}

func (q processQueues) Update(ctx context.Context, name string, m queue.Message, visibility time.Duration) (queue.Message, error) {
	return request(q.p, func() (queue.Message, error) { return q.queues.Update(ctx, name, m, visibility) })
}

func (q processQueues) Delete(ctx context.Context, name string, m queue.Message) error {
	_, err := request(q.p, func() (struct{}, error) { return struct{}{}, q.queues.Delete(ctx, name, m) })
	return err
}

func (q processQueues) Put(ctx context.Context, name, body string, delay time.Duration) (queue.Message, error) {
	return request(q.p, func() (queue.Message, error) { return q.queues.Put(ctx, name, body, delay) })
}

func (q processQueues) Count(ctx context.Context, name string) (int64, error) {
	return request(q.p, func() (int64, error) { return q.queues.Count(ctx, name) })
}

type processPeeker struct {
	p      *Process
	peeker queue.Peeker
}

func (q processPeeker) Peek(ctx context.Context, name string, max int) ([]queue.Message, error) {
	return request(q.p, func() ([]queue.Message, error) { return q.peeker.Peek(ctx, name, max) })
}

type processLister struct {
	p      *Process
	lister queue.Lister
}

func (q processLister) List(ctx context.Context, prefix string) ([]string, error) {
	return request(q.p, func() ([]string, error) { return q.lister.List(ctx, prefix) })
}

type processTransport struct {
	p       *Process
	network http.RoundTripper
}

func (m processTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	var answer *http.Response
	received, err := request(m.p, func() (_ *http.Response, err error) {
		answer, err = m.network.RoundTrip(r)
		return answer, err
	})
	if received == nil && answer != nil {
		answer.Body.Close()
	}
	return received, err
}
