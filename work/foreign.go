package work

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"kennel/queue"
)

// During a rollout, processes of two builds or with two lists of settings share
// the queues. That a process cannot process a parcel which another one accepted
// is no verdict over its items: it puts the message back, without an attempt,
// for a process that can.

// The wait of a message that was put back for another process: an eighth of the
// age of its batch, within these bounds. Then a short rollout delays little, and
// a long one costs few requests.
const (
	minForeignDelay = 10 * time.Second
	maxForeignDelay = 5 * time.Minute
)

// foreignLogged is how often a parcel that is put back is logged at most.
const foreignLogged = time.Minute

// Foreign is what a process has lately put back because only others can process
// it.
type Foreign struct {
	Since    time.Time // the first one
	Last     time.Time // the last one
	Messages int64     // how often messages were put back in between
	Reason   string    // of the last one
}

// foreign counts messages that were put back.
type foreign struct {
	mu       sync.Mutex
	known    Foreign   // guarded by mu
	loggedAt time.Time // guarded by mu
}

// add counts a message, and reports whether to log it.
func (f *foreign) add(reason string) (log bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	if now.Sub(f.known.Last) > 2*maxForeignDelay {
		f.known = Foreign{Since: now}
	}
	f.known.Last, f.known.Reason = now, reason
	f.known.Messages++
	if log = now.Sub(f.loggedAt) >= foreignLogged; log {
		f.loggedAt = now
	}
	return log
}

// Foreign returns what this process has put back in the last ten minutes because
// only other processes can process it. The zero value is nothing.
func (b *Batches) Foreign() Foreign {
	b.foreign.mu.Lock()
	defer b.foreign.mu.Unlock()
	if time.Since(b.foreign.known.Last) > 2*maxForeignDelay {
		return Foreign{}
	}
	return b.foreign.known
}

// accepts returns why this process cannot process a parcel.
func (b *Batches) accepts(p parcel) error {
	processor := b.processors[p.Processor]
	if processor == nil {
		return fmt.Errorf("processor %.80q: %w", p.Processor, ErrProcessor)
	}
	selective, ok := processor.(Selective)
	if !ok {
		return nil
	}
	for _, item := range p.Items {
		if err := selective.Accepts(item); err != nil {
			return fmt.Errorf("processor %.80q, item %.80q: %w", p.Processor, item.ID, err)
		}
	}
	return nil
}

// leave puts a copy of a message into its queue for another process, and returns
// ErrHeld.
func (b *Batches) leave(ctx context.Context, queueName string, e queue.Envelope, reason error) error {
	delay := min(max(time.Since(e.Time)/8, minForeignDelay), maxForeignDelay)
	if err := b.putCopy(ctx, queueName, e, delay/2+rand.N(delay/2)); err != nil {
		return fmt.Errorf("put it back for another process (%w): %w", reason, err)
	}
	if b.foreign.add(reason.Error()) {
		b.opt.Log.WarnContext(ctx, "parcel put back for another process", "queue", queueName, "message", e.ID, "error", reason.Error())
	}
	return ErrHeld
}

// putCopy puts a copy of a message, which needs what is stored for it.
func (b *Batches) putCopy(ctx context.Context, queueName string, e queue.Envelope, delay time.Duration) error {
	e, err := b.claims.Extend(ctx, e, time.Now().Add(queue.ClaimTime))
	if err != nil {
		return unusable(err)
	}
	text, err := e.Text()
	if err == nil {
		err = b.put(ctx, queueName, text, delay)
	}
	return err
}
