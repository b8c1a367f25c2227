// Package table defines a table in storage: the contract that stores implement,
// the limits of Azure's tables, and the one layer that repeats requests.
//
// # Contract
//
// A [Store] is one table. A row is identified by its partition and key, and
// holds texts. A transaction changes up to 100 rows of one partition, all or
// none. Each row has a condition: it must not exist, it must have a given [Row]
// version, or it must exist in any version. An [Upsert] has none. Versions are
// opaque and are never reused. Reads are strongly consistent. A query returns
// pages; a page may be short or empty although more follow. Rows and pages carry
// times of the store's clock, so that the age of a row does not depend on the
// clocks of its writer and its reader.
//
// A store sends each request once. It returns the error that storage answered
// with, so that its caller can distinguish an answer from a missing one.
//
// # Limits
//
// [CheckWrites] and [CheckQuery] reject what Azure would reject. Stores call
// them before they send anything, so a program that works with an emulator or
// in memory works in Azure too.
//
// # Repeats and unknown outcomes
//
// A [Table] repeats requests that fail without an answer. A write may then
// arrive twice, and the answer that a row has changed may be caused by the
// first arrival. Such an error wraps [ErrUnclear]: the write may have been
// made, or may still be made. Every other error of a write means that nothing
// was changed. An error of a read never wraps ErrUnclear. [Table.ReadBack]
// reads a row so that the caller can find out whether the write was made. This
// requires a value that no other write has, such as an operation id, or a
// unique key.
//
// Use [Table.SubmitOnce] for a transaction whose late second arrival could undo
// later changes: one that overwrites any version, or inserts a row that may
// have been deleted since.
//
// The package starts no goroutines and does not log.
package table

import (
	"context"
	"errors"
	"fmt"
	"time"

	"kennel/internal/cas"
)

// Row is one row of a table. All its values are texts. Times and numbers are
// stored as text, so that every store keeps them exactly.
type Row struct {
	Partition, Key string
	Values         map[string]string // nil in the result of a query for keys only
	Version        string            // the store's token for this state; "" in the result of a query for keys or columns only
	WrittenAt      time.Time         // of this state, by the store's clock; zero in the result of a query for keys only
}

// Verb is what a [Write] does to its row.
type Verb int

// Merge keeps the values that the write does not name; Replace and Upsert drop
// them. Upsert inserts the row or replaces any version of it.
const (
	Insert Verb = iota + 1
	Merge
	Replace
	Delete
	Upsert
)

// AnyVersion as [Write.If] requires that the row exists, in any version.
const AnyVersion = "*"

// Write is one change within a transaction.
type Write struct {
	Verb Verb
	Row  Row    // its Version and WrittenAt are ignored
	If   string // the version that the row must have, or AnyVersion; "" for Insert, whose row must not exist, and Upsert
}

// Query selects rows. They are returned in the order of partition and key.
// ASCII text is ordered by bytes; for other text the order depends on the
// store.
type Query struct {
	Partition string // "": all partitions
	Key       string // only rows with this key; "": all
	Above     string // only rows with a greater key
	Below     string // only rows with a smaller key; "": all
	Column    string // only rows that hold Value in this column; "": all
	Value     string
	KeysOnly  bool
	Columns   []string // only these columns of the rows, of which each may be missing; nil: all
	Top       int      // maximum rows on the page: 1 to MaxPage
	MaxBytes  int      // maximum size of the page as the store sends it; 0: no limit
	After     string   // Next of the page before; "": the first page
}

// Page is the answer to a [Query].
type Page struct {
	Rows []Row

	// Next is empty only at the end of the list. Otherwise there may be more
	// rows, even if this page is short or empty.
	Next string

	// ReadAt is the time of the answer by the store's clock, in whole seconds.
	// It is zero if the store did not report it.
	ReadAt time.Time
}

// Store is one table of an account.
//
// All methods are called concurrently. Reads are strongly consistent, and a
// write is durable when Submit returns nil. A store does not retry: its caller
// does, because the caller can read back whether a write was made.
type Store interface {
	// Get returns one row, or ErrNotFound.
	Get(ctx context.Context, partition, key string) (Row, error)

	// Query returns one page. ErrToken reports that q.After is not the Next of
	// a page of the same query. ErrLarge reports that the page is larger than
	// q.MaxBytes; the store holds no more than that of it in memory.
	Query(ctx context.Context, q Query) (Page, error)

	// Submit makes all writes or none, and returns the new version of each row
	// in the order of the writes, "" for a deleted row. It does not send writes
	// that CheckWrites rejects. ErrNotFound, ErrExists and ErrChanged report
	// that a row did not meet its condition: another writer was faster, or an
	// earlier try of the same transaction arrived. ErrRefused reports that the
	// store rejected the request permanently. After any of these errors, this
	// request changed nothing and never will. After any other error it may
	// have.
	Submit(ctx context.Context, writes ...Write) (versions []string, err error)
}

// The errors of a [Store], and ErrUnclear of a [Table]. Those of package cas are
// the same for all stores.
//
// ErrRefused reports a condition that a retry does not change: a missing
// permission or a disabled account. ErrRowSize is one that is refused because a
// row is too large. Check for ErrUnclear first: an error that wraps both means that
// a repeated write was refused, but its first try may have been made.
var (
	ErrNotFound = cas.ErrNotFound
	ErrExists   = cas.ErrExists
	ErrChanged  = cas.ErrChanged
	ErrLimit    = errors.New("beyond the limits of a table")
	ErrToken    = errors.New("the page token is invalid")
	ErrLarge    = cas.ErrLarge
	ErrRefused  = cas.ErrRefused
	ErrRowSize  = fmt.Errorf("%w: the row is too large", ErrRefused)
	ErrUnclear  = cas.ErrUnclear
)

// IsConflict reports whether a write was not made because a row did not meet its
// condition: another writer was faster, or an earlier try of the write arrived.
func IsConflict(err error) bool {
	return errors.Is(err, ErrNotFound) || errors.Is(err, ErrExists) || errors.Is(err, ErrChanged)
}
