package channels

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"

	"kennel/table"
)

// maxPages bounds the requests that one list makes to fill its page: the store
// may answer with short and empty ones.
const maxPages = 10

// A page holds no more than about enoughBytes of texts, or what firstRows hold:
// a thousand of the longest blogs would be a quarter of a gigabyte. How many
// rows are asked for after the first ones depends on how long those were.
const (
	firstRows   = 100
	enoughBytes = 4 << 20
)

// list fills one page. The scope names the list, and its continuations work
// for no other.
func list[T any](ctx context.Context, rows *table.Table, scope string, q table.Query, continuation string, read func(table.Row) (T, error)) (List[T], error) {
	if err := checkTop(q.Top); err != nil {
		return List[T]{}, err
	}
	after, err := openContinuation(scope, continuation)
	if err != nil {
		return List[T]{}, err
	}
	q.After = after
	items := make([]T, 0) // an empty list is [] in JSON
	top, size := q.Top, 0
	for range maxPages {
		q.Top = min(top-len(items), rowsFor(len(items), size))
		page, err := rows.Query(ctx, q)
		switch {
		case errors.Is(err, table.ErrToken):
			return List[T]{}, &InputError{"continuation", "is not one that this list gave"}
		case err != nil:
			return List[T]{}, fmt.Errorf("list %s: %w", scope, err)
		}
		for _, row := range page.Rows {
			item, err := read(row)
			if err != nil {
				return List[T]{}, fmt.Errorf("list %s: %w", scope, err)
			}
			items = append(items, item)
			for _, value := range row.Values {
				size += len(value)
			}
		}
		q.After = page.Next
		if q.After == "" || len(items) >= top || size >= enoughBytes {
			break
		}
	}
	return List[T]{Items: items, Continuation: sealContinuation(scope, q.After)}, nil
}

// rowsFor returns how many more rows a page should have that holds some already.
func rowsFor(rows, size int) int {
	if rows == 0 {
		return firstRows
	}
	each := max(size/rows, 1)
	return (enoughBytes-size)/each + 1
}

// A continuation is a version, a digest of the scope, a digest of all the
// rest, and the store's own token.
//
// The digests tell a token that was cut, mistyped or mixed up with another
// list's. They keep nobody from making one: whoever does chooses where in the
// same list to go on reading, and could have read that anyway, because what is
// listed comes from the request and not from the token.
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
		return "", bad("is longer than any that is given out")
	}
	sealed, err := base64.RawURLEncoding.Strict().DecodeString(continuation)
	const head = 1 + digestSize
	if err != nil || len(sealed) <= head+digestSize {
		return "", bad("is damaged: repeat it exactly as it was given")
	}
	rest := sealed[head+digestSize:]
	switch {
	case sealed[0] != continuationVersion:
		return "", bad("is of another version: begin the list again")
	case !bytes.Equal(sealed[head:head+digestSize], digest(sealed[:head], rest)):
		return "", bad("is damaged: repeat it exactly as it was given")
	case !bytes.Equal(sealed[1:head], digest([]byte(scope))):
		return "", bad("belongs to another list, or to a channel that was deleted since: begin the list again")
	}
	return string(rest), nil
}

// digest keeps its parts apart: that none of them contains another's length
// is all that matters here.
func digest(parts ...[]byte) []byte {
	h := sha256.New()
	for _, part := range parts {
		fmt.Fprintf(h, "%d:", len(part))
		h.Write(part)
	}
	return h.Sum(nil)[:digestSize]
}
