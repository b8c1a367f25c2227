package queue

import (
	"context"
	"errors"
	"fmt"
	"time"

	"kennel/internal/cas"
	"kennel/internal/table"
)

// ClaimTime is how long a claim is needed after its message was put: the life
// of the message, the life of the dead letter that the Functions host may make
// of it, and a day for clocks that differ.
const ClaimTime = 2*TimeToLive + 24*time.Hour

// Claims packs bodies of any size into messages. Short bodies travel in the
// message. A longer one is stored, and the message has the claim for it. It is
// safe for concurrent use.
type Claims struct {
	rows    claimRows
	blobs   Container
	inTable int    // longer claims go to the container; less in some tests
	kept    string // the storage queue whose messages never expire; "": claims expire
	coders  coders
}

// NewClaims returns claims that are stored in a table, or in a container if
// they are too long for it: its requests cost 50 times as much. Both hold
// nothing else. NewClaims makes no request. A program outside of this module uses
// package azurestore's NewClaims.
func NewClaims(rows *table.Table, blobs Container) (*Claims, error) {
	if rows == nil || blobs == nil {
		return nil, errors.New("new claims: the table or the container is nil")
	}
	return &Claims{rows: claimRows{rows}, blobs: blobs, inTable: maxInTable}, nil
}

// NewKeptClaims returns claims for the messages of one storage queue that never
// expire: a claim goes only with its message. Claims of several queues may share
// the table and the container, which hold nothing else.
func NewKeptClaims(rows *table.Table, blobs Container, queue string) (*Claims, error) {
	c, err := NewClaims(rows, blobs)
	if err == nil {
		err = CheckName(queue + PoisonSuffix)
	}
	if err != nil {
		return nil, err
	}
	c.kept = queue
	return c, nil
}

// newClaim returns a claim for bytes that are not stored yet.
func (c *Claims) newClaim(until time.Time, size int) *claim {
	if c.kept != "" {
		return newKeptClaim(c.place(size), c.kept, time.Now(), size)
	}
	return newClaim(c.place(size), until, size)
}

// Pack returns the text of a message with this body. If the body is too long
// for a message, it first stores the body, so that no message has a claim that
// is not stored. Without a message, the claim is removed when it expires.
func (c *Claims) Pack(ctx context.Context, e Envelope, body []byte) (text string, err error) {
	if len(body) > MaxContent {
		return "", fmt.Errorf("pack message %.80q: body of %d bytes is longer than %d: %w", e.ID, len(body), MaxContent, ErrLimit)
	}
	content := e.fill(body, &c.coders)
	if content != nil {
		e.claim = c.newClaim(time.Now().Add(ClaimTime), len(content))
	}
	text, err = e.Text() // before the claim is stored: it checks the envelope
	if err == nil && content != nil {
		err = c.store(ctx, *e.claim, content)
	}
	if err != nil {
		return "", fmt.Errorf("pack message %.80q: %w", e.ID, err)
	}
	return text, nil
}

// Unpack returns the envelope of a message and its body. Besides ErrMessage and
// ErrClaimGone, its errors are those of the stores, for which a retry may help.
// With any error but ErrMessage, the envelope is valid.
func (c *Claims) Unpack(ctx context.Context, text string) (Envelope, []byte, error) {
	e, err := Parse(text)
	if err != nil {
		return Envelope{}, nil, err
	}
	body, err := c.Body(ctx, e)
	return e, body, err
}

// Body returns the body of a message that was parsed. Its errors are those of
// Unpack.
func (c *Claims) Body(ctx context.Context, e Envelope) ([]byte, error) {
	content := e.inline
	if e.claim != nil {
		var err error
		if content, err = c.load(ctx, *e.claim); err != nil {
			return nil, fmt.Errorf("unpack message %.80q: %w", e.ID, err)
		}
	}
	body, err := e.body(content, &c.coders)
	if err != nil {
		return nil, fmt.Errorf("unpack message %.80q: %w: %w", e.ID, ErrMessage, err)
	}
	return body, nil
}

// Check returns ErrClaimGone if the message has a claim that is not stored. It
// reads no body. Its other errors are those of the stores.
func (c *Claims) Check(ctx context.Context, e Envelope) error {
	if e.claim == nil {
		return nil
	}
	if err := c.check(ctx, *e.claim); err != nil {
		return fmt.Errorf("check the claim of message %.80q: %w", e.ID, err)
	}
	return nil
}

// Remove deletes the claim of a message, if it has one. Call it when storage
// has confirmed that the message was deleted, and no other one was put in its
// place. If it fails, Sweep deletes the claim when it expires.
func (c *Claims) Remove(ctx context.Context, e Envelope) error {
	if e.claim == nil {
		return nil
	}
	if err := c.remove(ctx, *e.claim); err != nil {
		return fmt.Errorf("remove the claim of message %.80q: %w", e.ID, err)
	}
	return nil
}

// Extend returns the envelope with a claim that does not expire before until.
// Call it before a copy of the message is put, with the time at which the copy
// needs the claim no more: normally ClaimTime from now. It makes no request if
// the claim is valid long enough, as every claim is for a week. Otherwise it
// copies the claim. The old one stays until it expires, because other copies of
// the message may name it. A kept claim is always copied: so a message that moves
// from the dead letters to its queue has a young claim, see SweepKept.
func (c *Claims) Extend(ctx context.Context, e Envelope, until time.Time) (Envelope, error) {
	if e.claim == nil || !e.claim.expires().Before(until) {
		return e, nil
	}
	content, err := c.load(ctx, *e.claim)
	if err == nil {
		e.claim = c.newClaim(until, len(content))
		err = c.store(ctx, *e.claim, content)
	}
	if err != nil {
		return Envelope{}, fmt.Errorf("extend the claim of message %.80q: %w", e.ID, err)
	}
	return e, nil
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
		return c.rows.insert(ctx, to.Key, content)
	}
	_, err := table.RetryWrite(ctx, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, c.blobs.Put(ctx, to.Key, content)
	})
	return err
}

func (c *Claims) load(ctx context.Context, from claim) (content []byte, err error) {
	if from.In == inTable {
		content, err = c.rows.read(ctx, from.Key, from.Bytes)
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
		found, err = c.rows.has(ctx, of.Key)
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
		return c.rows.delete(ctx, old.Key, rowKeys(old.Bytes))
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

	// Get returns a blob. ErrNotFound reports that it does not exist,
	// ErrLarge that it is longer than max bytes.
	Get(ctx context.Context, name string, max int) ([]byte, error)

	// Delete deletes a blob. It returns nil if it does not exist.
	Delete(ctx context.Context, name string) error
}

// The answers of a [Container], beside ErrRefused. Those of a table are the same:
// a claim is in rows or in a blob, and its reader does not care.
var (
	ErrNotFound = cas.ErrNotFound
	ErrLarge    = cas.ErrLarge
)

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
