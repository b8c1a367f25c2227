package main

import (
	"context"
	"sync/atomic"
	"time"

	"kennel/channels"
)

// A call that fails has changed nothing if it has sent nothing that writes.
// These note what a call has sent, so that its caller can be told.

type writesKey struct{}

// noteWrites returns a context that notes the writes sent under it.
func noteWrites(ctx context.Context) context.Context {
	return context.WithValue(ctx, writesKey{}, new(atomic.Bool))
}

// mayHaveWritten says whether a write was sent, be it answered or not; true
// where nobody has noted them.
func mayHaveWritten(ctx context.Context) bool {
	noted, ok := ctx.Value(writesKey{}).(*atomic.Bool)
	return !ok || noted.Load()
}

func noteWrite(ctx context.Context) {
	if noted, ok := ctx.Value(writesKey{}).(*atomic.Bool); ok {
		noted.Store(true)
	}
}

type notedTable struct{ channels.Table }

func (t notedTable) Submit(ctx context.Context, writes []channels.Write) ([]string, error) {
	noteWrite(ctx)
	return t.Table.Submit(ctx, writes)
}

type notedOutbox struct{ channels.Outbox }

func (o notedOutbox) Put(ctx context.Context, text string, delay time.Duration) (string, error) {
	noteWrite(ctx)
	return o.Outbox.Put(ctx, text, delay)
}
