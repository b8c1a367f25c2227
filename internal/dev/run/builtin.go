package run

import (
	"context"
	"path/filepath"
	"sync"
	"time"

	"kennel/internal/azure"
	"kennel/internal/dev/localhost"
	"kennel/queue"
)

// runBuiltin runs the app in the local host of this project until ctx ends. It
// calls ready once the handler answers.
func (a *App) runBuiltin(ctx context.Context, h hosted, ready func()) error {
	options := &localhost.Options{Env: a.settings, Executable: h.executable, Console: a.opt.Log}
	// An account may be given for blobs alone; functions with queues are then
	// reported by the host.
	if account := azure.Account(a.storage); account.ConnectionString != "" || account.QueueURL != "" {
		client, err := account.OpenQueues(nil)
		if err != nil {
			return err
		}
		options.Queues = queues{client}
	}
	if a.opt.Key != "" {
		options.Keys = &localhost.Keys{Host: a.opt.Key}
	}
	if a.opt.Data != "" {
		options.StatusDir = filepath.Join(a.opt.Data, "timers")
	}
	host, err := localhost.New(h.dist, h.listener, options)
	if err != nil {
		return err
	}

	ctx, stop := context.WithCancel(ctx)
	var greeting sync.WaitGroup
	defer greeting.Wait()
	defer stop()
	greeting.Go(func() {
		select {
		case <-host.Ready():
			ready()
		case <-ctx.Done():
		}
	})
	return host.Run(ctx)
}

// queues are Azure's queues in the shape in which the local host wants them.
type queues struct{ *azure.Queues }

func (q queues) Receive(ctx context.Context, queue string, max int, visibility time.Duration) ([]localhost.QueueMessage, error) {
	received, err := q.Queues.Receive(ctx, queue, max, visibility)
	messages := make([]localhost.QueueMessage, len(received))
	for i, m := range received {
		messages[i] = localhost.QueueMessage(m)
	}
	return messages, err
}

func (q queues) Hide(ctx context.Context, name string, m localhost.QueueMessage, visibility time.Duration) (localhost.QueueMessage, error) {
	hidden, err := q.Queues.Update(ctx, name, queue.Message(m), visibility)
	return localhost.QueueMessage(hidden), err
}

func (q queues) Delete(ctx context.Context, name string, m localhost.QueueMessage) error {
	return q.Queues.Delete(ctx, name, queue.Message(m))
}

func (q queues) Put(ctx context.Context, queue, body string) error {
	_, err := q.Queues.Put(ctx, queue, body, 0)
	return err
}
