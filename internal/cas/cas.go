// Package cas defines how a job keeps a short value under a name, and how
// several processes change it without a lock: by compare-and-swap. It has the
// one contract for such stores, and the words for the answers of every store.
//
// A value without a [Value.Version] is one that does not exist, so that it can be
// read, and replaced, like any other. A write is conditional on the version of
// the value that it replaces. Versions are opaque and are never reused.
//
// A store sends each request once. It does not retry: only its caller can tell
// a lost reply from a lost race. [ErrChanged] can be the answer to a write that
// an earlier try of the same write has made, so the caller reads the value then.
package cas

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Value is what a store holds under one name.
type Value struct {
	Text    string            // as stored; Load cuts one that is longer than MaxText
	Meta    map[string]string // short texts that are stored beside it; nil: none
	Version string            // the store's token for this state; "" if there is no value

	// The times are by the store's clock, and only Load sets them. WrittenAt is
	// when Replace stored this state, to within a few seconds; zero if it is
	// not known, as after a write by another program. StoredAt is later than
	// that for a copy that was restored. ReadAt is the time of the answer, in
	// whole seconds at least, also if there is no value; zero if the store did
	// not report it.
	WrittenAt time.Time
	StoredAt  time.Time
	ReadAt    time.Time
}

// Store keeps one Value per name and replaces it by compare-and-swap.
//
// Its methods are called concurrently, also for one name. Reads are strongly
// consistent, and a write is durable when Replace returns nil.
//
// An error that wraps ErrRefused reports a request that the store rejected and
// did not execute. After any other error of Replace, except ErrChanged, the
// value may have been stored, or may still be stored.
type Store interface {
	// Load returns the value. If seen is not "" and is still the version in
	// the store, Load returns ErrUnchanged instead, which costs the store next
	// to nothing.
	Load(ctx context.Context, name, seen string) (Value, error)

	// Replace stores the text and the metadata of next in the place of old and
	// returns next with its version. ErrChanged reports that the store does
	// not hold old: another writer was faster, or an earlier try of this very
	// write arrived. Replace does not send a value that Check rejects.
	Replace(ctx context.Context, name string, old, next Value) (Value, error)
}

// The answers of a store. ErrNotFound and ErrExists are those of tables and of
// blobs without versions, for which what does not exist has no value. ErrLarge
// reports that what was requested is longer than the caller wanted to read.
//
// ErrRefused reports a condition that a retry does not change until an operator
// fixes it: a missing permission or a disabled account. ErrUnclear reports that
// a write may have been made, or may still be made.
var (
	ErrNotFound  = errors.New("not found")
	ErrExists    = errors.New("already exists")
	ErrUnchanged = errors.New("has not changed")
	ErrChanged   = errors.New("has changed")
	ErrLarge     = errors.New("larger than the request allows")
	ErrRefused   = errors.New("refused by the store")
	ErrUnclear   = errors.New("the outcome of the write is unknown")
)

// Limits of a Value, in bytes.
const (
	MaxText = 1 << 20
	maxMeta = 4 << 10 // half of what Azure allows for all metadata of a blob
)

// Check returns an error that states why a store must not accept a value. Metadata
// is sent as HTTP headers.
func Check(v Value) error {
	if len(v.Text) > MaxText {
		return fmt.Errorf("text of %d bytes is longer than %d", len(v.Text), MaxText)
	}
	size := 0
	for key, value := range v.Meta {
		if key == "" || strings.Trim(key, "abcdefghijklmnopqrstuvwxyz") != "" {
			return fmt.Errorf("metadata has the key %.80q: use lower-case letters", key)
		}
		if value == "" || strings.TrimSpace(value) != value || strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r > '~' }) {
			return fmt.Errorf("metadata %.80q cannot be sent unchanged as an HTTP header", value)
		}
		size += len(key) + len(value)
	}
	if size > maxMeta {
		return fmt.Errorf("metadata of %d bytes is longer than %d", size, maxMeta)
	}
	return nil
}
