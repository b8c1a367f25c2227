package queue

import (
	"fmt"
	"sync"

	"github.com/klauspost/compress/zstd"
)

// minCompress is the length in bytes from which a body is compressed. A shorter
// one gains little, and its message stays readable.
const minCompress = 2 << 10

// zstdMagic is how compressed data begins. A body of it does not become shorter.
var zstdMagic = []byte("\x28\xb5\x2f\xfd")

// coders compress and decompress, concurrently. They are created with their
// first use, because a process without long messages needs neither.
type coders struct {
	once   sync.Once
	packer *zstd.Encoder
	opener *zstd.Decoder
}

func (c *coders) create() {
	var packErr, openErr error
	// The fastest level makes JSON as small as the default one, in a third of
	// the memory. The envelope has a digest, so no checksum is needed.
	c.packer, packErr = zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(2),
		zstd.WithWindowSize(1<<20), zstd.WithLowerEncoderMem(true), zstd.WithEncoderCRC(false))
	c.opener, openErr = zstd.NewReader(nil, zstd.WithDecoderConcurrency(2),
		zstd.WithDecoderMaxMemory(MaxContent), zstd.WithDecodeAllCapLimit(true))
	if packErr != nil || openErr != nil {
		panic(fmt.Sprint(packErr, openErr)) // the options are constants
	}
}

func (c *coders) compress(body []byte) []byte {
	c.once.Do(c.create)
	return c.packer.EncodeAll(body, nil)
}

// decompress never makes more than size bytes.
func (c *coders) decompress(packed []byte, size int) ([]byte, error) {
	c.once.Do(c.create)
	body, err := c.opener.DecodeAll(packed, make([]byte, 0, size))
	if err != nil {
		return nil, fmt.Errorf("decompress %d bytes to %d: %w", len(packed), size, err)
	}
	return body, nil
}
