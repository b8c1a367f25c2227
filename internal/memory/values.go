package memory

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"kennel/internal/cas"
)

// maxName is the maximum length of a blob's name in characters.
const maxName = 1024

// Values is a [cas.Store] in memory, and so a store of gates.
//
// It is safe for concurrent use, linearizable, and gives every state a version
// that it never used before, even across deletion and creation. Its clock has a
// resolution of one second. [Options.OnMisuse] is called for versions that the
// store never returned and for requests without a deadline.
type Values struct {
	wire
	values  map[string]cas.Value      // guarded by mu
	past    map[string][]WrittenValue // guarded by mu
	version int64                     // the last one used; guarded by mu
	ahead   time.Duration             // guarded by mu

	replacing func(name string, next cas.Value) // called with mu held before a value is replaced; nil: nothing
}

// WrittenValue is a state of a value and when it was stored. A state without a
// version is a deletion.
type WrittenValue struct {
	cas.Value
	At time.Time
}

// NewValues returns an empty store.
func NewValues(o *Options) *Values {
	return &Values{wire: newWire(o), values: make(map[string]cas.Value), past: make(map[string][]WrittenValue)}
}

// Load implements [cas.Store].
func (s *Values) Load(ctx context.Context, name, seen string) (cas.Value, error) {
	err := checkBlobName(name)
	var v cas.Value
	if err == nil {
		v, err = send(ctx, &s.wire, "Load", name, func() (cas.Value, error) { return s.load(name, seen) })
	}
	if err != nil {
		return cas.Value{}, fmt.Errorf("load %.80q: %w", name, err)
	}
	return v, nil
}

// load is called with mu held.
func (s *Values) load(name, seen string) (cas.Value, error) {
	s.watch(name, seen)
	v := s.values[name]
	if seen != "" && v.Version == seen {
		return cas.Value{}, cas.ErrUnchanged
	}
	v.Text = v.Text[:min(len(v.Text), cas.MaxText)]
	v.Meta = maps.Clone(v.Meta)
	v.ReadAt = s.now().Truncate(time.Second)
	return v, nil
}

// Replace implements [cas.Store].
func (s *Values) Replace(ctx context.Context, name string, old, next cas.Value) (cas.Value, error) {
	err := errors.Join(checkBlobName(name), cas.Check(next))
	var version string
	if err == nil {
		version, err = send(ctx, &s.wire, "Replace", name, func() (string, error) {
			s.watch(name, old.Version)
			if s.values[name].Version != old.Version { // both "" if there is no value and none is expected
				return "", cas.ErrChanged
			}
			if s.replacing != nil {
				s.replacing(name, next)
			}
			now := s.now()
			return s.put(name, cas.Value{Text: next.Text, Meta: maps.Clone(next.Meta), WrittenAt: now, StoredAt: now}), nil
		})
	}
	if err != nil {
		return cas.Value{}, fmt.Errorf("replace %.80q: %w", name, err)
	}
	return cas.Value{Text: next.Text, Meta: next.Meta, Version: version}, nil
}

// watch reports a version that this store has not returned.
func (s *Values) watch(name, version string) {
	if s.misuse == nil || version == "" {
		return
	}
	n, err := strconv.ParseInt(version, 10, 64)
	if err != nil || n < 1 || n > s.version {
		s.misuse(fmt.Sprintf("version %q of %s was never returned", version, name))
	}
}

// put stores a value under a new version. Its caller holds mu.
func (s *Values) put(name string, v cas.Value) (version string) {
	s.version++
	v.Version = strconv.FormatInt(s.version, 10)
	s.values[name] = v
	s.past[name] = append(s.past[name], WrittenValue{v, time.Now()})
	return v.Version
}

// now is the time by the store's clock. Its caller holds mu.
func (s *Values) now() time.Time { return time.Now().Add(s.ahead).UTC() }

// The methods below let tests act as an operator and read the state. They are
// not requests and have no faults.

// Set stores a text without condition and metadata, as another program does.
func (s *Values) Set(name, text string) { s.Restore(name, cas.Value{Text: text}) }

// Restore stores an older value under a new version, as the restore of a backup
// does.
func (s *Values) Restore(name string, older cas.Value) {
	s.mu.Lock()
	defer s.mu.Unlock()
	older.StoredAt, older.ReadAt = s.now(), time.Time{}
	s.put(name, older)
}

// Delete deletes a value.
func (s *Values) Delete(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.values, name)
	s.past[name] = append(s.past[name], WrittenValue{At: time.Now()})
}

// SetClock sets how far the store's clock is ahead of this machine's.
func (s *Values) SetClock(ahead time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ahead = ahead
}

// Get returns the stored value in full.
func (s *Values) Get(name string) (cas.Value, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v, ok := s.values[name]
	return v, ok
}

// Past returns all states of a value in order.
func (s *Values) Past(name string) []WrittenValue {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.past[name])
}

// checkBlobName applies the rules for a blob's name.
func checkBlobName(name string) error {
	switch {
	case name == "":
		return errors.New("the name is empty")
	case utf8.RuneCountInString(name) > maxName:
		return fmt.Errorf("the name is longer than %d characters", maxName)
	case !utf8.ValidString(name) || strings.ContainsFunc(name, isControl):
		return errors.New("the name contains control characters or is not UTF-8")
	case strings.HasSuffix(name, ".") || strings.HasSuffix(name, "/") || strings.HasSuffix(name, `\`):
		return errors.New("the name ends with a dot or a slash")
	}
	return nil
}

func isControl(r rune) bool { return r < ' ' || r == 0x7f }
