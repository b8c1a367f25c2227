package azure

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"unicode/utf8"

	"kennel/gate"
)

// Gates is a [gate.Store] with one block blob per gate: the blob's name is the
// gate's, its text is the gate's document, its ETag is the version.
type Gates struct{ blobs casBlobs }

// NewGates keeps gates in the container of that name, which is created with
// the first of them.
func NewGates(blobs *Blobs, containerName string) *Gates {
	return &Gates{newCASBlobs(blobs, containerName, "application/json", "gates")}
}

// Store tells this container from those of other accounts and other apps. It
// holds no secret.
func (g *Gates) Store() string { return storeOf(g.blobs.container.URL()) }

// Load implements [gate.Store] with one request. One for a version that is
// still there is answered without a body (304).
func (g *Gates) Load(ctx context.Context, name, seen string) (gate.Flag, error) {
	b, err := g.blobs.read(ctx, name, seen, gate.MaxText)
	switch {
	case errors.Is(err, errNoBlob):
		err = gate.ErrNotFound
	case errors.Is(err, errBlobUnchanged):
		err = gate.ErrUnchanged
	}
	if err != nil {
		return gate.Flag{}, fmt.Errorf("load gate %.80q: %w", name, err)
	}
	return gate.Flag{Text: b.text, Version: b.version}, nil
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
		return errors.New("the text is not UTF-8, as JSON has to be")
	}
	return nil
}

// storeOf names a container to whoever knows it, and to nobody else.
func storeOf(address string) string {
	if u, err := url.Parse(address); err == nil {
		address = strings.ToLower(u.Host) + u.EscapedPath() // without a signature
	}
	sum := sha256.Sum256([]byte(address))
	return hex.EncodeToString(sum[:16])
}
