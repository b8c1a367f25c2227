package worker

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"kennel/internal/observe"
	"kennel/queue"
)

// HostMessages reads the messages of the cleanup queue in a worker, and writes
// its dead letters, in the format that they have under a Functions host: base64
// of text. Its messages cannot record attempts, so each delivery counts as one.
type HostMessages struct{ Letters *observe.LetterCount }

// Decode implements [queue.Codec].
func (HostMessages) Decode(_ context.Context, m queue.Message) (queue.Content[string], error) {
	text, err := TextOf(m.Body)
	if err != nil {
		return queue.Content[string]{}, AsUnreadable(err)
	}
	return queue.Content[string]{Body: text}, nil
}

// TraceParent implements [queue.Tracer].
func (HostMessages) TraceParent(m queue.Message) string {
	text, _ := TextOf(m.Body) // Decode returns the error
	return traceParentOf(text)
}

// Attempts implements [queue.Codec].
func (HostMessages) Attempts(m queue.Message) (failed int64, next string) {
	return m.DequeueCount - 1, m.Body
}

// DeadLetter implements [queue.Codec]. A message that does not fit with its
// reason stays as it is.
func (h HostMessages) DeadLetter(ctx context.Context, d queue.DeadLetter) (string, error) {
	h.Letters.Added(errors.New(d.Reason), observe.MoveTimeout)
	whole := d.Text
	text, err := TextOf(whole)
	if err != nil {
		return d.Encode(), nil // not in base64, because the message was not
	}
	d.Text = text
	letter, err := PlainLetter(ctx, d)
	if err != nil {
		return whole, nil
	}
	return InBase64(letter), nil
}

// InBase64 encodes a text as the Functions host expects messages.
func InBase64(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }

// TextOf decodes the body of a message like the Functions host, which ignores
// white space. The host would replace bytes that are not text.
func TextOf(body string) (string, error) {
	text, err := base64.StdEncoding.DecodeString(body)
	if err != nil { // it may have spaces
		text, err = base64.StdEncoding.DecodeString(strings.Join(strings.Fields(body), ""))
	}
	if err != nil {
		return "", fmt.Errorf("decode base64: %w", err)
	}
	if !utf8.Valid(text) {
		return "", errors.New("the message is not UTF-8")
	}
	return string(text), nil
}

type unreadable struct{ error }

// AsUnreadable returns an error after which the message is not delivered again.
func AsUnreadable(err error) error { return unreadable{err} }

func (unreadable) Is(target error) bool { return target == queue.ErrMessage }

func (u unreadable) Unwrap() error { return u.error }
