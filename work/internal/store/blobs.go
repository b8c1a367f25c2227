package store

import (
	"context"

	"kennel/internal/table"
	"kennel/queue"
)

// Blobs is a container whose requests are counted, and repeated if they fail
// without an answer. The errors are those of package table.
type Blobs struct{ Container queue.Container }

func (b Blobs) Put(ctx context.Context, name string, content []byte) error {
	_, err := table.Retry(ctx, func(ctx context.Context) (struct{}, error) {
		Count(ctx, 1)
		return struct{}{}, b.Container.Put(ctx, name, content)
	})
	return err
}

func (b Blobs) Get(ctx context.Context, name string, max int) ([]byte, error) {
	return table.Retry(ctx, func(ctx context.Context) ([]byte, error) {
		Count(ctx, 1)
		return b.Container.Get(ctx, name, max)
	})
}

func (b Blobs) Delete(ctx context.Context, name string) error {
	_, err := table.RetryWrite(ctx, func(ctx context.Context) (struct{}, error) {
		Count(ctx, 1)
		return struct{}{}, b.Container.Delete(ctx, name)
	})
	return err
}

func (b Blobs) List(ctx context.Context, max int) ([]string, error) {
	return table.Retry(ctx, func(ctx context.Context) ([]string, error) {
		Count(ctx, 1)
		return b.Container.List(ctx, max)
	})
}
