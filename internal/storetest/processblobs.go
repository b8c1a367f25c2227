package storetest

import (
	"context"

	"kennel/queue"
)

// Container wraps a container for the process.
func (p *Process) Container(blobs queue.Container) queue.Container {
	return processContainer{p, blobs}
}

type processContainer struct {
	p     *Process
	blobs queue.Container
}

func (c processContainer) Put(ctx context.Context, name string, content []byte) error {
	_, err := request(c.p, func() (struct{}, error) { return struct{}{}, c.blobs.Put(ctx, name, content) })
	return err
}

func (c processContainer) Get(ctx context.Context, name string, max int) ([]byte, error) {
	return request(c.p, func() ([]byte, error) { return c.blobs.Get(ctx, name, max) })
}

func (c processContainer) Delete(ctx context.Context, name string) error {
	_, err := request(c.p, func() (struct{}, error) { return struct{}{}, c.blobs.Delete(ctx, name) })
	return err
}

func (c processContainer) List(ctx context.Context, max int) ([]string, error) {
	return request(c.p, func() ([]string, error) { return c.blobs.List(ctx, max) })
}
