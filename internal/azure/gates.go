package azure

import (
	"context"
	"errors"
	"fmt"
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
