package channels

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"

	"kennel/internal/table"
)

// maxPages bounds the requests that one list makes to fill its page, because
// the store may return short and empty pages.
const maxPages = 10

// A page ends when it holds enoughBytes of text, because many lists may be in
// memory at once and a hundred of the longest blogs are 26 MB. The first
// request is for all rows of the page. The store rejects an answer above
// maxAnswer, so that its size does not depend on an estimate. Then fewRows rows
// are requested, and one if these are too large as well; the size of the rows
// read so far determines how many the next request is for.
const (
	enoughBytes = 1 << 20
	maxAnswer   = 2 << 20
	fewRows     = 4
)

// list fills one page. The scope names the list: a continuation is valid only
// for the scope that returned it.
func list[T any](ctx context.Context, rows *table.Table, scope string, q table.Query, continuation string, read func(table.Row) (T, error)) (List[T], error) {
	if err := checkTop(q.Top); err != nil {
		return List[T]{}, err
	}
	after, err := openContinuation(scope, continuation)
	if err != nil {
		return List[T]{}, err
	}
	q.After = after
	list := List[T]{Items: make([]T, 0)} // an empty list is [] in JSON
	top, size, next := q.Top, 0, q.Top
	for range maxPages {
		q.Top = min(top-len(list.Items), next)
		q.MaxBytes = maxAnswer
		if q.Top == 1 {
			q.MaxBytes = 0 // the list could not continue without this row
		}
		page, err := rows.Query(ctx, q)
		switch {
		case errors.Is(err, table.ErrLarge):
			if next = fewRows; q.Top <= fewRows {
				next = 1
			}
			continue
		case errors.Is(err, table.ErrToken):
			return List[T]{}, &InputError{"continuation", "was not returned by this list"}
		case err != nil:
			return List[T]{}, fmt.Errorf("list %s: %w", scope, err)
		}
		for _, row := range page.Rows {
			size += list.add(row, read)
		}
		q.After = page.Next
		if q.After == "" || len(list.Items) >= top || size >= enoughBytes {
			break
		}
		if len(list.Items) > 0 {
			next = (enoughBytes-size)/max(size/len(list.Items), 1) + 1
		}
	}
	list.Continuation = sealContinuation(scope, q.After)
	return list, nil
}

// add adds a row, and returns its size.
func (l *List[T]) add(row table.Row, read func(table.Row) (T, error)) (size int) {
	item, err := read(row)
	if err != nil {
		l.LeftOut++
		l.Problem = cmp.Or(l.Problem, err)
	} else {
		l.Items = append(l.Items, item)
	}
	for _, value := range row.Values {
		size += len(value)
	}
	return size
}

// A continuation consists of a version, a digest of the scope, a digest of the
// whole, and the store's token.
//
// The digests detect a token that was cut, mistyped or returned by another
// list. They do not prevent forgery, which does no harm: a forged token only
// selects a position within a list that its sender may read anyway, because the
// request, not the token, selects the list.
const (
	continuationVersion = 1
	digestSize          = 8
	maxContinuation     = 8 << 10
)

func sealContinuation(scope, after string) string {
	if after == "" {
		return ""
	}
	sealed := []byte{continuationVersion}
	sealed = append(sealed, digest([]byte(scope))...)
	sealed = append(sealed, digest(sealed, []byte(after))...)
	sealed = append(sealed, after...)
	return base64.RawURLEncoding.EncodeToString(sealed)
}

func openContinuation(scope, continuation string) (after string, err error) {
	if continuation == "" {
		return "", nil
	}
	bad := func(reason string) error { return &InputError{"continuation", reason} }
	if len(continuation) > maxContinuation {
		return "", bad("is too long; repeat it exactly as it was returned")
	}
	sealed, err := base64.RawURLEncoding.Strict().DecodeString(continuation)
	const head = 1 + digestSize
	if err != nil || len(sealed) <= head+digestSize {
		return "", bad("is damaged; repeat it exactly as it was returned")
	}
	rest := sealed[head+digestSize:]
	switch {
	case sealed[0] != continuationVersion:
		return "", bad("has another version; start the list again")
	case !bytes.Equal(sealed[head:head+digestSize], digest(sealed[:head], rest)):
		return "", bad("is damaged; repeat it exactly as it was returned")
	case !bytes.Equal(sealed[1:head], digest([]byte(scope))):
		return "", bad("belongs to another list, or to a channel that was deleted since; start the list again")
	}
	return string(rest), nil
}

func digest(parts ...[]byte) []byte { return sum(parts...)[:digestSize] }

// sum hashes its parts. It prefixes each with its length, so that different
// parts never hash the same bytes.
func sum[T string | []byte](parts ...T) []byte {
	h := sha256.New()
	for _, part := range parts {
		fmt.Fprintf(h, "%d:%s", len(part), part)
	}
	return h.Sum(nil)
}

// hash is sum as text.
func hash(parts ...string) string { return hex.EncodeToString(sum(parts...)) }
