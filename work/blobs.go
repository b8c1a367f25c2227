package work

import (
	"context"

	"kennel/internal/table"
	"kennel/queue"
)

// blobs is a container whose requests are counted, and repeated if they fail
// without an answer. The errors are those of package table.
type blobs struct{ container queue.Container }

func (b blobs) put(ctx context.Context, name string, content []byte) error {
	_, err := table.Retry(ctx, func(ctx context.Context) (struct{}, error) {
		count(ctx, 1)
		return struct{}{}, b.container.Put(ctx, name, content)
	})
	return err
}

func (b blobs) get(ctx context.Context, name string, max int) ([]byte, error) {
	return table.Retry(ctx, func(ctx context.Context) ([]byte, error) {
		count(ctx, 1)
		return b.container.Get(ctx, name, max)
	})
}

func (b blobs) delete(ctx context.Context, name string) error {
	_, err := table.RetryWrite(ctx, func(ctx context.Context) (struct{}, error) {
		count(ctx, 1)
		return struct{}{}, b.container.Delete(ctx, name)
	})
	return err
}

func (b blobs) list(ctx context.Context, max int) ([]string, error) {
	return table.Retry(ctx, func(ctx context.Context) ([]string, error) {
		count(ctx, 1)
		return b.container.List(ctx, max)
	})
}
