package parts

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"kennel/internal/customhandler"
	"kennel/internal/instances"
	"kennel/internal/observe"
	"kennel/internal/table"
	"kennel/relay"
)

// backlogSample is the newest sample that this process made.
type backlogSample struct {
	mu      sync.Mutex
	last    *instances.Backlog // is replaced, never changed; guarded by mu
	triedAt time.Time          // guarded by mu
	news    bool               // something happened since the last try; guarded by mu
}

// begin reports whether a sample may be made now, and notes that it is.
func (b *backlogSample) begin() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if now := time.Now(); now.Sub(b.triedAt) >= observe.OfBacklog.Every {
		b.triedAt, b.news = now, false
		return true
	}
	return false
}

// isDue reports whether a process that moves the backlog should sample it.
func (b *backlogSample) isDue() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	isEmpty := b.last != nil && len(b.last.Entities) == 0
	return b.news || !isEmpty || time.Since(b.triedAt) >= observe.OfEmptyBacklog.Every
}

// changed notes that the backlog may have changed.
func (b *backlogSample) changed() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.news = true
}

func (b *backlogSample) set(sample *instances.Backlog) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.last = sample
}

// latest returns the newest sample, nil if it describes the backlog no longer.
func (b *backlogSample) latest() *instances.Backlog {
	b.mu.Lock()
	defer b.mu.Unlock()
	pace := observe.OfBacklog
	if b.last == nil || len(b.last.Entities) == 0 {
		pace = observe.OfEmptyBacklog
	}
	if b.last == nil || time.Since(b.last.At) > pace.Lasts {
		return nil
	}
	return b.last
}

// maxBacklogAge is how old a message in the backlog may be. An outage of the
// primary namespace that lasts longer is a problem.
const maxBacklogAge = 5 * time.Minute

// Problems returns the entities whose messages wait for too long.
func (b *backlogSample) Problems() []instances.Problem {
	sample := b.latest()
	if sample == nil {
		return nil
	}
	var old []instances.Problem
	for _, e := range sample.Entities {
		age := time.Duration(e.OldestSeconds * float64(time.Second))
		if age <= maxBacklogAge {
			continue
		}
		more := ""
		if sample.More {
			more = "at least "
		}
		old = append(old, instances.Problem{
			Code: instances.BacklogOld, Subject: e.Entity, Since: sample.At.Add(maxBacklogAge - age), Count: e.Messages,
			What: fmt.Sprintf("In the secondary namespace %s%d messages wait for it, the oldest for %v.", more, e.Messages, age.Round(time.Second)),
		})
	}
	return observe.Oldest(old)
}

// backlogOf returns a sample as it is reported.
func backlogOf(b relay.Backlog) *instances.Backlog {
	sample := &instances.Backlog{At: b.At.UTC(), More: b.Partial}
	for _, w := range b.Entities {
		sample.Entities = append(sample.Entities, instances.BacklogEntity{
			Entity: w.Entity, Messages: w.Messages, OldestSeconds: max(0, b.At.Sub(w.Oldest).Seconds()), // its clock may be ahead
		})
	}
	slices.SortFunc(sample.Entities, func(a, b instances.BacklogEntity) int {
		return cmp.Or(cmp.Compare(b.OldestSeconds, a.OldestSeconds), strings.Compare(a.Entity, b.Entity))
	})
	return sample
}

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
