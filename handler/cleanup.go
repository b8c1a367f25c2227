package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"kennel/channels"
	"kennel/internal/customhandler"
)

// cleanUp carries out a message that deletes a channel. After nil the host
// deletes the message, after an error it delivers the message again. A message
// that can never be carried out goes to the dead-letter queue, and after its
// last delivery the host moves it there.
func (c channelFunctions) cleanUp(ctx context.Context, m customhandler.QueueMessage) (result ending, err error) {
	if c.off != nil {
		return result, fmt.Errorf("channels are not served: %w", c.off)
	}
	err = outlast(ctx, func(bool) error { return c.handle(ctx, m.Text) })
	if errors.Is(err, channels.ErrMessage) {
		result, err = deadLetter, c.letterbox().move(ctx, m, err)
	}
	c.letterbox().failed(m, err)
	return result, err
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

// letterbox returns where messages that can never be carried out go.
func (c channelFunctions) letterbox() letterbox {
	put := func(ctx context.Context, text string) error {
		_, err := c.dead.Put(ctx, text, 0)
		return err
	}
	return letterbox{c.letters, plainLetter, put, c.log}
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
