// Package requests counts the requests that a process sends to Azure by
// service, operation and job, so that status, metrics and bills agree. It also
// records which of them fail.
//
// It counts in the client: a request counts each time that the SDK sends it,
// whatever the outcome. If net/http repeats a read by itself, because the
// server closed an idle connection, it counts once. Operations of Service Bus
// have no such place: they count when Service Bus has confirmed them.
package requests

import (
	"context"
	"iter"
	"sync"
	"sync/atomic"
)

// Label identifies a count.
type Label struct {
	Service   string // one of the services below
	Operation string // such as "get"; see [Operation]
	Job       string // the job that needs it: "numbers", "gates", "channels", "batches", "deadletters", "instances", "scale", "bill", "signals", "relay" or "doctor"; "" if unknown
}

// The services whose requests are counted.
const (
	Blob  = "blob"
	Table = "table"
	Queue = "queue"
	Bus   = "bus"
)

// The operations of Service Bus that are counted: those that it charges for,
// one for each message.
const (
	Send         = "send"
	Deliver      = "deliver"
	Peek         = "peek"
	Settle       = "settle" // complete, abandon or dead-letter
	Renew        = "renew"
	EmptyReceive = "receive nothing"
)

// Counter counts requests. The zero value is ready to use. All methods may be
// called concurrently.
type Counter struct {
	counts sync.Map // of Label to *atomic.Int64
}

// Add counts one request. It takes no lock if the label was counted before.
func (c *Counter) Add(l Label) { c.AddAll(l, 1) }

// AddAll counts n requests. It takes no lock if the label was counted before.
func (c *Counter) AddAll(l Label, n int64) {
	count, ok := c.counts.Load(l)
	if !ok {
		count, _ = c.counts.LoadOrStore(l, new(atomic.Int64))
	}
	count.(*atomic.Int64).Add(n)
}

// All returns the labels with their counts, in no particular order.
func (c *Counter) All() iter.Seq2[Label, int64] {
	return func(yield func(Label, int64) bool) {
		c.counts.Range(func(label, count any) bool {
			return yield(label.(Label), count.(*atomic.Int64).Load())
		})
	}
}

// Operations returns the counts by service and operation, summed over all jobs.
func (c *Counter) Operations() map[string]map[string]int64 {
	services := make(map[string]map[string]int64)
	for label, count := range c.All() {
		if services[label.Service] == nil {
			services[label.Service] = make(map[string]int64)
		}
		services[label.Service][label.Operation] += count
	}
	return services
}

type jobKey struct{}

// WithJob returns a context whose requests are counted for the job.
func WithJob(ctx context.Context, job string) context.Context {
	return context.WithValue(ctx, jobKey{}, job)
}

// Job returns the job that the requests of a context are counted for, or "".
func Job(ctx context.Context) string {
	job, _ := ctx.Value(jobKey{}).(string)
	return job
}
