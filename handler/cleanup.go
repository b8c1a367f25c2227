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
	"kennel/queue"
)

// maxLetter is the longest dead letter, in bytes: 64 KiB in base64.
const maxLetter = 48 << 10

// cleanUp carries out a message that deletes a channel. After nil the host
// deletes the message, after an error it delivers the message again. A message
// that can never be carried out goes to the dead-letter queue, and after its
// last delivery the host moves it there.
func (c channelFunctions) cleanUp(ctx context.Context, m customhandler.QueueMessage) error {
	if c.off != nil {
		return fmt.Errorf("channels are not served: %w", c.off)
	}
	err := c.handle(ctx, m.Text)
	if errors.Is(err, channels.ErrMessage) {
		err = c.deadLetter(ctx, m, err)
	}
	if err != nil && m.DequeueCount >= maxDeliveries {
		c.letters.added(err, moveTimeout)
	}
	return err
}

// handle carries out the text of a message, and logs what it did.
func (c channelFunctions) handle(ctx context.Context, text string) error {
	began := time.Now()
	deletion, err := c.channels.Handle(ctx, text)
	switch {
	case err != nil:
		return err
	case deletion.State == channels.Done:
		c.logFinished(ctx, began, deletion)
	default:
		c.log.InfoContext(ctx, "channel deletion goes on with another message", "channel", deletion.Channel, "incarnation", deletion.Incarnation, "blogs", deletion.Deleted)
	}
	return nil
}

// logFinished logs a deletion that completed during this invocation. Most
// messages arrive after that and log nothing.
func (c channelFunctions) logFinished(ctx context.Context, began time.Time, d channels.Deletion) {
	if d.State == channels.Done && !d.FinishedAt.Before(began) {
		c.log.InfoContext(ctx, "channel deleted", "channel", d.Channel, "incarnation", d.Incarnation, "blogs", d.Deleted)
	}
}

// letter is a message in the dead-letter queue, whole, with the reason.
type letter struct {
	Version int       `json:"v"`
	Queue   string    `json:"queue"` // where it came from
	Message string    `json:"message"`
	Reason  string    `json:"reason"`
	At      time.Time `json:"at"`
	Text    string    `json:"text"`
}

// newLetter returns the text of a dead letter of the cleanup queue, or false if
// the message does not fit there with its reason.
func newLetter(id, text, reason string) (letterText string, fits bool) {
	body, err := json.Marshal(letter{1, cleanupQueue, id, reason, time.Now().UTC(), text})
	return string(body), err == nil && len(body) <= maxLetter
}

// deadLetter moves a message to the dead-letter queue and returns nil, so that
// the host deletes it from its queue. If that fails, the message is in both.
func (c channelFunctions) deadLetter(ctx context.Context, m customhandler.QueueMessage, reason error) error {
	text, fits := newLetter(m.ID, m.Text, reason.Error())
	// The host moves a message that does not fit with its reason, or that may
	// have lost bytes on its way here because they are not text: it moves the
	// original, after the last delivery.
	if !fits || strings.ContainsRune(m.Text, utf8.RuneError) {
		return reason
	}
	if _, err := c.dead.Put(ctx, text, 0); err != nil {
		return fmt.Errorf("move a message to the dead-letter queue (%v): %w", reason, err)
	}
	c.letters.added(reason, 0)
	c.log.WarnContext(ctx, "message put among the dead letters", "queue", cleanupQueue+queue.PoisonSuffix, "message", m.ID, "reason", reason)
	return nil
}

// sweep returns the function that finds work which a crash between two requests
// left. It continues where the previous run ran out of time; a new process
// starts over, which is harmless.
func (c channelFunctions) sweep() func(context.Context, customhandler.Tick) error {
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
