// Package items reads the items of a batch from the body of its submission, and
// checks them: their syntax, their ids, and that two readers of an item cannot
// take it for different things.
package items

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"unicode/utf8"

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

// errLong reports an item that is longer than MaxItem, and was skipped.
var errLong = fmt.Errorf("the item is longer than %d bytes", model.MaxItem)

// Read passes each item to add, in compact form, which is valid until add
// returns. Validate is that of a processor. If an item is invalid, no more are
// passed to add, and read returns the first invalid ones as [*ItemErrors].
func (r *Reader) Read(ctx context.Context, maxItems int, validate func(json.RawMessage) error, add func(context.Context, model.Item) error) error {
	next := r.nextLine
	if r.array {
		next = r.nextElement
	}
	invalid := &model.ItemErrors{}
	items := 0
	for {
		text, err := next()
		if err == io.EOF {
			break
		}
		var damaged *model.ItemErrors
		switch {
		case errors.As(err, &damaged):
			addError(invalid, damaged.Items[0].Line, errors.New(damaged.Items[0].Message))
			return invalid
		case err != nil && err != errLong:
			return err
		}
		if items++; items > maxItems {
			return fmt.Errorf("more than %d items: %w", maxItems, model.ErrTooLarge)
		}
		var item model.Item
		if err == nil {
			item, err = r.check(text, validate)
		}
		switch {
		case err != nil:
			if addError(invalid, r.line, err); invalid.More {
				return invalid
			}
		case len(invalid.Items) == 0:
			if err := add(ctx, item); err != nil {
				return err
			}
		}
	}
	if items == 0 || len(invalid.Items) > 0 {
		return invalid
	}
	return nil
}

// addError adds the error of an item if there is space for it.
func addError(e *model.ItemErrors, line int, err error) {
	if len(e.Items) == model.MaxItemErrors {
		e.More = true
		return
	}
	e.Items = append(e.Items, model.ItemError{Line: line, Message: model.ShortError(err.Error())})
}

// check returns an item in compact form, which is valid until the next call.
func (r *Reader) check(text []byte, validate func(json.RawMessage) error) (model.Item, error) {
	r.compact.Reset()
	if !utf8.Valid(text) {
		return model.Item{}, errors.New("the item is not UTF-8")
	}
	item := text
	if !IsPlain(text) {
		if err := json.Compact(&r.compact, text); err != nil {
			return model.Item{}, fmt.Errorf("the item is not JSON: %w", err)
		}
		item = r.compact.Bytes()
	}
	id, err := r.items.check(item)
	if err != nil {
		return model.Item{}, err
	}
	sum := sha256.Sum256([]byte(id))
	digest := [16]byte(sum[:16])
	if line, ok := r.seen[digest]; ok {
		place := "line"
		if r.array {
			place = "element"
		}
		return model.Item{}, fmt.Errorf("the id %q is used in %s %d too", id, place, line)
	}
	r.seen[digest] = int32(r.line)
	return model.Item{ID: id, Data: item}, validate(item)
}
