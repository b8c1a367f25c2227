package items

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"

	"kennel/work/internal/model"
)

// Reader reads the items of a body. It holds one item in memory, and of
// each item before it a digest of its id.
type Reader struct {
	array bool
	raw   *source
	plain *limited // after decompression
	in    *bufio.Reader
	line  int    // of what was read last; or the element
	long  []byte // buffer of the array's elements
	ended bool   // the array, or nothing of it was read

	compact bytes.Buffer
	items   itemChecker
	seen    map[[16]byte]int32 // lines by the digests of ids
}

// source reads what the caller sent, and keeps its error apart from those of
// the decompression.
type source struct {
	body io.Reader
	err  error
}

func (s *source) Read(p []byte) (int, error) {
	n, err := s.body.Read(p)
	if err != nil && err != io.EOF {
		s.err = err
	}
	return n, err
}

// limited hashes what it reads, and ends with ErrTooLarge after left bytes.
type limited struct {
	body io.Reader
	left int64
	sum  hash.Hash
}

func (l *limited) Read(p []byte) (int, error) {
	if int64(len(p)) > l.left+1 {
		p = p[:l.left+1]
	}
	n, err := l.body.Read(p)
	l.sum.Write(p[:n])
	if l.left -= int64(n); l.left < 0 {
		return 0, model.ErrTooLarge
	}
	return n, err
}

// NewReader begins to read a body: it recognizes gzip, and skips a byte
// order mark.
func NewReader(s model.Submission, maxBytes int64) (*Reader, error) {
	r := &Reader{array: s.Array, raw: &source{body: s.Body}, line: 1, seen: make(map[[16]byte]int32)}
	sent := bufio.NewReader(r.raw)
	r.plain = &limited{body: sent, left: maxBytes, sum: sha256.New()}
	// The digest is that of the submission, so the same body for another
	// processor has another one.
	for _, text := range []string{s.Processor, s.Name, fmt.Sprint(s.Array)} {
		fmt.Fprintf(r.plain.sum, "%d:%s", len(text), text)
	}
	magic, _ := sent.Peek(2) // an error returns with the next read
	if string(magic) == "\x1f\x8b" {
		unzip, err := gzip.NewReader(sent)
		if err != nil {
			return nil, r.failed(err)
		}
		r.plain.body = unzip
	}
	r.in = bufio.NewReaderSize(r.plain, model.MaxItem+4<<10)
	mark, err := r.in.Peek(3)
	if err != nil && err != io.EOF {
		return nil, r.failed(err)
	}
	if string(mark) == "\xef\xbb\xbf" {
		r.in.Discard(3)
	}
	r.line = 0
	return r, nil
}

// failed returns the error for a body that cannot be read: [*ItemErrors] if
// what was sent is damaged.
func (r *Reader) failed(err error) error {
	switch {
	case r.raw.err != nil:
		return fmt.Errorf("read the body: %w", r.raw.err)
	case errors.Is(err, model.ErrTooLarge):
		return err
	}
	return r.bad("the gzip data is damaged or cut: " + err.Error())
}

// bad returns the error for a body that ends at an invalid place.
func (r *Reader) bad(message string) error {
	return &model.ItemErrors{Items: []model.ItemError{{Line: max(r.line, 1), Message: message}}}
}

// Digest returns the digest of a submission that was read to its end.
func (r *Reader) Digest() string { return fmt.Sprintf("%x", r.plain.sum.Sum(nil)) }

// Skim reads a body to its end only for its digest.
func (r *Reader) Skim() error {
	if _, err := io.Copy(io.Discard, r.in); err != nil {
		return r.failed(err)
	}
	return nil
}
