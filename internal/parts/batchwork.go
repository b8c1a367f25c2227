package parts

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"kennel/gate"
	"kennel/internal/config"
	"kennel/internal/customhandler"
	"kennel/internal/instances"
	"kennel/internal/names"
	"kennel/internal/observe"
	"kennel/internal/worker"
	"kennel/queue"
	"kennel/work"
)

// maxHold is how long a message waits at the closed work gate.
const maxHold = 3 * time.Minute

// WorkQueues returns the names of the queues of parcels.
func WorkQueues(partitions int) []string {
	names := []string{work.ExpressQueue}
	for n := range partitions {
		names = append(names, work.PartitionQueue(n))
	}
	return names
}

// batchWork does the work of batches, by the messages of their queues.
type batchWork struct {
	open       func() (*openBatches, error) // for the first use: a start needs nothing of it
	opened     chan struct{}                // closed by the first use that succeeds
	processors map[string]work.Processor
	partitions int       // by the setting
	gate       *workGate // nil: none
	meter      *observe.Meter
	letters    map[string]*observe.LetterCount       // by queue
	readsLarge func(context.Context) bool            // whether all processes can read large parcels; nil: not known
	late       instances.Tracker[string, work.Swept] // the result of the last sweep, of allBatches
	untold     instances.Tracker[string, work.Swept] // as late
	mismatch   instances.Tracker[string, string]     // partitions that do not match KENNEL_PARTITIONS
	log        *slog.Logger

	listening *worker.Listening // nil behind a host
	listener  *queue.Listener[*workMessage]
}

// ofBatch are the errors for which the message of a batch, or what is stored for
// it, is the reason. What an item does wrong is its result, and no error. A
// message that was put back is done: its copy continues.
var ofBatch = []error{work.ErrMessage, work.ErrCorrupt, work.ErrHeld}

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

// newBatchWork returns the work of batches, before open is set. gates are needed
// only for a work gate.
func newBatchWork(cfg config.Config, processors map[string]work.Processor, gates *gate.Gates, meter *observe.Meter, log *slog.Logger) *batchWork {
	b := &batchWork{
		opened: make(chan struct{}), processors: processors, partitions: cfg.Partitions, meter: meter,
		letters: make(map[string]*observe.LetterCount), log: log,
	}
	if cfg.WorkGate != "" {
		b.gate = newWorkGate(gates, cfg.WorkGate)
	}
	for _, name := range WorkQueues(config.MaxPartitions) {
		b.letters[name] = &observe.LetterCount{Queue: name}
	}
	return b
}

// once opens batches when they are first used, and logs once why they cannot
// be.
func (b *batchWork) once(open func() (*openBatches, error)) func() (*openBatches, error) {
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

// openOn returns batches on these stores, which need no Put.
func (b *batchWork) openOn(cfg config.Config, s work.Stores, queues batchQueues, hostShare float64, signals queue.Signals) (*openBatches, error) {
	publisher, err := queue.NewPublisher(queues, &queue.PublisherOptions{Signals: signals, Log: b.log})
	if err != nil {
		return nil, err
	}
	s.Put = func(ctx context.Context, queue, text string, delay time.Duration) error {
		return publisher.Publish(ctx, queue, worker.InBase64(text), delay)
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
func (b *batchWork) readLarge(ctx context.Context) bool {
	return b.readsLarge != nil && b.readsLarge(ctx)
}

// decoded receives messages with the texts that their senders put.
type decoded struct{ queue.Receiver }

// Receive implements [queue.Receiver]. It returns a message that is not base64
// of text as it is.
func (d decoded) Receive(ctx context.Context, name string, max int, visibility time.Duration) ([]queue.Message, error) {
	messages, err := d.Receiver.Receive(ctx, name, max, visibility)
	for i, m := range messages {
		if text, err := worker.TextOf(m.Body); err == nil {
			messages[i].Body = text
		}
	}
	return messages, err
}

// Functions registers the functions of all queues that an app can have: the
// number of staged functions need not be the setting's.
func (b *batchWork) Functions(host *customhandler.App) {
	for n := range config.MaxPartitions {
		host.Queue(names.FunctionOfPartition(n), "message", b.parcels(work.PartitionQueue(n)))
	}
	host.Queue("ProcessWorkExpress", "message", b.parcels(work.ExpressQueue))
	host.Timer("BatchSweep", "tick", func(ctx context.Context, _ customhandler.Tick) error { return b.sweep(ctx) })
}

// listen has this process receive messages, without a Functions host. Those of
// parcels are not received while the work gate is closed.
func (b *batchWork) listen(l *worker.Listening) error {
	opened, err := b.open()
	if err != nil {
		return err
	}
	o := l.Options()
	// Items that fail do not fail their message, and an attempt during an outage
	// of storage does not count, so few messages have several attempts.
	o.MaxAttempts = 10
	if b.gate != nil {
		o.Admit = func(string) (bool, <-chan struct{}) { return b.gate.admit() }
	}
	codec := workMessages{queue.Packed{Claims: opened.claims}, opened.batches, b.letters}
	b.listening = l
	b.listener, err = worker.Listen(l, opened.queues, WorkQueues(b.partitions), codec, b.process, o)
	return err
}

// Work receives messages and sweeps, until ctx ends.
func (b *batchWork) Work(ctx context.Context) error {
	parts := []func(context.Context) error{
		b.listening.AfterRules(b.listener.Run),
		worker.SweepOften("cannot sweep batches; trying again later", b.log, b.sweep),
	}
	if b.gate != nil {
		parts = append(parts, b.gate.follow)
	}
	return worker.Together(ctx, parts...)
}

// process does the work of a message in a worker. What is not done before the
// deadline continues with another message.
func (b *batchWork) process(ctx context.Context, d queue.Delivery[*workMessage]) error {
	began := time.Now()
	defer func() { b.meter.Ended(began) }()
	opened, err := b.open()
	if err != nil {
		return err // cannot occur: listen has opened them
	}
	m := work.Message{Text: d.Body.text, Redelivered: d.Redelivered, Share: d.Share}
	err = opened.batches.Process(ctx, d.Queue, m)
	switch {
	case errors.Is(err, work.ErrHeld):
		d.Body.held = true
		return nil
	case errors.Is(err, work.ErrMessage):
		return worker.AsUnreadable(err)
	}
	return worker.NoAttempt(err, ofBatch...)
}

// parcels returns the function of a queue of parcels. After nil the host deletes
// the message, after an error it delivers the message again.
func (b *batchWork) parcels(name string) func(context.Context, customhandler.QueueMessage) error {
	return b.meter.Queue(name, worker.TracedQueue(name, func(ctx context.Context, m customhandler.QueueMessage) (result observe.Ending, err error) {
		opened, err := b.open()
		if err != nil {
			return result, fmt.Errorf("batches are not served: %w", err)
		}
		letters := opened.letterbox(b.letters[name], b.log)
		err = worker.Outlast(ctx, func(repeated bool) error {
			return opened.batches.Process(ctx, name, work.Message{Text: m.Text, Redelivered: repeated || m.DequeueCount > 1})
		}, ofBatch...)
		switch {
		case err == nil:
			b.forget(ctx, opened, m.Text)
		case errors.Is(err, work.ErrHeld):
			result, err = observe.PutBack, nil // the copy needs what is stored for the message
		case errors.Is(err, work.ErrMessage):
			result, err = observe.DeadLetter, letters.Move(ctx, m, err)
		}
		letters.Failed(m, err)
		return result, err
	}))
}

// forget removes what is stored for a message that is done. If that fails, the
// sweep removes it later.
func (b *batchWork) forget(ctx context.Context, opened *openBatches, text string) {
	if err := opened.batches.Forget(ctx, text); err != nil {
		b.log.DebugContext(ctx, "cannot remove the claim of a message that is done; it expires", "error", err.Error())
	}
}

// letterbox returns where the messages of a queue go that can never be carried
// out. A dead letter keeps the envelope of its message, and its claim.
func (o *openBatches) letterbox(count *observe.LetterCount, log *slog.Logger) worker.Letterbox {
	put := func(ctx context.Context, text string) error {
		return o.signals.Publish(ctx, count.Queue+queue.PoisonSuffix, worker.InBase64(text), 0)
	}
	return worker.Letterbox{Count: count, Encode: queue.Packed{Claims: o.claims}.DeadLetter, Put: put, Log: log}
}

// Run sends the signals of messages, watches the work gate and counts the dead
// letters, from the first use until ctx ends.
func (b *batchWork) Run(ctx context.Context) error {
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
		running.Go(func() { b.gate.Run(ctx) })
	}
	running.Go(func() {
		observe.Every(ctx, observe.Recounts.Every, func() {
			for _, letters := range b.letters {
				if letters.Known() {
					letters.CountNow(ctx, opened.queues) // an error is a problem of storage
				}
			}
		})
	})
	return opened.signals.Run(ctx)
}

// sweep completes, restarts and removes batches, and removes the bodies of
// messages that have expired.
func (b *batchWork) sweep(ctx context.Context) error {
	opened, err := b.open()
	if err != nil {
		return nil // open logged it
	}
	swept, err := opened.batches.Sweep(ctx)
	claims, err2 := opened.claims.Sweep(ctx, time.Now())
	b.judge(swept)
	log := b.log.DebugContext
	if swept.Completed > 0 || swept.Restarted > 0 || swept.Removed > 0 || swept.Orphans > 0 || swept.Moved > 0 || claims > 0 {
		log = b.log.InfoContext
	}
	log(ctx, "batches swept", "completed", swept.Completed, "restarted", swept.Restarted, "removed", swept.Removed, "orphans", swept.Orphans, "moved", swept.Moved, "claims", claims)
	return errors.Join(err, err2)
}

// allBatches is the subject of a problem with batches as a whole.
const allBatches = ""

// lateLasts is how long after a sweep its late batches are a problem of this
// process. The next sweep may be another process's.
const lateLasts = 2 * worker.SweepEvery

// judge records the result of a sweep.
func (b *batchWork) judge(s work.Swept) {
	if s.Late == 0 {
		b.late.Solved(allBatches)
	} else {
		b.late.Occurred(allBatches, s, lateLasts)
	}
	if s.Untold == 0 {
		b.untold.Solved(allBatches)
	} else {
		b.untold.Occurred(allBatches, s, lateLasts)
	}
}

func (b *batchWork) LetterCounts() map[string]*observe.LetterCount { return b.letters }

// Facts reports what this process can read, and works on.
func (b *batchWork) Facts(r *instances.Report) {
	parcelSection.Add(r, work.LargeParcel)
	if b.listener != nil {
		worker.ReportWork(r, b.listener)
	}
}
