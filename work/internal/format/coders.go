package format

import (
	"fmt"
	"sync"

	"github.com/klauspost/compress/zstd"
)

// Coders compress and decompress, concurrently. They are created with their
// first use, because a process without batches needs neither.
type Coders struct {
	once   sync.Once
	packer *zstd.Encoder
	opener *zstd.Decoder
}

func (c *Coders) create() {
	var packErr, openErr error
	// The fastest level makes JSON as small as the default one, in a third of
	// the memory. Messages have a digest, so no checksum is needed.
	c.packer, packErr = zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(2),
		zstd.WithWindowSize(1<<20), zstd.WithLowerEncoderMem(true), zstd.WithEncoderCRC(false))
	c.opener, openErr = zstd.NewReader(nil, zstd.WithDecoderConcurrency(2), zstd.WithDecoderMaxMemory(MaxParcel))
	if packErr != nil || openErr != nil {
		panic(fmt.Sprint(packErr, openErr)) // the options are constants
	}
}

func (c *Coders) Compress(body []byte) []byte {
	c.once.Do(c.create)
	return c.packer.EncodeAll(body, nil)
}

// decompress returns what was compressed. It never makes more than MaxParcel
// bytes.
func (c *Coders) decompress(packed []byte) ([]byte, error) {
	c.once.Do(c.create)
	body, err := c.opener.DecodeAll(packed, nil)
	if err != nil {
		return nil, fmt.Errorf("decompress %d bytes: %w", len(packed), err)
	}
	return body, nil
}

// Readable returns the body of a message of batches as text: that of a parcel is
// compressed. It returns any other body as it is.
func (c *Coders) Readable(body []byte) []byte {
	if text, err := c.decompress(body); err == nil {
		return text
	}
	return body
}
