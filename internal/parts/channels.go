package parts

import (
	"context"
	"errors"
	"fmt"

	"kennel/channels"
	"kennel/internal/api"
	"kennel/internal/app"
	"kennel/internal/azure"
	"kennel/internal/edge"
	"kennel/internal/names"
	"kennel/internal/observe"
	"kennel/internal/worker"
	"kennel/queue"
)

// channelPart is channels and their blogs as a part of the program.
type channelPart struct {
	api.ChannelResource
	*channelWork
	app.Idle

	probe observe.Probe // of queues
}

func (c *channelPart) Routes() []edge.Route { return c.ChannelResource.Routes() }

func (c *channelPart) Probes() map[string]observe.Probe {
	return map[string]observe.Probe{"queues": c.probe}
}

func (c *channelPart) Run(ctx context.Context) error { return c.channelWork.Run(ctx) }

func (c *channelPart) Work(ctx context.Context) error { return c.channelWork.Work(ctx) }

// newChannels serves channels if the account has tables and queues. Without
// them it logs what is missing, and the other parts are served; a worker needs
// them.
func newChannels(e *environment) (app.Part, error) {
	w, queues, err := openChannels(e)
	switch {
	case err != nil && e.listening != nil:
		return app.Part{}, withoutTables(err)
	case err != nil:
		e.log.Warn("channels are not served: they need tables and queues", "error", err)
		off := &channelWork{meter: e.meter, log: e.log, off: err}
		return app.Part{Serves: &channelPart{ChannelResource: api.ChannelResource{Log: e.log, Off: err}, channelWork: off}}, nil
	}
	return newChannelPart(w, probeQueues(queues), e.listening)
}

// newChannelPart returns the part that does the work, without a Functions host
// if listening is not nil.
func newChannelPart(w *channelWork, probe observe.Probe, l *worker.Listening) (app.Part, error) {
	c := &channelPart{ChannelResource: api.ChannelResource{Channels: w.channels, Log: w.log}, channelWork: w, probe: probe}
	if l != nil {
		if err := w.listen(l); err != nil {
			return app.Part{}, err
		}
	}
	return app.Part{Serves: c, Knows: c, Runs: c}, nil
}

// withoutTables is the error of a worker whose account lacks them.
func withoutTables(err error) error {
	return fmt.Errorf("a worker needs the tables and queues of the storage account: %w", err)
}

func openChannels(e *environment) (w *channelWork, queues *azure.Queues, err error) {
	o := e.optionsOf("channels")
	tables, err1 := e.account.OpenTables(o)
	queues, err2 := e.account.OpenQueues(o)
	if err := errors.Join(err1, err2); err != nil {
		return nil, nil, err
	}
	channelTable, err1 := azure.NewTable(tables, names.ChannelsTable)
	blogTable, err2 := azure.NewTable(tables, names.BlogsTable)
	outbox, err3 := queue.NewOutbox(queues, names.CleanupQueue)
	dead, err4 := queue.NewOutbox(queues, names.CleanupQueue+queue.PoisonSuffix)
	publisher, err5 := queue.NewPublisher(queues, &queue.PublisherOptions{Signals: ofQueues(e.signals), Log: e.log})
	if err := errors.Join(err1, err2, err3, err4, err5); err != nil {
		return nil, nil, err
	}
	w = &channelWork{dead: dead, signals: publisher, meter: e.meter, queues: queues, letters: &observe.LetterCount{Queue: names.CleanupQueue}, log: e.log}
	w.channels, err = channels.New(channelTable, blogTable, announced{outbox, publisher, names.CleanupQueue}, nil)
	return w, queues, err
}
