// Package table is what jobs know of a table in storage: the contract that
// stores implement, the limits of Azure's tables, and the one layer that
// repeats requests.
//
// # Contract
//
// A [Store] is one table. Its rows are found by partition and key and hold
// texts. A transaction changes up to 100 rows of one partition, all or none,
// each under a condition: it must not exist, it must have a stated [Row]
// version, or it must exist in whatever state. Versions are opaque and never
// come back. Reads are strongly consistent, and a query returns pages, each of
// which may be short or empty although more follow.
//
// A store sends each request once. It reports what storage answered, so its
// caller can tell an answer from none.
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
// arrive twice, and an answer that a row has changed may be the echo of the
// first arrival. Such an error wraps [ErrUnclear]: the write may have been
// made, or may still be made. Every other error of a write means that nothing
// was done, and an error of a read never wraps ErrUnclear. [Table.ReadBack]
// reads a row by which the caller decides what became of the write. To make
// that possible, write something into a row that no other write has, such as
// an operation id, or make the row's key unique.
//
// Use [Table.SubmitOnce] for a transaction whose late second arrival could undo
// what happened after the first: one that overwrites any version, or inserts a
// row that may have been deleted since.
//
// The package starts no goroutines and does not log.
package table

import (
	"context"
	"errors"
)

// Row is one row of a table. All its values are texts: times and numbers are
// written out, so that every store keeps them exactly.
type Row struct {
	Partition, Key string
	Values         map[string]string // nil in the answer to a query for keys only
	Version        string            // the store's token for this state; "" in the answer to a query for keys only
}

// Verb is what a [Write] does to its row.
type Verb int

// Merge keeps the values that the write does not name; Replace drops them.
const (
	Insert Verb = iota + 1
	Merge
	Replace
	Delete
)

// AnyVersion as [Write.If] requires that the row exists, in whatever state.
const AnyVersion = "*"

// Write is one change within a transaction.
type Write struct {
	Verb Verb
	Row  Row    // its Version is ignored
	If   string // the version that the row must have, or AnyVersion; "" for Insert, whose row must not exist
}

// Query selects rows, which are returned in the order of their partitions and
// keys: that of their bytes where they are ASCII, and the store's own beyond.
type Query struct {
	Partition string // "": of all partitions
	Key       string // only rows with this key; "": all
	Above     string // only rows with a greater key
	Column    string // only rows that hold Value in this column; "": all
	Value     string
	KeysOnly  bool
	Top       int    // maximum rows on the page: 1 to MaxPage
	After     string // Next of the page before; "": the first page
}

// Page is the answer to a [Query].
type Page struct {
	Rows []Row

	// Next is empty at the end of the list only. If it is not, there may be
	// more rows even if this page is short or empty.
	Next string
}

// Store is one table of an account.
//
// All methods are called concurrently. Reads are strongly consistent, and a
// write is durable when Submit returns nil. A store does not retry: its caller
// does, because it can read back what became of a write.
type Store interface {
	// Get returns one row, or ErrNotFound.
	Get(ctx context.Context, partition, key string) (Row, error)

	// Query returns one page. ErrToken reports that q.After is not the Next of
	// such a page.
	Query(ctx context.Context, q Query) (Page, error)

	// Submit makes all writes or none, and returns the new version of each row
	// in the order of the writes, "" for a deleted one. It does not send what
	// CheckWrites rejects. ErrNotFound, ErrExists and ErrChanged report that a
	// row was not as required, because another writer was faster or because an
	// earlier try of the same transaction had arrived. ErrRefused reports that
	// the store rejects the request for good. After any of these this request
	// did nothing and never will. Any other error leaves that open.
	Submit(ctx context.Context, writes []Write) (versions []string, err error)
}

// The errors of a [Store], and ErrUnclear of a [Table].
//
// ErrRefused is for what a retry does not change: a missing permission, a
// disabled account. Check for ErrUnclear first: an error that wraps both is the
// answer to a repeated write, which the first try may have made.
var (
	ErrNotFound = errors.New("not found")
	ErrExists   = errors.New("exists already")
	ErrChanged  = errors.New("was changed meanwhile")
	ErrLimit    = errors.New("beyond the limits of a table")
	ErrToken    = errors.New("no such page")
	ErrRefused  = errors.New("refused by the store")
	ErrUnclear  = errors.New("the outcome of the write is unknown")
)
