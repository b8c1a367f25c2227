package queue

import (
	"context"
	"fmt"
)

// Codec reads messages for a Listener. All methods are called concurrently.
type Codec[T any] interface {
	// Decode returns the content of a message. An error that wraps ErrMessage
	// makes it a dead letter. So does one that wraps ErrClaimGone, unless this
	// listener has recently done another copy, with the same Content.ID: then the
	// message is deleted. Any other error is a failed attempt.
	Decode(ctx context.Context, m Message) (Content[T], error)

	// Attempts returns how many attempts failed before this delivery of m, and
	// the body to store if this one fails as well.
	Attempts(m Message) (failed int64, next string)

	// DeadLetter returns the body of a dead letter.
	DeadLetter(ctx context.Context, d DeadLetter) (body string, err error)
}

// Sizer is a [Codec] that reports the length of a body before it decodes it. The
// listener decodes a long body when maxMemory leaves room for it.
type Sizer interface {
	// Size returns about how many bytes a message takes while it is decoded and
	// worked on.
	Size(m Message) int
}

// Tracer is a [Codec] whose messages have the trace of their sender.
type Tracer interface {
	// TraceParent returns the W3C trace context of a message; "" if it has none.
	TraceParent(m Message) string
}

// Returner is a [Codec] that returns the body with which a message is put back
// whose work was not begun, so that its delivery does not count.
type Returner interface {
	Returned(m Message) (body string)
}

// Content is the content of a message, as a Codec reads it.
type Content[T any] struct {
	Body T

	// ID is the same for all copies of a message; "" if it has no other
	// identity than Message.ID, which a message that is put twice does not
	// keep.
	ID string

	// Done is called when the message was deleted, to remove what belongs to
	// it; nil does nothing.
	Done func(ctx context.Context) error
}

// Text is the Codec of messages whose body is the content. The body cannot
// record attempts, so that each delivery counts as one, even if a stop or a kill
// interrupted it.
type Text struct{}

// Decode implements [Codec].
func (Text) Decode(_ context.Context, m Message) (Content[string], error) {
	return Content[string]{Body: m.Body}, nil
}

// Attempts implements [Codec].
func (Text) Attempts(m Message) (failed int64, next string) { return m.DequeueCount - 1, m.Body }

// DeadLetter implements [Codec].
func (Text) DeadLetter(_ context.Context, d DeadLetter) (string, error) { return d.Encode(), nil }

// guarded is a codec whose panics do not end the process. Those of Decode are
// caught with those of the handler.
type guarded[T any] struct{ Codec[T] }

func (g guarded[T]) Attempts(m Message) (failed int64, next string) {
	defer func() {
		if recover() != nil {
			failed, next = m.DequeueCount-1, m.Body
		}
	}()
	return g.Codec.Attempts(m)
}

func (g guarded[T]) DeadLetter(ctx context.Context, d DeadLetter) (body string, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("the codec panicked: %v", r)
		}
	}()
	return g.Codec.DeadLetter(ctx, d)
}
