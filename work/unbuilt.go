package work

import (
	"context"
	"errors"
)

// Batches is the batches of one app. It is safe for concurrent use.
type Batches struct{}

var errUnbuilt = errors.New("not built yet")

// New returns the batches in these stores. It makes no request.
func New(s Stores, processors map[string]Processor, o *Options) (*Batches, error) {
	return nil, errUnbuilt
}

func (b *Batches) Submit(ctx context.Context, s Submission) (batch Batch, created bool, err error) {
	return Batch{}, false, errUnbuilt
}
func (b *Batches) List(ctx context.Context, newestFirst bool, p Page) (List[Batch], error) {
	return List[Batch]{}, errUnbuilt
}
func (b *Batches) Sweep(ctx context.Context) (Swept, error)          { return Swept{}, errUnbuilt }
func (b *Batches) Get(ctx context.Context, id string) (Batch, error) { return Batch{}, errUnbuilt }
func (b *Batches) Results(ctx context.Context, id string, p Page) (List[Result], error) {
	return List[Result]{}, errUnbuilt
}
func (b *Batches) Report(ctx context.Context, id string, csv bool) ([]byte, error) {
	return nil, errUnbuilt
}
func (b *Batches) Process(ctx context.Context, queue string, m Message) error { return errUnbuilt }
func (b *Batches) Collect(ctx context.Context, m Message) error               { return errUnbuilt }

// Forget removes what is stored for a message that was deleted.
func (b *Batches) Forget(ctx context.Context, text string) error { return errUnbuilt }
