package azure

import (
	"context"
	"errors"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"golang.org/x/sync/errgroup"
)

// ErrContinuation reports a continuation that the service did not return.
var ErrContinuation = errors.New("the continuation of the list is invalid")

// list returns the names of up to top blobs in their order, without those that
// check rejects, and what continues the list, or "" at its end. It makes one
// request. A container that does not exist has no blobs.
func (s Values) list(ctx context.Context, top int, continuation string, check func(name string) error) (names []string, next string, err error) {
	maxResults := int32(top)
	options := &container.ListBlobsFlatOptions{MaxResults: &maxResults}
	if continuation != "" {
		options.Marker = &continuation
	}
	page, err := s.container.NewListBlobsFlatPager(options).NextPage(s.once.context(ctx))
	err = answered(ctx, err)
	switch {
	case hasCode(err, bloberror.ContainerNotFound):
		return nil, "", nil
	case continuation != "" && hasCode(err, bloberror.InvalidQueryParameterValue, bloberror.OutOfRangeInput):
		return nil, "", ErrContinuation
	case err != nil:
		return nil, "", err
	}
	for _, item := range page.Segment.BlobItems {
		if item.Name != nil && check(*item.Name) == nil {
			names = append(names, *item.Name)
		}
	}
	if page.NextMarker != nil {
		next = *page.NextMarker
	}
	return names, next, nil
}

// The limits of a list that reads each blob: maxListed are on a page, so that it
// ends in time also on a slow account, and maxReads are read at once.
const (
	maxListed = 250
	maxReads  = 8
)

// readEach returns the result of read for each name, or its first error.
func readEach[T any](ctx context.Context, names []string, read func(ctx context.Context, name string) (T, error)) ([]T, error) {
	all := make([]T, len(names))
	reads, ctx := errgroup.WithContext(ctx)
	reads.SetLimit(maxReads)
	for i, name := range names {
		reads.Go(func() (err error) {
			all[i], err = read(ctx, name)
			return err
		})
	}
	return all, reads.Wait()
}
