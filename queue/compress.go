package queue

import (
	"fmt"
	"sync"

	"github.com/klauspost/compress/zstd"
)

// minCompress is the length in bytes from which a body is compressed. A shorter
// one gains little, and its message stays readable.
const minCompress = 2 << 10

// The encoder and the decoder are created with their first use, because a
// process that sends no long messages needs neither. Both may be used
// concurrently.
var (
	encoder = sync.OnceValue(func() *zstd.Encoder {
		return must(zstd.NewWriter(nil, zstd.WithEncoderConcurrency(2), zstd.WithEncoderLevel(zstd.SpeedFastest),
			zstd.WithEncoderCRC(false))) // the envelope has a digest
	})
	decoder = sync.OnceValue(func() *zstd.Decoder {
		return must(zstd.NewReader(nil, zstd.WithDecoderConcurrency(2), zstd.WithDecoderMaxMemory(MaxContent),
			zstd.WithDecodeAllCapLimit(true)))
	})
)

func must[T any](coder T, err error) T {
	if err != nil {
		panic(err) // the options are constants
	}
	return coder
}

func compress(body []byte) []byte { return encoder().EncodeAll(body, nil) }

// decompress never makes more than size bytes.
func decompress(packed []byte, size int) ([]byte, error) {
	body, err := decoder().DecodeAll(packed, make([]byte, 0, size))
	if err != nil {
		return nil, fmt.Errorf("decompress %d bytes to %d: %w", len(packed), size, err)
	}
	return body, nil
}
