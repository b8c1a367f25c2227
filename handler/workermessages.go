package main

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"kennel/channels"
	"kennel/queue"
	"kennel/work"
)

// hostMessages reads the messages of the cleanup queue in a worker, and writes
// its dead letters, in the format that they have under a Functions host: base64
// of text. Its messages cannot record attempts, so each delivery counts as one.
type hostMessages struct{ letters *letterCount }

// Decode implements [queue.Codec].
func (hostMessages) Decode(_ context.Context, m queue.Message) (queue.Content[string], error) {
	text, err := textOf(m.Body)
	if err != nil {
		return queue.Content[string]{}, unreadable{err}
	}
	return queue.Content[string]{Body: text}, nil
}

// TraceParent implements [queue.Tracer].
func (hostMessages) TraceParent(m queue.Message) string {
	text, _ := textOf(m.Body) // Decode returns the error
	return traceParentOf(text)
}

// Attempts implements [queue.Codec].
func (hostMessages) Attempts(m queue.Message) (failed int64, next string) {
	return m.DequeueCount - 1, m.Body
}

// DeadLetter implements [queue.Codec]. A message that does not fit with its
// reason stays as it is.
func (h hostMessages) DeadLetter(ctx context.Context, d queue.DeadLetter) (string, error) {
	h.letters.added(errors.New(d.Reason), moveTimeout)
	whole := d.Text
	text, err := textOf(whole)
	if err != nil {
		return d.Encode(), nil // not in base64, because the message was not
	}
	d.Text = text
	letter, err := plainLetter(ctx, d)
	if err != nil {
		return whole, nil
	}
	return inBase64(letter), nil
}

// inBase64 encodes a text as the Functions host expects messages.
func inBase64(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }

// workMessage is a message of batches in a worker.
type workMessage struct {
	text string
	held bool // a copy was put back
}

// workMessages reads the messages of batches in a worker: base64, as under a
// Functions host, of the envelopes that queue.Packed reads.
type workMessages struct {
	packed  queue.Packed
	batches *work.Batches
	letters map[string]*letterCount // by queue
}

// Decode implements [queue.Codec]. What is stored for a message is read by its
// handler.
func (w workMessages) Decode(_ context.Context, m queue.Message) (queue.Content[*workMessage], error) {
	text, err := textOf(m.Body)
	if err != nil {
		return queue.Content[*workMessage]{}, unreadable{err}
	}
	body := &workMessage{text: text}
	return queue.Content[*workMessage]{Body: body, Done: func(ctx context.Context) error {
		if body.held {
			return nil // the copy needs what is stored for the message
		}
		return w.batches.Forget(ctx, text)
	}}, nil
}

// TraceParent implements [queue.Tracer].
func (workMessages) TraceParent(m queue.Message) string { return hostMessages{}.TraceParent(m) }

// Attempts implements [queue.Codec].
func (w workMessages) Attempts(m queue.Message) (failed int64, next string) {
	text, err := textOf(m.Body)
	if err != nil {
		return 0, m.Body // Decode returns the error
	}
	m.Body = text
	failed, next = w.packed.Attempts(m)
	return failed, inBase64(next)
}

// DeadLetter implements [queue.Codec].
func (w workMessages) DeadLetter(ctx context.Context, d queue.DeadLetter) (string, error) {
	w.letters[d.Queue].added(errors.New(d.Reason), moveTimeout)
	text, err := textOf(d.Text)
	if err != nil {
		return d.Encode(), nil // not in base64, because the message was not
	}
	d.Text = text
	letter, err := w.packed.DeadLetter(ctx, d)
	return inBase64(letter), err
}

// textOf decodes the body of a message like the Functions host, which ignores
// white space. The host would replace bytes that are not text.
func textOf(body string) (string, error) {
	text, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(body), ""))
	if err != nil {
		return "", fmt.Errorf("decode base64: %w", err)
	}
	if !utf8.Valid(text) {
		return "", errors.New("the message is not UTF-8")
	}
	return string(text), nil
}

// unreadable is an error after which the message is not delivered again.
type unreadable struct{ error }

func (unreadable) Is(target error) bool { return target == queue.ErrMessage }
func (u unreadable) Unwrap() error      { return u.error }

// process does the work of a message in a worker.
func (b *batchFunctions) process(ctx context.Context, batches *work.Batches, d queue.Delivery[*workMessage]) error {
	m := work.Message{Text: d.Body.text, Redelivered: d.Redelivered, Share: d.Share}
	var err error
	if d.Queue == work.ResultsQueue {
		err = batches.Collect(ctx, m)
	} else {
		err = batches.Process(ctx, d.Queue, m)
	}
	switch {
	case errors.Is(err, work.ErrHeld):
		d.Body.held = true
		return nil
	case errors.Is(err, work.ErrMessage):
		return unreadable{err}
	}
	return noAttempt(err)
}

// process carries out a message in a worker.
func (c channelFunctions) process(ctx context.Context, d queue.Delivery[string]) error {
	err := c.handle(ctx, d.Body)
	if errors.Is(err, channels.ErrMessage) {
		return unreadable{err}
	}
	return noAttempt(err)
}
