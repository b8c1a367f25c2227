package memory

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"kennel/gate"
)

// Gates is a [gate.Store] that keeps its flags in memory.
//
// It is safe for concurrent use, linearizable, and gives every state a version
// that it never used before, even across deletion and creation. Its clock has a
// resolution of one second. [Options.OnMisuse] is called for versions that the
// store never returned and for requests without a deadline.
type Gates struct {
	wire
	flags   map[string]gate.Flag     // guarded by mu
	past    map[string][]WrittenFlag // guarded by mu
	version int64                    // the last one used; guarded by mu
	ahead   time.Duration            // guarded by mu
}

// WrittenFlag is a state of a flag and when it was stored. A state without a
// version is a deletion.
type WrittenFlag struct {
	gate.Flag
	At time.Time
}

// NewGates returns an empty store.
func NewGates(o *Options) *Gates {
	return &Gates{wire: newWire(o), flags: make(map[string]gate.Flag), past: make(map[string][]WrittenFlag)}
}

// Load implements [gate.Store].
func (g *Gates) Load(ctx context.Context, name, seen string) (gate.Flag, error) {
	if err := checkSequence(name); err != nil {
		return gate.Flag{}, fmt.Errorf("load gate %.80q: %w", name, err)
	}
	flag, err := send(ctx, &g.wire, "Load", name, func() (gate.Flag, error) {
		g.watch(name, seen)
		flag := g.flags[name]
		if seen != "" && flag.Version == seen {
			return gate.Flag{}, gate.ErrUnchanged
		}
		flag.ReadAt = time.Now().Add(g.ahead).UTC().Truncate(time.Second)
		return flag, nil
	})
	if err != nil {
		return gate.Flag{}, fmt.Errorf("load gate %q: %w", name, err)
	}
	flag.Text = flag.Text[:min(len(flag.Text), gate.MaxText)]
	return flag, nil
}

// Replace implements [gate.Store].
func (g *Gates) Replace(ctx context.Context, name string, old, next gate.Flag) (gate.Flag, error) {
	if err := checkFlag(name, next); err != nil {
		return gate.Flag{}, fmt.Errorf("replace gate %.80q: %w", name, err)
	}
	flag, err := send(ctx, &g.wire, "Replace", name, func() (gate.Flag, error) {
		g.watch(name, old.Version)
		if g.flags[name].Version != old.Version { // both "" if there is no document and none is expected
			return gate.Flag{}, gate.ErrChanged
		}
		return g.put(name, next.Text), nil
	})
	if err != nil {
		return gate.Flag{}, fmt.Errorf("replace gate %q: %w", name, err)
	}
	return flag, nil
}

// watch reports a version that this store has not returned.
func (g *Gates) watch(name, version string) {
	if g.misuse == nil || version == "" {
		return
	}
	n, err := strconv.ParseInt(version, 10, 64)
	if err != nil || n < 1 || n > g.version {
		g.misuse(fmt.Sprintf("version %q of %s was never returned", version, name))
	}
}

// put stores a text under a new version. Its caller holds mu.
func (g *Gates) put(name, text string) gate.Flag {
	g.version++
	flag := gate.Flag{Text: text, Version: strconv.FormatInt(g.version, 10)}
	g.flags[name] = flag
	g.past[name] = append(g.past[name], WrittenFlag{flag, time.Now()})
	return flag
}

// The methods below let tests act as an operator and read the state. They are
// not requests and have no faults.

// Set stores a text without condition.
func (g *Gates) Set(name, text string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.put(name, text)
}

// Delete deletes a gate.
func (g *Gates) Delete(name string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.flags, name)
	g.past[name] = append(g.past[name], WrittenFlag{At: time.Now()})
}

// SetClock sets how far the store's clock is ahead of this machine's.
func (g *Gates) SetClock(ahead time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.ahead = ahead
}

// Get returns the stored flag.
func (g *Gates) Get(name string) (gate.Flag, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	flag, ok := g.flags[name]
	return flag, ok
}

// Past returns all states of a gate in order.
func (g *Gates) Past(name string) []WrittenFlag {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.past[name])
}

func checkFlag(name string, next gate.Flag) error {
	if err := checkSequence(name); err != nil {
		return err
	}
	if len(next.Text) > gate.MaxText {
		return fmt.Errorf("text of %d bytes is longer than %d", len(next.Text), gate.MaxText)
	}
	if !utf8.ValidString(next.Text) {
		return fmt.Errorf("the text is not UTF-8, which JSON requires")
	}
	return nil
}
