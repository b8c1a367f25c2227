package parts

import (
	"context"
	"errors"

	"kennel/internal/observe"
	"kennel/internal/worker"
	"kennel/queue"
	"kennel/work"
)

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
	letters map[string]*observe.LetterCount // by queue
}

// Decode implements [queue.Codec]. What is stored for a message is read by its
// handler.
func (w workMessages) Decode(_ context.Context, m queue.Message) (queue.Content[*workMessage], error) {
	text, err := worker.TextOf(m.Body)
	if err != nil {
		return queue.Content[*workMessage]{}, worker.AsUnreadable(err)
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
func (workMessages) TraceParent(m queue.Message) string { return worker.HostMessages{}.TraceParent(m) }

// Attempts implements [queue.Codec].
func (w workMessages) Attempts(m queue.Message) (failed int64, next string) {
	text, err := worker.TextOf(m.Body)
	if err != nil {
		return 0, m.Body // Decode returns the error
	}
	m.Body = text
	failed, next = w.packed.Attempts(m)
	return failed, worker.InBase64(next)
}

// DeadLetter implements [queue.Codec].
func (w workMessages) DeadLetter(ctx context.Context, d queue.DeadLetter) (string, error) {
	w.letters[d.Queue].Added(errors.New(d.Reason), observe.MoveTimeout)
	text, err := worker.TextOf(d.Text)
	if err != nil {
		return d.Encode(), nil // not in base64, because the message was not
	}
	d.Text = text
	letter, err := w.packed.DeadLetter(ctx, d)
	return worker.InBase64(letter), err
}
