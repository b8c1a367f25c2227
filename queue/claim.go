package queue

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"regexp"
	"time"

	"kennel/internal/table"
)

// claim names the bytes that are stored for a message. Its key begins with the
// day on which it expires, so that the sweep reads only what has expired, and
// never changes.
type claim struct {
	In    place  `json:"in"`
	Key   string `json:"key"`
	Bytes int    `json:"bytes"` // as stored
}

// place is the kind of store that holds a claim.
type place string

const (
	inTable place = "table"
	inBlob  place = "blob"
)

var claimKey = regexp.MustCompile(`^\d{4}-\d\d-\d\d-[A-Z2-7]{26}$`)

// newClaim returns a claim that expires a week after until, or up to a day
// later. So a message can be put again for a week with the same claim.
func newClaim(in place, until time.Time, size int) *claim {
	day := until.UTC().Add(TimeToLive + 24*time.Hour).Format(time.DateOnly)
	return &claim{in, day + "-" + rand.Text(), size}
}

func (c claim) check() error {
	switch {
	case c.In != inTable && c.In != inBlob:
		return fmt.Errorf("the claim is in %.80q, want table or blob", c.In)
	case !claimKey.MatchString(c.Key) || c.expires().IsZero():
		return fmt.Errorf("the key of the claim is %.80q, want a date and 26 characters", c.Key)
	case c.Bytes < 1 || c.Bytes > MaxContent || c.In == inTable && c.Bytes > maxInTable:
		return fmt.Errorf("the claim has %d bytes, which the %s cannot hold", c.Bytes, c.In)
	}
	return nil
}

func (c claim) expires() time.Time {
	at, _ := expiry(c.Key)
	return at
}

// expiry returns when the claim with this key expires.
func expiry(key string) (at time.Time, ok bool) {
	if !claimKey.MatchString(key) {
		return time.Time{}, false
	}
	at, err := time.Parse(time.DateOnly, key[:len(time.DateOnly)])
	return at, err == nil
}

// place returns where a claim of so many bytes is stored.
func (c *Claims) place(size int) place {
	if size <= c.inTable {
		return inTable
	}
	return inBlob
}

func (c *Claims) store(ctx context.Context, to claim, content []byte) error {
	if to.In == inTable {
		return c.insertRows(ctx, to.Key, content)
	}
	_, err := table.RetryWrite(ctx, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, c.blobs.Put(ctx, to.Key, content)
	})
	return err
}

func (c *Claims) load(ctx context.Context, from claim) (content []byte, err error) {
	if from.In == inTable {
		content, err = c.readRows(ctx, from.Key, from.Bytes)
	} else {
		content, err = table.Retry(ctx, func(ctx context.Context) ([]byte, error) {
			return c.blobs.Get(ctx, from.Key, from.Bytes)
		})
	}
	switch {
	case errors.Is(err, table.ErrNotFound):
		return nil, fmt.Errorf("%w: %w", ErrClaimGone, err)
	case errors.Is(err, table.ErrLarge):
		return nil, fmt.Errorf("%w: the claim is longer than %d bytes", ErrMessage, from.Bytes)
	case err != nil:
		return nil, err
	case len(content) != from.Bytes:
		return nil, fmt.Errorf("%w: the claim has %d bytes, want %d", ErrMessage, len(content), from.Bytes)
	}
	return content, nil
}

// check makes one request for a claim that is stored.
func (c *Claims) check(ctx context.Context, of claim) (err error) {
	found := false
	if of.In == inTable {
		found, err = c.hasRows(ctx, of.Key)
	} else {
		_, err = table.Retry(ctx, func(ctx context.Context) ([]byte, error) { return c.blobs.Get(ctx, of.Key, 0) })
		found = err == nil || errors.Is(err, table.ErrLarge)
	}
	switch {
	case found:
		return nil
	case err == nil || errors.Is(err, table.ErrNotFound):
		return ErrClaimGone
	}
	return err
}

func (c *Claims) remove(ctx context.Context, old claim) error {
	if old.In == inTable {
		return c.deleteRows(ctx, old.Key, rowKeys(old.Bytes))
	}
	return c.deleteBlob(ctx, old.Key)
}

// Container holds the claims that do not fit into a table, as blobs. Its errors
// are those of package table, and like a [table.Store] it does not retry. All
// methods are called concurrently.
type Container interface {
	Blobs
	BlobLister
}

// Blobs are the blobs of a [Container].
type Blobs interface {
	// Put stores a blob, in place of one of that name.
	Put(ctx context.Context, name string, content []byte) error

	// Get returns a blob. table.ErrNotFound reports that it does not exist,
	// table.ErrLarge that it is longer than max bytes.
	Get(ctx context.Context, name string, max int) ([]byte, error)

	// Delete deletes a blob. It returns nil if it does not exist.
	Delete(ctx context.Context, name string) error
}

// BlobLister lists the blobs of a [Container] for the sweep.
type BlobLister interface {
	// List returns the first names, up to max, in the order of their bytes. It
	// may return fewer than max only if there are no more.
	List(ctx context.Context, max int) ([]string, error)
}

func (c *Claims) deleteBlob(ctx context.Context, name string) error {
	_, err := table.RetryWrite(ctx, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, c.blobs.Delete(ctx, name)
	})
	return err
}
