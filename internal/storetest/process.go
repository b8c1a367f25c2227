package storetest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"kennel/channels"
	"kennel/table"
)

// Process stands for one that can be killed: what it uses is passed through
// its methods, and once it is dead nothing is sent any more, and no answer
// heard.
type Process struct {
	Requests *atomic.Int64 // counts what is sent; may be shared; nil: nobody counts

	kill *Killer
	dead atomic.Bool
	life context.Context
	end  context.CancelFunc
}

// Killer kills the process that sends the N-th request of all processes that
// it is given to: before that is sent, or when it is done and not answered yet.
type Killer struct {
	N     int64
	After bool
	sent  atomic.Int64
}

// Struck says that somebody was killed.
func (k *Killer) Struck() bool { return k.sent.Load() >= k.N }

// Sent is how many requests there were so far.
func (k *Killer) Sent() int64 { return k.sent.Load() }

func (k *Killer) String() string {
	when := "before"
	if k.After {
		when = "after"
	}
	return fmt.Sprintf("killed %s request %d", when, k.N)
}

// ErrKilled is what a dead process hears.
var ErrKilled = errors.New("the process is dead")

// NewProcess returns a process that lives until kill strikes; nil never does.
func NewProcess(kill *Killer) *Process {
	p := &Process{kill: kill}
	p.life, p.end = context.WithCancel(context.Background())
	return p
}

// Context ends with the process.
func (p *Process) Context() context.Context { return p.life }

// Die kills the process here and now.
func (p *Process) Die() {
	p.dead.Store(true)
	p.end()
}

// Dead says that the process was killed.
func (p *Process) Dead() bool { return p.dead.Load() }

// Table is a table as the process uses it.
func (p *Process) Table(table table.Store) table.Store { return mortalTable{p, table} }

// Outbox is an outbox as the process uses it.
func (p *Process) Outbox(outbox channels.Outbox) channels.Outbox { return mortalOutbox{p, outbox} }

// Transport is the network as the process uses it, for stores that send their
// requests by HTTP.
func (p *Process) Transport(network http.RoundTripper) http.RoundTripper {
	return mortalTransport{p, network}
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

type mortalTable struct {
	p     *Process
	table table.Store
}

func (t mortalTable) Get(ctx context.Context, partition, key string) (table.Row, error) {
	return request(t.p, func() (table.Row, error) { return t.table.Get(ctx, partition, key) })
}

func (t mortalTable) Query(ctx context.Context, q table.Query) (table.Page, error) {
	return request(t.p, func() (table.Page, error) { return t.table.Query(ctx, q) })
}

func (t mortalTable) Submit(ctx context.Context, writes []table.Write) ([]string, error) {
	return request(t.p, func() ([]string, error) { return t.table.Submit(ctx, writes) })
}

type mortalOutbox struct {
	p      *Process
	outbox channels.Outbox
}

func (o mortalOutbox) Put(ctx context.Context, text string, delay time.Duration) (string, error) {
	return request(o.p, func() (string, error) { return o.outbox.Put(ctx, text, delay) })
}

func (o mortalOutbox) Delete(ctx context.Context, receipt string) error {
	_, err := request(o.p, func() (struct{}, error) { return struct{}{}, o.outbox.Delete(ctx, receipt) })
	return err
}

type mortalTransport struct {
	p       *Process
	network http.RoundTripper
}

func (m mortalTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	var answer *http.Response
	heard, err := request(m.p, func() (_ *http.Response, err error) {
		answer, err = m.network.RoundTrip(r)
		return answer, err
	})
	if heard == nil && answer != nil {
		answer.Body.Close()
	}
	return heard, err
}
