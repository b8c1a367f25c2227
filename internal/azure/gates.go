package azure

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"unicode/utf8"

	"kennel/gate"
)

// Gates is a [gate.Store] with one block blob per gate. The blob has the name
// of the gate, its content is the gate's document, and its ETag is the version.
type Gates struct{ blobs casBlobs }

// NewGates returns the gates in a container, which is created with the first
// gate. It makes no request.
func NewGates(blobs *Blobs, containerName string) *Gates {
	return &Gates{newCASBlobs(blobs, containerName, "application/json", "gates")}
}

// Load implements [gate.Store] with one request. If seen is still the version,
// the answer is a 304 without a body. The store's clock is the Date of the
// answer.
func (g *Gates) Load(ctx context.Context, name, seen string) (gate.Flag, error) {
	b, err := g.blobs.read(ctx, name, seen, gate.MaxText)
	switch {
	case errors.Is(err, errNoBlob):
		err = nil
	case errors.Is(err, errBlobUnchanged):
		err = gate.ErrUnchanged
	}
	if err == nil && b.readAt.IsZero() {
		err = errors.New("the answer has no Date") // a release needs it for a generation that was not used before
	}
	if err != nil {
		return gate.Flag{}, fmt.Errorf("load gate %.80q: %w", name, err)
	}
	return gate.Flag{Text: b.text, Version: b.version, ReadAt: b.readAt}, nil
}

// Replace implements [gate.Store] with one request, or with three if the
// container has to be created first.
func (g *Gates) Replace(ctx context.Context, name string, old, next gate.Flag) (gate.Flag, error) {
	err := checkFlag(name, next)
	if err == nil {
		next.Version, err = g.blobs.replace(ctx, name, old.Version, next.Text, nil)
	}
	if errors.Is(err, errBlobChanged) {
		err = gate.ErrChanged
	}
	if err != nil {
		return gate.Flag{}, fmt.Errorf("replace gate %.80q: %w", name, err)
	}
	return next, nil
}

// StoredGate is a gate in a list.
type StoredGate struct {
	gate.State       // without its history; only the name if Err is not nil
	Err        error // why the document cannot be used
}

// List returns up to top gates, and not more than maxListed, in the order of
// their names, and what continues the list, or "" at its end. It makes one request for the names, and one for
// each gate. It leaves out blobs without the name of a gate, and gates that are
// deleted in the meantime. A document may be long, so List keeps only what it
// returns of it.
func (g *Gates) List(ctx context.Context, top int, continuation string) ([]StoredGate, string, error) {
	names, next, err := g.blobs.list(ctx, min(top, maxListed), continuation, gate.CheckName)
	if err != nil {
		return nil, "", fmt.Errorf("list gates: %w", err)
	}
	deleted := func(s StoredGate) bool { return s.Gate == "" }
	all, err := readEach(ctx, names, func(ctx context.Context, name string) (StoredGate, error) {
		flag, err := g.Load(ctx, name, "")
		if err != nil || flag.Version == "" {
			return StoredGate{}, err
		}
		state, err := flag.State(name)
		state.Gate, state.History = name, nil
		return StoredGate{state, err}, nil
	})
	return slices.DeleteFunc(all, deleted), next, err
}

func checkFlag(name string, next gate.Flag) error {
	if err := checkBlobName(name); err != nil {
		return err
	}
	if len(next.Text) > gate.MaxText {
		return fmt.Errorf("text of %d bytes is longer than %d", len(next.Text), gate.MaxText)
	}
	if !utf8.ValidString(next.Text) {
		return errors.New("the text is not valid UTF-8, which JSON requires")
	}
	return nil
}
