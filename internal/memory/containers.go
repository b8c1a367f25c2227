package memory

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"

	"kennel/queue"
)

// Container is a [queue.Container] in memory, safe for concurrent use.
// [Options.OnMisuse] is called for requests without a deadline.
type Container struct {
	wire
	blobs map[string][]byte // guarded by mu; contents are replaced, never modified
}

// NewContainer returns a container without blobs.
func NewContainer(o *Options) *Container {
	return &Container{wire: newWire(o), blobs: make(map[string][]byte)}
}

// Put implements [queue.Container].
func (b *Container) Put(ctx context.Context, name string, content []byte) error {
	content = bytes.Clone(content)
	_, err := blob(ctx, b, "Put", name, func() (struct{}, error) {
		b.blobs[name] = content
		return struct{}{}, nil
	})
	return err
}

// Get implements [queue.Container].
func (b *Container) Get(ctx context.Context, name string, max int) ([]byte, error) {
	content, err := blob(ctx, b, "Get", name, func() ([]byte, error) {
		content, ok := b.blobs[name]
		switch {
		case !ok:
			return nil, queue.ErrNotFound
		case len(content) > max:
			return nil, queue.ErrLarge
		}
		return content, nil
	})
	return bytes.Clone(content), err
}

// Delete implements [queue.Container].
func (b *Container) Delete(ctx context.Context, name string) error {
	_, err := blob(ctx, b, "Delete", name, func() (struct{}, error) {
		delete(b.blobs, name)
		return struct{}{}, nil
	})
	return err
}

// List implements [queue.Container].
func (b *Container) List(ctx context.Context, max int) ([]string, error) {
	names, err := send(ctx, &b.wire, "List", "", func() ([]string, error) {
		names := slices.Sorted(maps.Keys(b.blobs))
		return names[:min(max, len(names))], nil
	})
	if err != nil {
		return nil, fmt.Errorf("list blobs: %w", err)
	}
	return names, nil
}

// Names returns the names of all blobs in order. It is not a request and has no
// faults.
func (b *Container) Names() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Sorted(maps.Keys(b.blobs))
}

// Spoil replaces the content of a blob, as a defect does. It is not a request
// and has no faults.
func (b *Container) Spoil(name string, content []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.blobs[name] = content
}

// blob sends a request unless the name is invalid. Its error names the
// operation and the blob.
func blob[T any](ctx context.Context, b *Container, op, name string, do func() (T, error)) (answer T, err error) {
	if err = checkBlobName(name); err == nil {
		answer, err = send(ctx, &b.wire, op, name, do)
	}
	if err != nil {
		return answer, fmt.Errorf("%s, blob %.80q: %w", op, name, err)
	}
	return answer, nil
}
