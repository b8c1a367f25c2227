package azure

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"kennel/ids"
)

// The metadata of a sequence's blob.
const (
	writerKey = "writer"
	floorKey  = "floor"
)

// Sequences is an [ids.Store] with one block blob per sequence: the blob's
// name is the sequence's, its text is the mark's text and nothing else, its
// ETag is the version.
type Sequences struct{ blobs casBlobs }

// NewSequences keeps sequences in the container of that name, which is created
// with the first of them.
func NewSequences(blobs *Blobs, containerName string) *Sequences {
	return &Sequences{newCASBlobs(blobs, containerName, "text/plain", "numbers")}
}

// Load implements [ids.Store] with one request, from whose answer text,
// metadata and version come together. A text longer than any number comes back
// cut, with its size, and is no number then.
func (s *Sequences) Load(ctx context.Context, sequence string) (ids.Mark, error) {
	b, err := s.blobs.read(ctx, sequence, "", ids.MaxText+1)
	if errors.Is(err, errNoBlob) {
		err = ids.ErrNotFound
	}
	if err != nil {
		return ids.Mark{}, fmt.Errorf("load sequence %.80q: %w", sequence, err)
	}
	mark := ids.Mark{
		Text:    b.text,
		Writer:  metadata(b.metadata, writerKey),
		Floor:   metadata(b.metadata, floorKey),
		Version: b.version,
	}
	switch {
	case len(b.text) <= ids.MaxText:
	case b.size < 0:
		mark.Text = b.text[:ids.MaxText] + "… (more than a number)"
	default:
		mark.Text = fmt.Sprintf("%s… (%d bytes)", b.text[:ids.MaxText], b.size)
	}
	return mark, nil
}

// Replace implements [ids.Store] with one request, or with three if the
// container has to be created first.
func (s *Sequences) Replace(ctx context.Context, sequence string, old, next ids.Mark) (ids.Mark, error) {
	err := errors.Join(checkBlobName(sequence), ids.CheckMark(next))
	if err == nil {
		beside := make(map[string]*string)
		for key, value := range map[string]string{writerKey: next.Writer, floorKey: next.Floor} {
			if value != "" {
				beside[key] = &value
			}
		}
		next.Version, err = s.blobs.replace(ctx, sequence, old.Version, next.Text, beside)
	}
	if errors.Is(err, errBlobChanged) {
		err = ids.ErrChanged
	}
	if err != nil {
		return ids.Mark{}, fmt.Errorf("replace sequence %.80q: %w", sequence, err)
	}
	return next, nil
}

// metadata looks a value up whatever the case of its key has become on the
// way: HTTP headers do not keep it.
func metadata(values map[string]*string, key string) string {
	for k, value := range values {
		if value != nil && strings.EqualFold(k, key) {
			return *value
		}
	}
	return ""
}
