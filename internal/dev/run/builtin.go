package run

import (
	"context"
	"path/filepath"
	"sync"

	"kennel/internal/azure"
	"kennel/internal/dev/localhost"
)

// runBuiltin runs the app in the local host of this project until ctx ends. It
// calls ready once the handler answers, or with the reason why it cannot be
// started.
func (a *App) runBuiltin(ctx context.Context, h hosted, ready func(error)) (err error) {
	options := &localhost.Options{Env: a.settings, Executable: h.executable, Console: a.opt.Log, Served: a.opt.Served}
	// An account may be given for blobs alone; functions with queues are then
	// reported by the host. They have the names in storage, with the prefix.
	account := azure.Account(h.storage)
	account.Prefix = ""
	if account.ConnectionString != "" || account.QueueURL != "" {
		client, err := account.OpenQueues(nil)
		if err != nil {
			return err
		}
		options.Queues = client
	}
	if a.opt.Key != "" {
		options.Keys = &localhost.Keys{Host: a.opt.Key}
	}
	if a.opt.Data != "" {
		options.StatusDir = filepath.Join(a.opt.Data, "timers")
	}
	if a.opt.Watch {
		options.GracefulStop = stopTime // the next handler starts at once
	}
	if a.opt.Attach {
		if options.Attach, err = a.attachPort(ctx, h.listener); err != nil {
			return err
		}
	}
	host, err := localhost.New(h.dist, h.listener, options)
	if err != nil {
		return err
	}
	if a.opt.Attach {
		remove, err := a.announceEnvironment(host.HandlerEnvironment(options.Attach))
		if err != nil {
			return err
		}
		defer remove()
	}

	ctx, stop := context.WithCancel(ctx)
	var greeting sync.WaitGroup
	defer greeting.Wait()
	defer stop()
	greeting.Go(func() {
		select {
		case <-host.Ready():
			ready(host.HandlerError())
		case <-ctx.Done():
		}
	})
	return host.Run(ctx)
}
