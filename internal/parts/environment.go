package parts

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"kennel/channels"
	"kennel/internal/app"
	"kennel/internal/azure"
	"kennel/internal/azure/requests"
	"kennel/internal/azure/servicebus"
	"kennel/internal/config"
	"kennel/internal/names"
	"kennel/internal/observe"
	"kennel/internal/program"
	"kennel/internal/worker"
	"kennel/queue"
	"kennel/work"
)

// environment is what the parts of the Kennel app share.
type environment struct {
	cfg        config.Config
	account    azure.Account
	transport  *http.Client // of requests to storage; nil: the default
	counter    *requests.Counter
	outcomes   *requests.Outcomes
	blobs      *azure.Blobs
	signals    *servicebus.Signals // nil without Service Bus
	members    *observe.Members
	meter      *observe.Meter
	listening  *worker.Listening // nil behind a Functions host
	processors map[string]work.Processor
	declared   *program.Declared
	life       *life
	newID      func() string   // of messages; nil: random ones
	given      map[string]bool // the declared settings that have a value, besides their default
	unserved   map[string]bool // storage queues for which the package of a host has no function
	batches    *batchWork      // nil: the program uses none
	log        *slog.Logger
}

// optionsOf returns the options of the clients of a job.
func (e *environment) optionsOf(job string) *azure.Options {
	return &azure.Options{HTTP: e.transport, Requests: e.counter, Outcomes: e.outcomes, Job: job, Endless: e.endless}
}

// endless reports whether the messages of a queue never expire: those of the
// program's own, and their dead letters.
func (e *environment) endless(queue string) bool {
	storage := strings.TrimSuffix(queue, names.PoisonSuffix)
	return e.declared != nil && slices.Contains(e.declared.AllQueues(), storage)
}

// ofQueues returns the signals of queues, or nil without Service Bus.
func ofQueues(s *servicebus.Signals) queue.Signals {
	if s == nil {
		return nil
	}
	return s.Queues()
}

// connection closes the signals.
type connection struct {
	app.Idle
	*servicebus.Signals
}

func (c connection) Close(context.Context) error { c.Signals.Close(); return nil }

// announced is an outbox whose messages wake the workers. A signal is sent after
// the call and may fail: a worker then finds the message when it polls.
type announced struct {
	channels.Outbox
	publisher *queue.Publisher
	queue     string
}

// Put implements [channels.Outbox]. It signals also a message that is received
// later, because a process that is killed until then would not; the worker
// polls as long as there are messages. After an error the message may exist.
func (a announced) Put(ctx context.Context, text string, delay time.Duration) (receipt string, err error) {
	receipt, err = a.Outbox.Put(ctx, text, delay)
	if !errors.Is(err, channels.ErrRefused) {
		a.publisher.Announce(a.queue)
	}
	return receipt, err
}
