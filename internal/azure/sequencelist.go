package azure

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"golang.org/x/sync/errgroup"

	"kennel/ids"
)

// ErrContinuation reports a continuation that the service did not return.
var ErrContinuation = errors.New("the continuation of the list is invalid")

// StoredSequence is what storage holds for one sequence.
type StoredSequence struct {
	Name      string
	Mark      ids.Mark
	UpdatedAt time.Time
}

// Read returns the mark of a sequence and when it was written. Its errors are
// those of Load.
func (s *Sequences) Read(ctx context.Context, sequence string) (StoredSequence, error) {
	mark, modified, err := s.load(ctx, sequence)
	return StoredSequence{sequence, mark, modified}, err
}

// List returns up to top sequences in the order of their names, and what
// continues the list, or "" at its end. It makes one request for the names, and
// one for each sequence. It leaves out blobs without the name of a sequence.
func (s *Sequences) List(ctx context.Context, top int, continuation string) ([]StoredSequence, string, error) {
	maxResults := int32(top)
	options := &container.ListBlobsFlatOptions{MaxResults: &maxResults}
	if continuation != "" {
		options.Marker = &continuation
	}
	page, err := s.blobs.container.NewListBlobsFlatPager(options).NextPage(s.blobs.once.context(ctx))
	err = answered(ctx, err)
	switch {
	case hasCode(err, bloberror.ContainerNotFound):
		return nil, "", nil
	case continuation != "" && hasCode(err, bloberror.InvalidQueryParameterValue, bloberror.OutOfRangeInput):
		return nil, "", ErrContinuation
	case err != nil:
		return nil, "", fmt.Errorf("list sequences: %w", refusedSequence(err))
	}
	var all []StoredSequence
	for _, item := range page.Segment.BlobItems {
		if item.Name != nil && ids.CheckName(*item.Name) == nil {
			all = append(all, StoredSequence{Name: *item.Name})
		}
	}
	reads, ctx := errgroup.WithContext(ctx)
	reads.SetLimit(8)
	for i := range all {
		reads.Go(func() (err error) {
			all[i], err = s.Read(ctx, all[i].Name)
			if errors.Is(err, ids.ErrMissing) || errors.Is(err, ids.ErrNotFound) {
				return nil // deleted since
			}
			return err
		})
	}
	if err := reads.Wait(); err != nil {
		return nil, "", err
	}
	next := ""
	if page.NextMarker != nil {
		next = *page.NextMarker
	}
	return all, next, nil
}
