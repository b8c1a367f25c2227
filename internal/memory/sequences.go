package memory

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"kennel/ids"
)

// maxName is the maximum length of a blob's name in characters.
const maxName = 1024

// Sequences is an [ids.Store] that keeps its marks in memory.
//
// It is safe for concurrent use, linearizable, and gives every state a version
// that it never used before, even across deletion and creation.
// [Options.OnMisuse] is called for versions that the store never returned, for
// writers' names that are used twice and for requests without a deadline.
type Sequences struct {
	wire
	marks   map[string]ids.Mark // guarded by mu
	known   map[string]bool     // the remembered sequences; guarded by mu
	version int64               // the last one used; guarded by mu
	writers map[string]bool     // every writer so far; nil without misuse checks; guarded by mu
}

// NewSequences returns an empty store.
func NewSequences(o *Options) *Sequences {
	s := &Sequences{wire: newWire(o), marks: make(map[string]ids.Mark), known: make(map[string]bool)}
	if s.misuse != nil {
		s.writers = make(map[string]bool)
	}
	return s
}

// Load implements [ids.Store]. It truncates a text that is longer than any
// number and adds its size, so that the text is not a number.
func (s *Sequences) Load(ctx context.Context, sequence string) (ids.Mark, error) {
	if err := checkSequence(sequence); err != nil {
		return ids.Mark{}, fmt.Errorf("load sequence %.80q: %w", sequence, err)
	}
	mark, err := send(ctx, &s.wire, "Load", sequence, func() (ids.Mark, error) {
		mark, ok := s.marks[sequence]
		switch {
		case ok:
			return mark, nil
		case s.known[sequence]:
			return ids.Mark{}, ids.ErrMissing
		default:
			return ids.Mark{}, ids.ErrNotFound
		}
	})
	if err != nil {
		return ids.Mark{}, fmt.Errorf("load sequence %q: %w", sequence, err)
	}
	if size := len(mark.Text); size > ids.MaxText {
		mark.Text = fmt.Sprintf("%s… (%d bytes)", mark.Text[:ids.MaxText], size)
	}
	return mark, nil
}

// Replace implements [ids.Store].
func (s *Sequences) Replace(ctx context.Context, sequence string, old, next ids.Mark) (ids.Mark, error) {
	if err := errors.Join(checkSequence(sequence), ids.CheckMark(next)); err != nil {
		return ids.Mark{}, fmt.Errorf("replace sequence %.80q: %w", sequence, err)
	}
	mark, err := send(ctx, &s.wire, "Replace", sequence, func() (ids.Mark, error) {
		s.watch(sequence, old)
		if s.marks[sequence].Version != old.Version { // both "" if there is none and none is expected
			return ids.Mark{}, ids.ErrChanged
		}
		if s.writers != nil && next.Writer != "" {
			if s.writers[next.Writer] {
				s.misuse(fmt.Sprintf("two writes to %s have the writer %q", sequence, next.Writer))
			}
			s.writers[next.Writer] = true
		}
		return s.put(sequence, next, time.Now()), nil
	})
	if err != nil {
		return ids.Mark{}, fmt.Errorf("replace sequence %q: %w", sequence, err)
	}
	return mark, nil
}

// Remember implements [ids.Store].
func (s *Sequences) Remember(ctx context.Context, sequence string) error {
	err := checkSequence(sequence)
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

// watch reports a version that this store has not returned.
func (s *Sequences) watch(sequence string, old ids.Mark) {
	if s.misuse == nil || old.Version == "" {
		return
	}
	if n, _, ok := parseVersion(old.Version); !ok || n < 1 || n > s.version {
		s.misuse(fmt.Sprintf("version %q of %s was never returned", old.Version, sequence))
	}
}

// put stores mark under a new version. A version has the time at which the mark
// was written, which a copy keeps. The caller holds mu.
func (s *Sequences) put(sequence string, mark ids.Mark, written time.Time) ids.Mark {
	s.version++
	mark.Version = fmt.Sprintf("%d-%d", s.version, written.UnixNano())
	s.marks[sequence] = mark
	return mark
}

// parseVersion returns the number of a version, and when its mark was written.
func parseVersion(version string) (n int64, written time.Time, ok bool) {
	number, nanos, _ := strings.Cut(version, "-")
	n, err := strconv.ParseInt(number, 10, 64)
	at, err2 := strconv.ParseInt(nanos, 10, 64)
	return n, time.Unix(0, at), err == nil && err2 == nil
}

// Set stores a text without condition and metadata, as an operator or another
// program does. It is not a request and has no faults.
func (s *Sequences) Set(sequence, text string) { s.Restore(sequence, ids.Mark{Text: text}) }

// Restore stores an older mark under a new version, as the restore of a backup
// does. It is not a request and has no faults.
func (s *Sequences) Restore(sequence string, older ids.Mark) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, written, isCopy := parseVersion(older.Version)
	if !isCopy {
		written = time.Now()
	}
	older.Copied = time.Since(written) >= ids.CopyAge
	s.put(sequence, older, written)
}

// Get returns the stored mark in full. It is not a request and has no faults.
func (s *Sequences) Get(sequence string) (ids.Mark, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	mark, ok := s.marks[sequence]
	return mark, ok
}

// Delete deletes a mark, as an operator does; the store still remembers the
// sequence. It is not a request and has no faults.
func (s *Sequences) Delete(sequence string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.marks, sequence)
}

// checkSequence applies the rules for a blob's name.
func checkSequence(name string) error {
	switch {
	case name == "":
		return fmt.Errorf("the name is empty")
	case utf8.RuneCountInString(name) > maxName:
		return fmt.Errorf("the name is longer than %d characters", maxName)
	case !utf8.ValidString(name) || strings.ContainsFunc(name, isControl):
		return fmt.Errorf("the name contains control characters or is not UTF-8")
	case strings.HasSuffix(name, ".") || strings.HasSuffix(name, "/") || strings.HasSuffix(name, `\`):
		return fmt.Errorf("the name ends with a dot or a slash")
	}
	return nil
}

func isControl(r rune) bool { return r < ' ' || r == 0x7f }
