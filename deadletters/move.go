package deadletters

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"kennel/queue"
)

// Redrive puts letters back into the queue that they came from. It returns an
// error if it moved none, or if storage refused a request: letters that were
// moved stay moved. After any other error, or the end of ctx, More is true, and
// the next call meets the error.
//
// To continue a run, repeat the call with Result.Before while More is true and
// Moved is not 0. Letters that cannot be moved may be matched by each call.
func (l *Letters) Redrive(ctx context.Context, queueName string, s Selection) (Redriven, error) {
	r, n, err := l.run(ctx, queueName, s, (*call).redrive, func(c *call) error {
		names, err := answer(c.stop, func(ctx context.Context) ([]string, error) { return l.store.List(ctx, c.source) })
		if err == nil && !slices.Contains(names, c.source) {
			err = fmt.Errorf("queue %s: %w", c.source, ErrNoSource)
		}
		return err
	})
	if err != nil {
		err = fmt.Errorf("redrive the dead letters of %.80s: %w", queueName, err)
	}
	return Redriven{r, n}, err
}

// Delete deletes letters for good. Its errors, and how to continue a run, are
// like those of Redrive, but it does not need the queue that the letters came
// from.
func (l *Letters) Delete(ctx context.Context, queueName string, s Selection) (Deleted, error) {
	r, n, err := l.run(ctx, queueName, s, (*call).delete, func(*call) error { return nil })
	if err != nil {
		err = fmt.Errorf("delete the dead letters of %.80s: %w", queueName, err)
	}
	return Deleted{r, n}, err
}

// redrive puts the message of a letter and then deletes the letter.
func (c *call) redrive(x letter) error {
	text, err := c.original(c.stop, c.source, x)
	if err != nil {
		reason := reasonOf(err)
		if reason == bodyUnread && c.stop.Err() != nil {
			return errNotBegun
		}
		if reason == bodyUnread {
			c.opt.Log.WarnContext(c.end, "cannot read the body of a dead letter", "source", c.source, "letter", x.id, "error", err.Error())
		}
		return reason
	}
	unclear, err := request(c.stop, c.end, func(ctx context.Context) error {
		_, err := c.store.Put(ctx, c.source, text, 0)
		return err
	})
	if err == nil || unclear {
		c.opt.Announce(c.source)
	}
	if err == nil {
		c.remove(x)
		return nil
	}
	return c.failed(unclear, err)
}

// remove deletes a letter whose message was put: this letter, or a copy of it.
// If that fails, the letter is seen again, and is harmless.
func (c *call) remove(x letter) {
	err := c.delete(x)
	if err != nil && !errors.Is(err, takenAway) {
		c.opt.Log.WarnContext(c.end, "dead letter moved but not deleted; a second redrive is harmless", "queue", c.queue, "letter", x.id, "error", err.Error())
	}
}

// delete deletes a letter.
func (c *call) delete(x letter) error {
	unclear, err := request(c.end, c.end, func(ctx context.Context) error {
		return c.store.Delete(ctx, c.queue, x.Message)
	})
	switch {
	case err == nil:
		return nil
	case errors.Is(err, queue.ErrLeaseLost) && unclear:
		return nil // an earlier try deleted it: the lease outlives the call
	case errors.Is(err, queue.ErrLeaseLost):
		return takenAway
	}
	return c.failed(unclear, err)
}

// failed returns why a letter stays after a request for it failed. A refusal
// ends the call: it would meet all letters.
func (c *call) failed(unclear bool, err error) error {
	switch {
	case errors.Is(err, queue.ErrLimit):
		return unstorable
	case !unclear && !queue.IsAnswer(err):
		return errNotBegun
	case errors.Is(err, queue.ErrRefused):
		c.fail(err)
		if !unclear {
			return notAllowed
		}
	}
	if c.stop.Err() == nil { // else the call gave it up
		c.opt.Log.WarnContext(c.end, "request for a dead letter failed", "queue", c.queue, "error", err.Error())
	}
	return unconfirmed
}
