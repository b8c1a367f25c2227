package submit

import (
	"context"
	"encoding/binary"
	"fmt"

	"kennel/work/internal/format"
	"kennel/work/internal/model"
	"kennel/work/internal/store"
)

const (
	// packBytes is from how many bytes of items a parcel takes no more of them.
	// Few parcels are that long: they would have to shrink to an eighth.
	packBytes = 8 * model.ParcelBytes
)

// Packer packs the items of a batch into parcels and stages them in chunks: a
// chunk has the compressed bodies of parcels in their order, each after its
// length. The packer holds one parcel and one chunk in memory.
type Packer struct {
	S     *Submitter
	D     *format.Details // its Items, Parcels and Chunks count what was packed
	lines []byte          // the items of the next parcel, a line each
	ends  []int           // of the items in lines
	chunk []byte

	Each    int // items of a parcel now
	largest int // items of a parcel from largeFrom items on
}

// Add adds an item.
func (p *Packer) Add(ctx context.Context, item model.Item) error {
	p.lines = append(append(p.lines, item.Data...), '\n')
	p.ends = append(p.ends, len(p.lines))
	p.D.Items++
	if p.D.Items == p.S.LargeFrom && p.largest > p.Each && (p.S.Options.ReadLarge == nil || p.S.Options.ReadLarge(ctx)) {
		p.Each = p.largest
	}
	for len(p.ends) >= p.Each || len(p.lines) >= packBytes {
		if err := p.pack(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Close packs and stages the rest.
func (p *Packer) Close(ctx context.Context) error {
	for len(p.ends) > 0 {
		if err := p.pack(ctx); err != nil {
			return err
		}
	}
	return p.stage(ctx)
}

// pack makes a parcel of as many items as fit, at least one.
func (p *Packer) pack(ctx context.Context) error {
	n := len(p.ends)
	packed := p.first(n)
	if len(packed) > model.ParcelBytes {
		n, packed = p.fit(n)
	}
	if len(p.chunk) > 0 && len(p.chunk)+store.LengthBytes+len(packed) > store.ChunkBytes {
		if err := p.stage(ctx); err != nil {
			return err
		}
	}
	p.chunk = append(binary.BigEndian.AppendUint32(p.chunk, uint32(len(packed))), packed...)
	if p.D.Parcels++; p.D.Parcels > format.MaxParcels {
		return fmt.Errorf("more than %d parcels: %w", format.MaxParcels, model.ErrTooLarge)
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
func (p *Packer) fit(n int) (fits int, packed []byte) {
	fits, packed = 1, p.first(1)
	for n-fits > 1 && len(packed) < model.ParcelBytes*3/4 {
		half := (fits + n) / 2
		if more := p.first(half); len(more) > model.ParcelBytes {
			n = half
		} else {
			fits, packed = half, more
		}
	}
	return fits, packed
}

// first returns the compressed body of the next parcel with n items.
func (p *Packer) first(n int) []byte {
	next := p.D.Parcel(p.D.Parcels)
	return next.Pack(&p.S.Coders, p.lines[:p.ends[n-1]])
}

// stage writes the chunk.
func (p *Packer) stage(ctx context.Context) error {
	if len(p.chunk) == 0 {
		return nil
	}
	p.D.Chunks++ // also if the put fails: the blob may exist
	if err := p.S.Staging.Put(ctx, format.ChunkName(p.D.ID, p.D.Chunks-1), p.chunk); err != nil {
		return fmt.Errorf("stage parcels: %w", err)
	}
	p.chunk = p.chunk[:0]
	return nil
}
