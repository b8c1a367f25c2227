package work

import (
	"context"
	"errors"
)

var errUnbuilt = errors.New("not built yet")

func (b *Batches) Submit(ctx context.Context, s Submission) (batch Batch, created bool, err error) {
	return Batch{}, false, errUnbuilt
}
func (b *Batches) List(ctx context.Context, newestFirst bool, p Page) (List[Batch], error) {
	return List[Batch]{}, errUnbuilt
}
func (b *Batches) Sweep(ctx context.Context) (Swept, error) { return Swept{}, errUnbuilt }
