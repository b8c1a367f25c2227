package azure

import (
	"context"
	"errors"
	"fmt"
	"time"

	"kennel/ids"
)

// StoredSequence is a sequence as it is stored.
type StoredSequence struct {
	Name      string
	Mark      ids.Mark
	UpdatedAt time.Time
}

// Read returns the mark of a sequence and when it was written. It fails with
// [ids.ErrNotFound] or [ids.ErrMissing] if there is none.
func (s *Sequences) Read(ctx context.Context, sequence string) (StoredSequence, error) {
	v, err := s.Load(ctx, sequence, "")
	if err == nil && v.Version == "" {
		err = fmt.Errorf("load sequence %.80q: %w", sequence, ids.ErrNotFound)
	}
	return StoredSequence{sequence, ids.MarkOf(v), v.StoredAt}, err
}

// List returns up to top sequences, and not more than maxListed, in the order
// of their names, and the continuation of the list, or "" at its end. It makes
// one request for the names, and one for each sequence. It leaves out blobs
// without the name of a sequence.
func (s *Sequences) List(ctx context.Context, top int, continuation string) ([]StoredSequence, string, error) {
	names, next, err := s.list(ctx, min(top, maxListed), continuation, ids.CheckName)
	if err != nil {
		return nil, "", fmt.Errorf("list sequences: %w", declinedBlob(err))
	}
	all, err := readEach(ctx, names, func(ctx context.Context, sequence string) (StoredSequence, error) {
		stored, err := s.Read(ctx, sequence)
		if errors.Is(err, ids.ErrMissing) || errors.Is(err, ids.ErrNotFound) {
			err = nil // deleted since
		}
		return stored, err
	})
	return all, next, err
}
