package base

import (
	"context"
	"fmt"
	"time"

	"kennel/internal/trace"
	"kennel/queue"
	"kennel/work/internal/format"
	"kennel/work/internal/model"
)

// ParcelOf returns the parcel of a message.
func (b *Base) ParcelOf(ctx context.Context, text string) (queue.Envelope, format.Parcel, error) {
	e, packed, err := b.Claims.Unpack(ctx, text)
	if err != nil {
		return e, format.Parcel{}, model.Unusable(err)
	}
	p, err := format.UnpackParcel(&b.Coders, packed)
	if err == nil && p.Message() != e.ID {
		err = fmt.Errorf("the message %.80q has parcel %s: %w", e.ID, p.Message(), model.ErrMessage)
	}
	return e, p, err
}

// PutParcel puts a parcel into a queue.
func (b *Base) PutParcel(ctx context.Context, queueName string, p format.Parcel, delay time.Duration) error {
	return b.PutPacked(ctx, queueName, p, p.Pack(&b.Coders, p.Lines()), delay)
}

// PutPacked is PutParcel for a parcel that is packed.
func (b *Base) PutPacked(ctx context.Context, queueName string, p format.Parcel, packed []byte, delay time.Duration) error {
	text, err := b.Claims.Pack(ctx, queue.Envelope{ID: p.Message(), Time: p.SubmittedAt, TraceParent: trace.Parent(ctx)}, packed)
	if err == nil {
		err = b.Put(ctx, queueName, text, delay)
	}
	if err != nil {
		return fmt.Errorf("put parcel %s: %w", p.Message(), err)
	}
	return nil
}

// PutCopy puts a copy of a message, which needs the data stored for it.
func (b *Base) PutCopy(ctx context.Context, queueName string, e queue.Envelope, delay time.Duration) error {
	e, err := b.Claims.Extend(ctx, e, time.Now().Add(queue.ClaimTime))
	if err != nil {
		return model.Unusable(err)
	}
	text, err := e.Text()
	if err == nil {
		err = b.Put(ctx, queueName, text, delay)
	}
	return err
}

// Forget removes the data stored for a message that was deleted, after Process
// returned nil for it.
func (b *Base) Forget(ctx context.Context, text string) error {
	e, err := queue.Parse(text)
	if err != nil {
		return fmt.Errorf("forget a message: %w", model.Unusable(err))
	}
	return b.Claims.Remove(ctx, e)
}

// OfMessage returns the operations that a message costs beside what its
// receiver does: a share of the request that received it, the request that
// deletes it, and those of the Functions host.
func (b *Base) OfMessage(m model.Message) float64 { return m.Share + 1 + b.Options.HostShare }
