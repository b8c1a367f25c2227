package work

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"

	"kennel/internal/table"
)

const (
	// chunkBytes bounds a staged blob, which is written and read whole.
	chunkBytes = 4 << 20

	// packBytes is from how many bytes of items a parcel takes no more of them.
	// Few parcels are that long: they would have to shrink to an eighth.
	packBytes = 8 * ParcelBytes

	lengthBytes = 4 // before each parcel of a chunk
)

// packer packs the items of a batch into parcels and stages them in chunks: a
// chunk has the compressed bodies of parcels in their order, each after its
// length. The packer holds one parcel and one chunk in memory.
type packer struct {
	b     *Batches
	d     *details // its Items, Parcels and Chunks count what was packed
	lines []byte   // the items of the next parcel, a line each
	ends  []int    // of the items in lines
	chunk []byte

	each    int // items of a parcel now
	largest int // items of a parcel from largeFrom items on
}

// add adds an item.
func (p *packer) add(ctx context.Context, item Item) error {
	p.lines = append(append(p.lines, item.Data...), '\n')
	p.ends = append(p.ends, len(p.lines))
	p.d.Items++
	if p.d.Items == p.b.largeFrom && p.largest > p.each && (p.b.opt.ReadLarge == nil || p.b.opt.ReadLarge(ctx)) {
		p.each = p.largest
	}
	for len(p.ends) >= p.each || len(p.lines) >= packBytes {
		if err := p.pack(ctx); err != nil {
			return err
		}
	}
	return nil
}

// close packs and stages what is left.
func (p *packer) close(ctx context.Context) error {
	for len(p.ends) > 0 {
		if err := p.pack(ctx); err != nil {
			return err
		}
	}
	return p.stage(ctx)
}

// pack makes a parcel of as many items as fit, at least one.
func (p *packer) pack(ctx context.Context) error {
	n := len(p.ends)
	packed := p.first(n)
	if len(packed) > ParcelBytes {
		n, packed = p.fit(n)
	}
	if len(p.chunk) > 0 && len(p.chunk)+lengthBytes+len(packed) > chunkBytes {
		if err := p.stage(ctx); err != nil {
			return err
		}
	}
	p.chunk = append(binary.BigEndian.AppendUint32(p.chunk, uint32(len(packed))), packed...)
	if p.d.Parcels++; p.d.Parcels > maxParcels {
		return fmt.Errorf("more than %d parcels: %w", maxParcels, ErrTooLarge)
	}
	size := p.ends[n-1]
	p.lines = append(p.lines[:0], p.lines[size:]...)
	p.ends = append(p.ends[:0], p.ends[n:]...)
	for i := range p.ends {
		p.ends[i] -= size
	}
	return nil
}

// fit returns how many items fit into the next parcel, of the first n, which do
// not. It is content with a parcel that is nearly full.
func (p *packer) fit(n int) (fits int, packed []byte) {
	fits, packed = 1, p.first(1)
	for n-fits > 1 && len(packed) < ParcelBytes*3/4 {
		half := (fits + n) / 2
		if more := p.first(half); len(more) > ParcelBytes {
			n = half
		} else {
			fits, packed = half, more
		}
	}
	return fits, packed
}

// first returns the compressed body of the next parcel with n items.
func (p *packer) first(n int) []byte {
	next := p.d.parcel(p.d.Parcels)
	return next.pack(&p.b.coders, p.lines[:p.ends[n-1]])
}

// stage writes the chunk.
func (p *packer) stage(ctx context.Context) error {
	if len(p.chunk) == 0 {
		return nil
	}
	p.d.Chunks++ // also if the put fails: the blob may exist
	if err := p.b.staging.put(ctx, chunkName(p.d.ID, p.d.Chunks-1), p.chunk); err != nil {
		return fmt.Errorf("stage parcels: %w", err)
	}
	p.chunk = p.chunk[:0]
	return nil
}

// staged returns the compressed bodies of the parcels of a batch, in their
// order. Its error is ErrCorrupt if a chunk is missing or damaged.
func (b *Batches) staged(ctx context.Context, d details) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		parcels := 0
		for n := range d.Chunks {
			chunk, err := b.stagedChunk(ctx, d, n)
			for err == nil && len(chunk) > 0 {
				size := lengthBytes
				if len(chunk) >= lengthBytes {
					size += int(binary.BigEndian.Uint32(chunk))
				}
				if size > len(chunk) {
					err = fmt.Errorf("blob %d is cut: %w", n, ErrCorrupt)
					break
				}
				parcels++
				if !yield(chunk[lengthBytes:size], nil) {
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
			yield(nil, fmt.Errorf("read the staged parcels of batch %s: found %d of %d: %w", d.ID, parcels, d.Parcels, ErrCorrupt))
		}
	}
}

func (b *Batches) stagedChunk(ctx context.Context, d details, n int) ([]byte, error) {
	chunk, err := b.staging.get(ctx, chunkName(d.ID, n), chunkBytes+maxParcel)
	if errors.Is(err, table.ErrNotFound) || errors.Is(err, table.ErrLarge) {
		return nil, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	return chunk, err
}

// unstage deletes the staged blobs of a batch.
func (b *Batches) unstage(ctx context.Context, d details) error {
	for n := range d.Chunks {
		if err := b.staging.delete(ctx, chunkName(d.ID, n)); err != nil {
			return fmt.Errorf("delete the staged parcels of batch %s: %w", d.ID, err)
		}
	}
	return nil
}
