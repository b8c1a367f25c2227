package parts

import (
	"context"
	"sync"
	"time"

	"kennel/internal/customhandler"
	"kennel/internal/instances"
	"kennel/internal/observe"
	"kennel/internal/table"
	"kennel/relay"
)

// timerPass is how long all passes of the timer may take, which runs each
// minute. It then settles what is under way, and samples what is left, which
// takes up to 15 s.
const timerPass = 40 * time.Second

// Functions registers the timer.
func (f *relayPart) Functions(host *customhandler.App) {
	host.Timer("Syphon", "tick", func(ctx context.Context, _ customhandler.Tick) error {
		if f.syphon == nil {
			return nil
		}
		ctx, cancel := context.WithTimeout(ctx, timerPass)
		defer cancel()
		// After an outage the first pass tries with one message of each entity.
		for {
			result, err := f.pass(ctx, f.syphon.Pass)
			if err != nil || !result.More || result.Moved == 0 || ctx.Err() != nil {
				return err
			}
		}
	})
}

// Move moves messages of the backlog, and samples what is left.
func (f *relayPart) Move(ctx context.Context) (relay.Result, error) {
	return f.pass(ctx, f.syphon.PassAndPeek)
}

// pass moves what is in the backlog now, and samples what is left.
func (f *relayPart) pass(ctx context.Context, move func(context.Context) (relay.Result, error)) (relay.Result, error) {
	result, err := move(ctx)
	if result != (relay.Result{More: result.More}) {
		f.log.InfoContext(ctx, "messages of the backlog were moved", "moved", result.Moved, "deadLettered", result.DeadLettered, "expired", result.Expired,
			"held", result.Held, "lockLost", result.LockLost, "unreadable", result.Unreadable, "ambiguous", result.Ambiguous, "unsettled", result.Unsettled, "more", result.More)
	}
	if err != nil {
		f.denials.note(allQueues, err)
		f.log.WarnContext(ctx, "cannot move all messages of the backlog", "error", err)
	} else {
		f.denials.Solved(allQueues)
	}
	if !result.More && result.Unreadable == 0 && result.LockLost == 0 {
		f.backlog.set(&instances.Backlog{At: time.Now().UTC()}) // it is empty
	} else {
		f.sampleBacklog(context.WithoutCancel(ctx)) // which may have ended
	}
	return result, err
}

// Work moves messages of the backlog until ctx ends, and samples it. An empty
// backlog is sampled rarely, because each sample costs a request for each queue.
func (f *relayPart) Work(ctx context.Context) error {
	if f.syphon == nil {
		return nil
	}
	var sampling sync.WaitGroup
	sampling.Go(func() {
		for ctx.Err() == nil {
			if f.backlog.isDue() {
				f.sampleBacklog(ctx)
			}
			_ = table.Pause(ctx, observe.OfBacklog.Every) // the loop ends with ctx
		}
	})
	_ = f.syphon.Run(ctx) // returns the context's error
	sampling.Wait()
	return nil
}

// sampleBacklog samples the backlog, unless this process did it lately.
func (f *relayPart) sampleBacklog(ctx context.Context) {
	if !f.backlog.begin() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, observe.BacklogTimeout)
	defer cancel()
	b, err := f.syphon.Backlog(ctx, f.admin)
	if err != nil {
		f.denials.note(allQueues, err)
		f.log.WarnContext(ctx, "cannot sample the backlog", "error", err)
		if len(b.Entities) == 0 {
			return
		}
	} else {
		f.denials.Solved(allQueues)
	}
	f.backlog.set(backlogOf(b))
}
