package localhost

import (
	"context"
	"encoding/base64"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"kennel/internal/customhandler"
	"kennel/internal/names"
	"kennel/queue"
)

const (
	lease     = 10 * time.Minute // visibility of a received message
	renewal   = lease / 2        // interval of renewals while its function runs
	minPause  = time.Minute      // minimum time between two renewals, after errors
	deadline  = time.Minute      // of one request to the store
	firstWait = 100 * time.Millisecond
)

// QueueStore is the queue service of the queue triggers. Each request has a
// deadline and is not repeated: after an error the message becomes visible
// again when its visibility timeout ends. A write that is applied but reported
// as failed is harmless.
type QueueStore interface {
	queue.Receiver
	queue.Putter
}

// A queueListener calls one function for the messages of one queue, by the
// rules of the host's queue trigger.
type queueListener struct {
	queue    string
	store    QueueStore
	settings queueSettings
	invoke   func(context.Context, customhandler.QueueMessage) error
	out      *console
	log      *slog.Logger
}

// run polls the queue until ctx ends, then waits for the running functions.
// They run under work, so the caller decides how long they may take.
func (l *queueListener) run(ctx, work context.Context) {
	var running sync.WaitGroup
	defer running.Wait()

	finished := make(chan struct{}, l.settings.batchSize+l.settings.newBatchThreshold)
	active, wait, failing := 0, pollBackoff{cap: l.settings.maxPollingDelay}, false
	for ctx.Err() == nil {
		if active > l.settings.newBatchThreshold {
			select {
			case <-finished:
				active--
			case <-ctx.Done():
			}
			continue
		}

		// Not ctx: a cancelled receive may have leased messages, which then
		// stay invisible for ten minutes.
		request, cancel := context.WithTimeout(work, deadline)
		messages, err := l.store.Receive(request, l.queue, l.settings.batchSize, lease)
		cancel()
		if err != nil && !failing && ctx.Err() == nil {
			l.log.Warn("cannot read queue; retrying", "queue", l.queue, "error", err)
		}
		failing = err != nil
		for _, m := range messages {
			active++
			running.Go(func() {
				l.process(work, m)
				finished <- struct{}{}
			})
		}
		if len(messages) > 0 {
			wait.reset()
			continue
		}

		pause := time.NewTimer(wait.next())
		for waiting := true; waiting; {
			select {
			case <-finished:
				active--
				continue
			case <-pause.C:
			case <-ctx.Done():
			}
			waiting = false
		}
		pause.Stop()
	}
}

// pollBackoff spaces the polls of an empty queue.
type pollBackoff struct {
	cap     time.Duration
	current time.Duration
	empties int // in a row; one more after the queue has had messages
}

func (b *pollBackoff) reset() { b.current, b.empties = 0, 1 }

// next returns the pause after an empty poll: 100 ms after the first one, then
// 100 ms plus about 100, 200, 400 … ms, up to the cap.
func (b *pollBackoff) next() time.Duration {
	if b.current >= b.cap {
		return b.cap
	}
	b.current = firstWait
	if b.empties > 0 {
		spread := 0.8 + 0.4*rand.Float64()
		b.current += time.Duration(spread * float64(firstWait<<min(b.empties-1, 20)))
	}
	b.empties++
	b.current = min(b.current, b.cap)
	return b.current
}

// process calls the function for one message and settles the message.
func (l *queueListener) process(ctx context.Context, m queue.Message) {
	poison, hasPoison := poisonQueue(l.queue)
	if hasPoison && m.DequeueCount > l.settings.maxDequeueCount {
		// The last attempt failed, and the host ended before it could move the
		// message.
		l.moveToPoison(ctx, poison, m)
		return
	}
	text, err := l.settings.decode(m.Body)
	if err != nil {
		l.out.say("Message decoding has failed! Check MessageEncoding settings. Message %s of queue '%s' is not base64; the handler never sees it.", m.ID, l.queue)
		if hasPoison {
			l.moveToPoison(ctx, poison, m)
		}
		return
	}

	renewed := m
	err = func() error {
		running, stop := context.WithCancel(ctx)
		var renewing sync.WaitGroup
		renewing.Go(func() { renewed = l.keep(running, m) })
		// The code below needs the newest receipt.
		defer renewing.Wait()
		defer stop()
		return l.invoke(ctx, customhandler.QueueMessage{
			Text: text, ID: m.ID, PopReceipt: m.Receipt, DequeueCount: m.DequeueCount,
			Inserted: m.Inserted, Expires: m.Expires, NextVisible: m.NextVisible,
		})
	}()
	m = renewed

	switch {
	case err == nil:
		if err := l.delete(ctx, m); err != nil {
			l.log.Warn("message was processed but not deleted; it will be delivered again", "queue", l.queue, "message", m.ID, "error", err)
		}
	case ctx.Err() != nil:
		// The host stops: as after a crash, the message becomes visible again
		// when its lease ends.
	case !hasPoison:
		// A poison queue has no poison queue. The message stays hidden, so that
		// it does not fail in a fast loop.
	case m.DequeueCount >= l.settings.maxDequeueCount:
		l.moveToPoison(ctx, poison, m)
	default:
		if _, err := l.hide(ctx, m, l.settings.visibility); err != nil {
			l.log.Warn("message failed and could not be made visible; it stays hidden for up to ten minutes", "queue", l.queue, "message", m.ID, "error", err)
		}
	}
}

// keep renews the lease of a message until ctx ends and returns the message
// with its newest receipt. After a failed renewal it retries sooner.
func (l *queueListener) keep(ctx context.Context, m queue.Message) queue.Message {
	pause := renewal
	timer := time.NewTimer(pause)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return m
		case <-timer.C:
		}
		// Finish a renewal even if the function ends in the meantime, because
		// it changes the receipt.
		renewed, err := l.hide(context.WithoutCancel(ctx), m, lease)
		if err != nil {
			l.log.Warn("message lease could not be renewed; it may be delivered twice", "queue", l.queue, "message", m.ID, "error", err)
			pause = max(pause/2, minPause)
		} else {
			m, pause = renewed, renewal
		}
		timer.Reset(pause)
	}
}

// moveToPoison copies a message, then deletes it, so that a crash in between
// leaves two copies and not none.
func (l *queueListener) moveToPoison(ctx context.Context, poison string, m queue.Message) {
	request, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	if _, err := l.store.Put(request, poison, m.Body, 0); err != nil {
		l.log.Warn("message could not be copied to its poison queue; it will be delivered again", "queue", l.queue, "message", m.ID, "error", err)
		return
	}
	l.out.say("Message %s of queue '%s' has been moved to '%s' (delivery %d, limit %d)", m.ID, l.queue, poison, m.DequeueCount, l.settings.maxDequeueCount)
	if err := l.delete(ctx, m); err != nil {
		l.log.Warn("message was copied to its poison queue but not deleted; it will be delivered again", "queue", l.queue, "message", m.ID, "error", err)
	}
}

// hide sets how long a received message stays hidden; zero makes it visible at
// once. It returns the message with its new receipt.
func (l *queueListener) hide(ctx context.Context, m queue.Message, visibility time.Duration) (queue.Message, error) {
	request, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	return l.store.Update(request, l.queue, m, visibility)
}

func (l *queueListener) delete(ctx context.Context, m queue.Message) error {
	request, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	return l.store.Delete(request, l.queue, m)
}

// poisonQueue returns the name of the queue for messages that cannot be
// processed. A poison queue has none, and neither does a queue whose poison
// queue would have a name that is too long.
func poisonQueue(queue string) (string, bool) {
	const suffix, maxName = names.PoisonSuffix, 63
	name := queue + suffix
	return name, !strings.HasSuffix(queue, suffix) && len(name) <= maxName
}

// decode decodes a stored body to the text that was sent. As in .NET, white
// space in base64 is ignored.
func (s queueSettings) decode(body string) (string, error) {
	if s.plainText {
		return body, nil
	}
	text, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(body), ""))
	if err != nil {
		return "", fmt.Errorf("decode message: %w", err)
	}
	return string(text), nil
}
