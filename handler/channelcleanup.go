package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"kennel/channels"
	"kennel/internal/customhandler"
)

// poisonSuffix makes a queue's name that of its dead letters: the queue into
// which the host moves what has failed too often, too.
const poisonSuffix = "-poison"

// mostLetter is how long a dead letter can be: 64 KiB in base64.
const mostLetter = 48 << 10

// cleanUp carries out a message that deletes a channel. Done, it is deleted by
// the host, or by an error offered again; what can never be done is put aside
// with the reason.
func (c channelFunctions) cleanUp(ctx context.Context, m customhandler.QueueMessage) error {
	if c.off != nil {
		return fmt.Errorf("channels are not served: %w", c.off)
	}
	began := time.Now()
	deletion, err := c.channels.Handle(ctx, m.Text)
	switch {
	case errors.Is(err, channels.ErrMessage):
		return c.bury(ctx, m, err)
	case err != nil:
		return err
	case deletion.State == channels.Done:
		c.logFinished(ctx, began, deletion)
	default:
		c.log.InfoContext(ctx, "channel deletion goes on with another message", "channel", deletion.Channel, "incarnation", deletion.Incarnation, "blogs", deletion.Deleted)
	}
	return nil
}

// logFinished says that a channel is deleted, if that came to pass since work
// on it began. Who comes later, as most messages do, has nothing to tell.
func (c channelFunctions) logFinished(ctx context.Context, began time.Time, d channels.Deletion) {
	if d.State == channels.Done && !d.FinishedAt.Before(began) {
		c.log.InfoContext(ctx, "channel deleted", "channel", d.Channel, "incarnation", d.Incarnation, "blogs", d.Deleted)
	}
}

// deadLetter is a message that can never be carried out, whole, with the reason.
type deadLetter struct {
	Version int       `json:"v"`
	Queue   string    `json:"queue"` // where it came from
	Message string    `json:"message"`
	Reason  string    `json:"reason"`
	At      time.Time `json:"at"`
	Text    string    `json:"text"`
}

// bury puts a message among the dead letters and returns nil, whereupon the
// host deletes it from its queue; should that fail, it is there twice.
func (c channelFunctions) bury(ctx context.Context, m customhandler.QueueMessage, reason error) error {
	letter, err := json.Marshal(deadLetter{1, cleanupQueue, m.ID, reason.Error(), time.Now().UTC(), m.Text})
	if err != nil {
		return fmt.Errorf("write a dead letter: %w", err)
	}
	// What does not fit with its reason, or may have lost bytes that are no text
	// on its way here, is left to the host: it moves the very message, in the end.
	if len(letter) > mostLetter || strings.ContainsRune(m.Text, utf8.RuneError) {
		return reason
	}
	if _, err := c.dead.Put(ctx, string(letter), 0); err != nil {
		return fmt.Errorf("put aside a message that cannot be carried out (%v): %w", reason, err)
	}
	c.log.WarnContext(ctx, "message put among the dead letters", "queue", cleanupQueue+poisonSuffix, "message", m.ID, "reason", reason)
	return nil
}

// sweep returns the function that finds what fell between two requests. It
// goes on where the run before it ran out of time; a new process begins anew,
// which is harmless.
func (c channelFunctions) sweep() func(context.Context, customhandler.Tick) error {
	var mu sync.Mutex
	var next string // guarded by mu
	return func(ctx context.Context, _ customhandler.Tick) error {
		if c.off != nil {
			return nil // the start has said so
		}
		mu.Lock()
		from := next
		mu.Unlock()
		swept, err := c.channels.Sweep(ctx, from)
		mu.Lock()
		next = swept.Next
		mu.Unlock()
		log := c.log.DebugContext
		if swept.Restarted > 0 || swept.Fences > 0 || swept.Records > 0 || swept.Next != "" {
			log = c.log.InfoContext
		}
		log(ctx, "channels swept", "restarted", swept.Restarted, "fences", swept.Fences, "records", swept.Records, "all", swept.Next == "")
		return err
	}
}
