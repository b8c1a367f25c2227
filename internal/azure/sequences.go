package azure

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"kennel/ids"
	"kennel/internal/names"
)

// The metadata of a sequence's blob.
const (
	writerKey  = "writer"
	peakKey    = "peak"
	historyKey = "history"
	forksKey   = "forks"
	knownKey   = "known"   // "1" if there is a marker
	writtenKey = "written" // when the blob was written, by the service's clock, in Unix seconds
)

// Sequences is an [ids.Store] with one block blob per sequence. The blob has
// the name of the sequence, its content is the mark's text and nothing else,
// and its ETag is the version. A second container has an empty blob, the
// marker, for each sequence that is remembered.
type Sequences struct{ blobs, markers casBlobs }

// NewSequences returns the sequences in a container. The markers are in the
// container of that name with [names.KnownSuffix]. Both containers are created with the
// first sequence. It makes no request.
func NewSequences(blobs *Blobs, containerName string) *Sequences {
	return &Sequences{
		blobs:   newCASBlobs(blobs, containerName, "text/plain", "numbers"),
		markers: newCASBlobs(blobs, containerName+names.KnownSuffix, "text/plain", "numbers"),
	}
}

// Load implements [ids.Store] with one request, whose answer holds text,
// metadata and version, or with two if there is no blob. It cuts a text that is
// longer than any number, and adds its size so that the result is not a number.
func (s *Sequences) Load(ctx context.Context, sequence string) (ids.Mark, error) {
	mark, _, err := s.load(ctx, sequence)
	return mark, err
}

// load also returns when the blob was written.
func (s *Sequences) load(ctx context.Context, sequence string) (ids.Mark, time.Time, error) {
	b, err := s.blobs.read(ctx, sequence, "", ids.MaxText+1)
	if errors.Is(err, errNoBlob) {
		err = s.missing(ctx, sequence)
	}
	if err != nil {
		return ids.Mark{}, time.Time{}, fmt.Errorf("load sequence %.80q: %w", sequence, refusedSequence(err))
	}
	mark := ids.Mark{
		Text:    b.text,
		Writer:  metadata(b.metadata, writerKey),
		Peak:    metadata(b.metadata, peakKey),
		History: metadata(b.metadata, historyKey),
		Forks:   metadata(b.metadata, forksKey),
		Known:   metadata(b.metadata, knownKey) != "",
		Version: b.version,
		Copied:  isCopied(metadata(b.metadata, writtenKey), b.modified),
	}
	switch {
	case len(b.text) <= ids.MaxText:
	case b.size < 0:
		mark.Text = b.text[:ids.MaxText] + "… (longer than a number)"
	default:
		mark.Text = fmt.Sprintf("%s… (%d bytes)", b.text[:ids.MaxText], b.size)
	}
	return mark, b.modified, nil
}

// Replace implements [ids.Store] with one request, or with three if the
// container has to be created first.
func (s *Sequences) Replace(ctx context.Context, sequence string, old, next ids.Mark) (ids.Mark, error) {
	err := errors.Join(checkBlobName(sequence), ids.CheckMark(next))
	if err == nil {
		metadata := make(map[string]*string)
		known := ""
		if next.Known {
			known = "1"
		}
		written := ""
		if now := s.blobs.clock.now(); !now.IsZero() {
			written = strconv.FormatInt(now.Unix(), 10)
		}
		for key, value := range map[string]string{writerKey: next.Writer, peakKey: next.Peak, historyKey: next.History, forksKey: next.Forks, knownKey: known, writtenKey: written} {
			if value != "" {
				metadata[key] = &value
			}
		}
		next.Copied = false
		next.Version, err = s.blobs.replace(ctx, sequence, old.Version, next.Text, metadata)
	}
	if errors.Is(err, errBlobChanged) {
		err = ids.ErrChanged
	}
	if err != nil {
		return ids.Mark{}, fmt.Errorf("replace sequence %.80q: %w", sequence, refusedSequence(err))
	}
	return next, nil
}

// isCopied reports whether a blob was stored long after it was written.
// Restoring a copy keeps its metadata, and changes when it was stored.
func isCopied(written string, stored time.Time) bool {
	seconds, err := strconv.ParseInt(written, 10, 64)
	return err == nil && stored.Sub(time.Unix(seconds, 0)) >= ids.CopyAge
}

// Remember implements [ids.Store] with one request, or with three if the
// container of the markers has to be created first.
func (s *Sequences) Remember(ctx context.Context, sequence string) error {
	_, err := s.markers.replace(ctx, sequence, "", "", nil)
	if err != nil && !errors.Is(err, errBlobChanged) { // there is one
		return fmt.Errorf("remember sequence %.80q: %w", sequence, refusedSequence(err))
	}
	return nil
}

// missing returns why a sequence has no blob: ErrMissing if it has a marker,
// else ErrNotFound.
func (s *Sequences) missing(ctx context.Context, sequence string) error {
	_, err := s.markers.read(ctx, sequence, "", 1)
	switch {
	case err == nil:
		return ids.ErrMissing
	case errors.Is(err, errNoBlob):
		return ids.ErrNotFound
	default:
		return fmt.Errorf("read its marker: %w", err)
	}
}

// refusedSequence adds [ids.ErrRefused] to an error response that a retry does not
// change.
func refusedSequence(err error) error {
	e, ok := errors.AsType[*Error](err)
	if !ok || !e.Refused() || e.Status == http.StatusConflict {
		return err // a container that is being deleted is a conflict for half a minute
	}
	return fmt.Errorf("%w: %w", ids.ErrRefused, err)
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
