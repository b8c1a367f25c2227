package channels

import (
	"context"
	"errors"
	"time"
)

// Row is one row of a table. All its values are texts: times and numbers are
// written out, so that every store keeps them exactly.
type Row struct {
	Partition, Key string
	Values         map[string]string // nil in the answer to a query for keys only
	Version        string            // the store's own token for this state; opaque to this package; "" there
}

// Verb says what a [Write] does to its row.
type Verb int

// Merge keeps the values that the write does not name; Replace drops them.
const (
	Insert Verb = iota + 1
	Merge
	Replace
	Delete
)

// AnyVersion as [Write.If] demands that the row be there, in whatever state.
const AnyVersion = "*"

// Write is one change within a transaction.
type Write struct {
	Verb Verb
	Row  Row    // its Version is ignored
	If   string // the version to be found there, or AnyVersion; "" for Insert, which must find nothing
}

// Query asks for a page of rows, in the order of their partitions and keys:
// that of their bytes where they are ASCII, and the store's own beyond.
type Query struct {
	Partition string // "": of all partitions
	Key       string // only rows with this key; "": all
	Above     string // only rows with a greater key
	Column    string // only rows that hold Value there; "": all
	Value     string
	KeysOnly  bool
	Top       int    // most rows on the page: 1 to MaxPage
	After     string // Next of the page before; "": the first page
}

// Page is the answer to a [Query].
type Page struct {
	Rows []Row

	// Next says that there may be more rows, even if this page is short or
	// empty. Only an empty Next is the end.
	Next string
}

// Table is one table of an account.
//
// All methods are called concurrently. Reads are strongly consistent, and a
// write is durable when Submit returns nil. The store does not retry: this
// package does, because it can read back what became of a write.
type Table interface {
	// Get returns one row, or ErrNotFound.
	Get(ctx context.Context, partition, key string) (Row, error)

	// Query returns one page. ErrToken says that q.After is not the Next of
	// such a page.
	Query(ctx context.Context, q Query) (Page, error)

	// Submit does all writes or none, and returns the new version of each row
	// in the order of the writes, "" for a deleted one. What [CheckWrites] refuses it
	// does not send. ErrNotFound, ErrExists and ErrChanged say that a row was
	// not as it had to be, be it because another was faster or because an
	// earlier try of this very transaction had arrived; ErrRefused, that the
	// store will not do it. After all of these nothing was done by this very
	// request, and nothing will be. Any other error leaves that open.
	Submit(ctx context.Context, writes []Write) (versions []string, err error)
}

// Outbox puts messages into the queue whose messages come back to
// [Channels.Handle], at least once each and in any order. Both methods are
// called concurrently; the store does not retry.
type Outbox interface {
	// Put adds a message that nobody receives before delay is over. After an
	// error other than ErrRefused the message may be there all the same.
	Put(ctx context.Context, text string, delay time.Duration) (receipt string, err error)

	// Delete removes a message that nobody has received since it was put, and
	// returns an error if that is not so.
	Delete(ctx context.Context, receipt string) error
}

// What a Table answers, and what callers branch on.
//
// ErrRefused is for what asking again does not change: no right to it, an
// account that is disabled. To callers of [Channels] it says that nothing was
// changed that anybody can see; it is never passed on where a step before may
// have changed such a thing.
var (
	ErrNotFound = errors.New("not found")
	ErrExists   = errors.New("exists already")
	ErrChanged  = errors.New("was changed meanwhile")
	ErrLimit    = errors.New("beyond what a table takes")
	ErrToken    = errors.New("no such page")
	ErrRefused  = errors.New("refused by the store")
)
