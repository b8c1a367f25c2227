package azure

import (
	"context"
	"errors"
	"fmt"

	"kennel/ids"
	"kennel/internal/cas"
	"kennel/internal/names"
)

// Sequences is an [ids.Store]. The text of a blob is the next free number and
// nothing else. A second container has an empty blob, the marker, for each
// sequence that is remembered.
type Sequences struct {
	Values
	markers Values
}

// NewSequences returns the sequences in a container. The markers are in the
// container of that name with [names.KnownSuffix]. Both containers are created with the
// first sequence. It makes no request.
func NewSequences(blobs *Blobs, containerName string) *Sequences {
	return &Sequences{
		Values:  newValues(blobs, containerName, "text/plain", "numbers"),
		markers: newValues(blobs, containerName+names.KnownSuffix, "text/plain", "numbers"),
	}
}

// Load implements [ids.Store] with one request, or with two if there is no blob.
func (s *Sequences) Load(ctx context.Context, sequence, seen string) (ids.Value, error) {
	v, err := s.Values.Load(ctx, sequence, seen)
	if err != nil || v.Version != "" {
		return v, err
	}
	marker, err := s.markers.Load(ctx, sequence, "")
	switch {
	case err != nil:
		return ids.Value{}, fmt.Errorf("read its marker: %w", err)
	case marker.Version != "":
		return ids.Value{}, fmt.Errorf("load sequence %.80q: %w", sequence, ids.ErrMissing)
	}
	return v, nil
}

// Remember implements [ids.Store] with one request, or with three if the
// container of the markers has to be created first.
func (s *Sequences) Remember(ctx context.Context, sequence string) error {
	_, err := s.markers.Replace(ctx, sequence, ids.Value{}, ids.Value{})
	if err != nil && !errors.Is(err, cas.ErrChanged) { // there is one
		return fmt.Errorf("remember sequence: %w", err)
	}
	return nil
}
