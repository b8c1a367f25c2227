package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"kennel/gate"
	"kennel/internal/azure"
	"kennel/internal/azure/servicebus"
	"kennel/internal/config"
	"kennel/internal/customhandler"
	"kennel/internal/instances"
	"kennel/internal/names"
	"kennel/internal/table"
	"kennel/queue"
	"kennel/work"
)

// hostShare is an estimate of the requests that the Functions host makes for a
// message besides its delete. It receives up to 16 messages at once, and again
// when half of them are done.
const hostShare = 1.0 / 8

// maxHold is how long a message waits at the closed work gate.
const maxHold = 3 * time.Minute

// workQueues returns the names of the queues of parcels.
func workQueues(partitions int) []string {
	names := []string{work.ExpressQueue}
	for n := range partitions {
		names = append(names, work.PartitionQueue(n))
	}
	return names
}

// batchFunctions serve batches and do their work.
type batchFunctions struct {
	open       func() (*openBatches, error) // for the first use: a start needs nothing of it
	opened     chan struct{}                // closed by the first use that succeeds
	processors map[string]work.Processor
	partitions int       // by the setting
	gate       *workGate // nil: none
	meter      *meter
	letters    map[string]*letterCount // by queue
	members    *members                // nil in a worker, which submits nothing
	late       lateness
	mismatch   mismatch
	log        *slog.Logger
}

// openBatches is batches on the stores of an account.
type openBatches struct {
	batches *work.Batches
	claims  *queue.Claims
	signals *queue.Publisher
	queues  batchQueues
}

// batchQueues is a client for the queues of batches.
type batchQueues interface {
	queue.Store
	queue.Peeker
	queue.Lister
}

// newBatches wires batches and sends no request. gates are needed only for a
// work gate.
func newBatches(cfg config.Config, account azure.Account, o azure.Options, hostShare float64, signals *servicebus.Signals, gates *gate.Gates, meter *meter, log *slog.Logger) (*batchFunctions, error) {
	o.Job = "batches"
	b, err := newBatchFunctions(cfg, gates, meter, log)
	if err != nil {
		return nil, err
	}
	b.open = b.once(func() (*openBatches, error) {
		stores, queues, err := openBatchStores(account, &o)
		if err != nil {
			return nil, err
		}
		return b.openOn(cfg, stores, queues, hostShare, ofQueues(signals))
	})
	return b, nil
}

func newBatchFunctions(cfg config.Config, gates *gate.Gates, meter *meter, log *slog.Logger) (*batchFunctions, error) {
	processors, err := newProcessors(cfg)
	if err != nil {
		return nil, err
	}
	b := &batchFunctions{
		opened: make(chan struct{}), processors: processors, partitions: cfg.Partitions, meter: meter,
		letters: make(map[string]*letterCount), log: log,
	}
	if cfg.WorkGate != "" {
		b.gate = newWorkGate(gates, cfg.WorkGate)
	}
	for _, name := range append(workQueues(config.MaxPartitions), work.ResultsQueue) {
		b.letters[name] = &letterCount{queue: name}
	}
	return b, nil
}

// once opens batches when they are first used, and logs once why they cannot
// be.
func (b *batchFunctions) once(open func() (*openBatches, error)) func() (*openBatches, error) {
	return sync.OnceValues(func() (*openBatches, error) {
		opened, err := open()
		if err != nil {
			b.log.Warn("batches are not served: they need tables and queues", "error", err)
			return nil, err
		}
		close(b.opened)
		return opened, nil
	})
}

// openBatchStores opens the stores of batches without Put, and makes no
// request.
func openBatchStores(account azure.Account, o *azure.Options) (s work.Stores, queues *azure.Queues, err error) {
	blobs, err1 := account.OpenBlobs(o)
	tables, err2 := account.OpenTables(o)
	queues, err3 := account.OpenQueues(o)
	if err := errors.Join(err1, err2, err3); err != nil {
		return s, nil, err
	}
	rows, err1 := azure.NewTable(tables, names.BatchesTable)
	claimStore, err2 := azure.NewTable(tables, names.ClaimsTable)
	if err := errors.Join(err1, err2); err != nil {
		return s, nil, err
	}
	claimRows, err := table.New(claimStore)
	if err != nil {
		return s, nil, err
	}
	s = work.Stores{Rows: rows, Staging: azure.NewContainer(blobs, names.StagingContainer), Reports: azure.NewContainer(blobs, names.ReportsContainer)}
	s.Claims, err = queue.NewClaims(claimRows, azure.NewContainer(blobs, names.ClaimsContainer), nil)
	return s, queues, err
}

// openOn returns batches on these stores, which need no Put.
func (b *batchFunctions) openOn(cfg config.Config, s work.Stores, queues batchQueues, hostShare float64, signals queue.Signals) (*openBatches, error) {
	publisher, err := queue.NewPublisher(queues, &queue.PublisherOptions{Signals: signals, Log: b.log})
	if err != nil {
		return nil, err
	}
	s.Put = func(ctx context.Context, queue, text string, delay time.Duration) error {
		return publisher.Publish(ctx, queue, inBase64(text), delay)
	}
	s.Depths, s.Surplus = queues, decoded{queues}
	o := &work.Options{
		Partitions: cfg.Partitions,
		MaxBytes:   cfg.BatchMaxBytes,
		MaxItems:   cfg.BatchMaxItems,
		Latency:    cfg.LatencyTarget,
		Retention:  cfg.Retention,
		HoldTime:   min(maxHold, cfg.InvocationTimeout*2/3),
		HostShare:  hostShare,
		ReadLarge:  b.readLarge,
		Log:        b.log,
	}
	if b.gate != nil {
		o.Gate = b.gate
	}
	batches, err := work.New(s, b.processors, o)
	if err != nil {
		return nil, err
	}
	return &openBatches{batches, s.Claims, publisher, queues}, nil
}

// readLarge reports whether all processes can read large parcels: during a
// rollout, one of an older build would move them to the dead letters.
func (b *batchFunctions) readLarge(ctx context.Context) bool {
	if b.members == nil {
		return false
	}
	directory, err := b.members.read(ctx)
	others, known := b.members.known(ctx, directory, err)
	return known && directory.Unreadable == 0 && !slices.ContainsFunc(others, func(i instances.Instance) bool { return i.Parcel < work.LargeParcel })
}

// facts reports what this process can read.
func (b *batchFunctions) facts(r *instances.Report) { r.Parcel = work.LargeParcel }

// decoded receives messages with the texts that their senders put.
type decoded struct{ queue.Receiver }

// Receive implements [queue.Receiver]. It returns a message that is not base64
// of text as it is.
func (d decoded) Receive(ctx context.Context, name string, max int, visibility time.Duration) ([]queue.Message, error) {
	messages, err := d.Receiver.Receive(ctx, name, max, visibility)
	for i, m := range messages {
		if text, err := textOf(m.Body); err == nil {
			messages[i].Body = text
		}
	}
	return messages, err
}

// job wires batches into a process that serves a Functions host.
func (b *batchFunctions) job() job {
	return job{routes: b.routes(), register: b.register, run: b.run, letters: b.letters, problems: b.problems, sample: b.sample, wake: b.wake, facts: b.facts}
}

// register registers the functions of all queues that an app can have: the
// number of staged functions need not be the setting's.
func (b *batchFunctions) register(host *customhandler.App) {
	for n := range config.MaxPartitions {
		host.Queue(names.FunctionOfPartition(n), "message", b.parcels(work.PartitionQueue(n)))
	}
	host.Queue("ProcessWorkExpress", "message", b.parcels(work.ExpressQueue))
	host.Queue("CollectResults", "message", b.collect())
	host.Timer("BatchSweep", "tick", func(ctx context.Context, _ customhandler.Tick) error { return b.sweep(ctx) })
}

// parcels returns the function of a queue of parcels.
func (b *batchFunctions) parcels(name string) func(context.Context, customhandler.QueueMessage) error {
	return b.invocation(name, func(batches *work.Batches, ctx context.Context, m work.Message) error {
		return batches.Process(ctx, name, m)
	})
}

// collect returns the function of the queue of results.
func (b *batchFunctions) collect() func(context.Context, customhandler.QueueMessage) error {
	return b.invocation(work.ResultsQueue, (*work.Batches).Collect)
}

// invocation returns the function of a queue. After nil the host deletes the
// message, after an error it delivers the message again.
func (b *batchFunctions) invocation(name string, do func(*work.Batches, context.Context, work.Message) error) func(context.Context, customhandler.QueueMessage) error {
	return b.meter.queue(name, tracedQueue(name, func(ctx context.Context, m customhandler.QueueMessage) (result ending, err error) {
		opened, err := b.open()
		if err != nil {
			return result, fmt.Errorf("batches are not served: %w", err)
		}
		letters := opened.letterbox(b.letters[name], b.log)
		err = outlast(ctx, func(repeated bool) error {
			return do(opened.batches, ctx, work.Message{Text: m.Text, Redelivered: repeated || m.DequeueCount > 1})
		})
		switch {
		case err == nil:
			b.forget(ctx, opened, m.Text)
		case errors.Is(err, work.ErrHeld):
			result, err = putBack, nil // the copy needs what is stored for the message
		case errors.Is(err, work.ErrMessage):
			result, err = deadLetter, letters.move(ctx, m, err)
		}
		letters.failed(m, err)
		return result, err
	}))
}

// forget removes what is stored for a message that is done. If that fails, the
// sweep removes it later.
func (b *batchFunctions) forget(ctx context.Context, opened *openBatches, text string) {
	if err := opened.batches.Forget(ctx, text); err != nil {
		b.log.DebugContext(ctx, "cannot remove the claim of a message that is done; it expires", "error", err.Error())
	}
}

// letterbox returns where the messages of a queue go that can never be carried
// out. A dead letter keeps the envelope of its message, and its claim.
func (o *openBatches) letterbox(count *letterCount, log *slog.Logger) letterbox {
	put := func(ctx context.Context, text string) error {
		return o.signals.Publish(ctx, count.queue+queue.PoisonSuffix, inBase64(text), 0)
	}
	return letterbox{count, queue.Packed{Claims: o.claims}.DeadLetter, put, log}
}

// run sends the signals of messages, watches the work gate and counts the dead
// letters, from the first use until ctx ends.
func (b *batchFunctions) run(ctx context.Context) error {
	select {
	case <-b.opened:
	case <-ctx.Done():
		return nil
	}
	opened, err := b.open()
	if err != nil {
		return err // cannot occur: opened is closed
	}
	var running sync.WaitGroup
	defer running.Wait()
	if b.gate != nil {
		running.Go(func() { b.gate.run(ctx) })
	}
	running.Go(func() {
		every(ctx, recountInterval, func() {
			for _, letters := range b.letters {
				if letters.known() {
					letters.countNow(ctx, opened.queues) // an error is a problem of storage
				}
			}
		})
	})
	return opened.signals.Run(ctx)
}

// sweep completes, restarts and removes batches, and removes the bodies of
// messages that have expired.
func (b *batchFunctions) sweep(ctx context.Context) error {
	opened, err := b.open()
	if err != nil {
		return nil // open logged it
	}
	swept, err := opened.batches.Sweep(ctx)
	claims, err2 := opened.claims.Sweep(ctx, time.Now())
	b.late.swept(swept)
	log := b.log.DebugContext
	if swept.Completed > 0 || swept.Restarted > 0 || swept.Removed > 0 || swept.Orphans > 0 || swept.Moved > 0 || claims > 0 {
		log = b.log.InfoContext
	}
	log(ctx, "batches swept", "completed", swept.Completed, "restarted", swept.Restarted, "removed", swept.Removed, "orphans", swept.Orphans, "moved", swept.Moved, "claims", claims)
	return errors.Join(err, err2)
}
