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

// Sequences is an [ids.Store] with one block blob per sequence. The blob has
// the name of the sequence, its content is the mark's text and nothing else,
// and its ETag is the version.
type Sequences struct{ blobs casBlobs }

// NewSequences returns the sequences in a container, which is created with the
// first sequence. It makes no request.
func NewSequences(blobs *Blobs, containerName string) *Sequences {
	return &Sequences{newCASBlobs(blobs, containerName, "text/plain", "numbers")}
}

// Load implements [ids.Store] with one request, whose answer holds text,
// metadata and version. It cuts a text that is longer than any number, and adds
// its size so that the result is not a number.
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
		mark.Text = b.text[:ids.MaxText] + "… (longer than a number)"
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
		metadata := make(map[string]*string)
		for key, value := range map[string]string{writerKey: next.Writer, floorKey: next.Floor} {
			if value != "" {
				metadata[key] = &value
			}
		}
		next.Version, err = s.blobs.replace(ctx, sequence, old.Version, next.Text, metadata)
	}
	if errors.Is(err, errBlobChanged) {
		err = ids.ErrChanged
	}
	if err != nil {
		return ids.Mark{}, fmt.Errorf("replace sequence %.80q: %w", sequence, err)
	}
	return next, nil
}

// metadata returns the value of a key. It ignores the case of keys, because
// HTTP headers do not preserve it.
func metadata(values map[string]*string, key string) string {
	for k, value := range values {
		if value != nil && strings.EqualFold(k, key) {
			return *value
		}
	}
	return ""
}
