package store

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"

	"kennel/internal/table"
	"kennel/work/internal/format"
	"kennel/work/internal/model"
)

const (
	// ChunkBytes bounds a staged blob, which is written and read whole.
	ChunkBytes = 4 << 20

	LengthBytes = 4 // before each parcel of a chunk
)

// Staged returns the compressed bodies of the parcels of a batch, in their
// order. Its error is ErrCorrupt if a chunk is missing or damaged.
func (b Blobs) Staged(ctx context.Context, d format.Details) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		parcels := 0
		for n := range d.Chunks {
			chunk, err := b.chunk(ctx, d, n)
			for err == nil && len(chunk) > 0 {
				size := LengthBytes
				if len(chunk) >= LengthBytes {
					size += int(binary.BigEndian.Uint32(chunk))
				}
				if size > len(chunk) {
					err = fmt.Errorf("blob %d is cut: %w", n, model.ErrCorrupt)
					break
				}
				parcels++
				if !yield(chunk[LengthBytes:size], nil) {
					return
				}
				chunk = chunk[size:]
			}
			if err != nil {
				yield(nil, fmt.Errorf("read the staged parcels of batch %s: %w", d.ID, err))
				return
			}
		}
		if parcels != d.Parcels {
			yield(nil, fmt.Errorf("read the staged parcels of batch %s: found %d of %d: %w", d.ID, parcels, d.Parcels, model.ErrCorrupt))
		}
	}
}

func (b Blobs) chunk(ctx context.Context, d format.Details, n int) ([]byte, error) {
	chunk, err := b.Get(ctx, format.ChunkName(d.ID, n), ChunkBytes+format.MaxParcel)
	if errors.Is(err, table.ErrNotFound) || errors.Is(err, table.ErrLarge) {
		return nil, fmt.Errorf("%w: %w", model.ErrCorrupt, err)
	}
	return chunk, err
}

// Unstage deletes the staged blobs of a batch.
func (b Blobs) Unstage(ctx context.Context, d format.Details) error {
	for n := range d.Chunks {
		if err := b.Delete(ctx, format.ChunkName(d.ID, n)); err != nil {
			return fmt.Errorf("delete the staged parcels of batch %s: %w", d.ID, err)
		}
	}
	return nil
}
