package parts

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"kennel/channels"
	"kennel/internal/api"
	"kennel/internal/customhandler"
	"kennel/internal/instances"
	"kennel/internal/names"
	"kennel/internal/observe"
	"kennel/internal/worker"
	"kennel/queue"
)

// channelWork deletes channels, by the messages of a queue, and finds what a
// crash has left.
type channelWork struct {
	channels *channels.Channels
	dead     channels.Outbox  // receives messages that can never be carried out
	signals  *queue.Publisher // wakes workers
	meter    *observe.Meter
	queues   channelQueues
	letters  *observe.LetterCount // what is known of them
	log      *slog.Logger
	off      error // why channels are not served; nil if they are

	listening *worker.Listening // nil behind a host
	listener  *queue.Listener[string]
}

// ofDeletion are the errors for which the message of a deletion, or what is
// stored for it, is the reason.
var ofDeletion = []error{channels.ErrMessage, channels.ErrCorrupt, channels.ErrNoProgress}

// channelQueues is a client for the queue of channels.
type channelQueues interface {
	queue.Store
	queue.Peeker
}

// listen has this process receive messages, without a Functions host.
func (c *channelWork) listen(l *worker.Listening) (err error) {
	c.listening = l
	c.listener, err = worker.Listen(l, c.queues, []string{names.CleanupQueue}, worker.HostMessages{Letters: c.letters}, c.process, l.Options())
	return err
}

func (c *channelWork) Functions(host *customhandler.App) {
	host.Queue("ChannelCleanup", "message", c.meter.Queue(names.CleanupQueue, worker.TracedQueue(names.CleanupQueue, c.cleanUp)))
	host.Timer("ChannelSweep", "tick", c.sweep())
}

// process carries out a message in a worker.
func (c *channelWork) process(ctx context.Context, d queue.Delivery[string]) error {
	// The deletion stops before the deadline, and continues with another message.
	began := time.Now()
	defer func() { c.meter.Ended(began) }()
	err := c.handle(ctx, d.Body)
	if errors.Is(err, channels.ErrMessage) {
		return worker.AsUnreadable(err)
	}
	return worker.NoAttempt(err, ofDeletion...)
}

// Work receives messages and sweeps, until ctx ends.
func (c *channelWork) Work(ctx context.Context) error {
	sweep := c.sweep()
	return worker.Together(ctx, c.listening.AfterRules(c.listener.Run),
		worker.SweepOften("cannot sweep channels; trying again later", c.log, func(ctx context.Context) error { return sweep(ctx, customhandler.Tick{}) }))
}

// Run counts the dead letters of channels while there are any, and sends the
// signals of messages.
func (c *channelWork) Run(ctx context.Context) error {
	var counting sync.WaitGroup
	defer counting.Wait()
	counting.Go(func() { c.letters.Recount(ctx, c.queues) })
	return c.signals.Run(ctx)
}

// Wake signals work in the queue of channels.
func (c *channelWork) Wake(queue string) {
	if queue == names.CleanupQueue {
		c.signals.Announce(queue)
	}
}

// Sample samples the work queue of channels.
func (c *channelWork) Sample(ctx context.Context) (map[string]instances.QueueSample, error) {
	sample, err := observe.SampleQueue(ctx, c.queues, c.letters)
	if err != nil {
		return nil, err
	}
	return map[string]instances.QueueSample{names.CleanupQueue: sample}, nil
}

// Problems returns the dead letters.
func (c *channelWork) Problems() []instances.Problem { return c.letters.Problems() }

func (c *channelWork) LetterCounts() map[string]*observe.LetterCount {
	return map[string]*observe.LetterCount{names.CleanupQueue: c.letters}
}

// Facts reports the messages that this process works on.
func (c *channelWork) Facts(r *instances.Report) {
	if c.listener != nil {
		worker.ReportWork(r, c.listener)
	}
}

// cleanUp carries out a message that deletes a channel. After nil the host
// deletes the message, after an error it delivers the message again. A message
// that can never be carried out goes to the dead-letter queue, and after its
// last delivery the host moves it there.
func (c *channelWork) cleanUp(ctx context.Context, m customhandler.QueueMessage) (result observe.Ending, err error) {
	if c.off != nil {
		return result, fmt.Errorf("channels are not served: %w", c.off)
	}
	err = worker.Outlast(ctx, func(bool) error { return c.handle(ctx, m.Text) }, ofDeletion...)
	if errors.Is(err, channels.ErrMessage) {
		result, err = observe.DeadLetter, c.letterbox().Move(ctx, m, err)
	}
	c.letterbox().Failed(m, err)
	return result, err
}

// handle carries out the text of a message, and logs what it did.
func (c *channelWork) handle(ctx context.Context, text string) error {
	began := time.Now()
	deletion, err := c.channels.Handle(ctx, text)
	switch {
	case err != nil:
		return err
	case deletion.State == channels.Done:
		api.LogDeleted(ctx, c.log, began, deletion)
	default:
		c.log.InfoContext(ctx, "channel deletion goes on with another message", "channel", deletion.Channel, "incarnation", deletion.Incarnation, "blogs", deletion.Deleted)
	}
	return nil
}

// letterbox returns where messages that can never be carried out go.
func (c *channelWork) letterbox() worker.Letterbox {
	put := func(ctx context.Context, text string) error {
		_, err := c.dead.Put(ctx, text, 0)
		return err
	}
	return worker.Letterbox{Count: c.letters, Encode: worker.PlainLetter, Put: put, Log: c.log}
}

// sweep returns the function that finds work which a crash between two requests
// left. It continues where the previous run ran out of time; a new process
// starts over, which is harmless.
func (c *channelWork) sweep() func(context.Context, customhandler.Tick) error {
	var mu sync.Mutex
	var next string // guarded by mu
	return func(ctx context.Context, _ customhandler.Tick) error {
		if c.off != nil {
			return nil // newChannels logged it
		}
		mu.Lock()
		from := next
		mu.Unlock()
		swept, err := c.channels.Sweep(ctx, from)
		mu.Lock()
		next = swept.Next
		mu.Unlock()
		log := c.log.DebugContext
		if swept.Restarted > 0 || swept.Fences > 0 || swept.Records > 0 || swept.Next != "" && err == nil {
			log = c.log.InfoContext
		}
		log(ctx, "channels swept", "restarted", swept.Restarted, "fences", swept.Fences, "records", swept.Records, "all", swept.Next == "")
		return err
	}
}
