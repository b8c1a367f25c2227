package memory

import (
	"context"
	"fmt"

	"kennel/ids"
	"kennel/internal/cas"
)

// Sequences is an [ids.Store] in memory: [Values] that remember which sequences
// exist. [Options.OnMisuse] is called for writers' names that are used twice,
// too.
type Sequences struct {
	*Values
	known   map[string]bool // the remembered sequences; guarded by mu
	writers map[string]bool // every writer so far; guarded by mu
}

// NewSequences returns an empty store.
func NewSequences(o *Options) *Sequences {
	s := &Sequences{Values: NewValues(o), known: make(map[string]bool), writers: make(map[string]bool)}
	if s.misuse != nil {
		s.replacing = s.writing
	}
	return s
}

// Load implements [ids.Store].
func (s *Sequences) Load(ctx context.Context, sequence, seen string) (ids.Value, error) {
	err := checkBlobName(sequence)
	var v ids.Value
	if err == nil {
		v, err = send(ctx, &s.wire, "Load", sequence, func() (ids.Value, error) {
			v, err := s.load(sequence, seen)
			if err == nil && v.Version == "" && s.known[sequence] {
				err = ids.ErrMissing
			}
			return v, err
		})
	}
	if err != nil {
		return ids.Value{}, fmt.Errorf("load sequence %.80q: %w", sequence, err)
	}
	return v, nil
}

// Remember implements [ids.Store].
func (s *Sequences) Remember(ctx context.Context, sequence string) error {
	err := checkBlobName(sequence)
	if err == nil {
		_, err = send(ctx, &s.wire, "Remember", sequence, func() (struct{}, error) {
			s.known[sequence] = true
			return struct{}{}, nil
		})
	}
	if err != nil {
		return fmt.Errorf("remember sequence %.80q: %w", sequence, err)
	}
	return nil
}

// writing reports a writer's name that was used before.
func (s *Sequences) writing(sequence string, next cas.Value) {
	writer := ids.MarkOf(next).Writer
	if writer == "" {
		return
	}
	if s.writers[writer] {
		s.misuse(fmt.Sprintf("two writes to %s have the writer %q", sequence, writer))
	}
	s.writers[writer] = true
}
