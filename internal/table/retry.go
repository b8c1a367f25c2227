package table

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

// A request without an answer is sent up to maxTries times. The waits in
// between are random, up to a bound that doubles from firstWait (full jitter).
const (
	maxTries  = 4
	firstWait = 200 * time.Millisecond

	// TryTimeout bounds one try of a request. Half of the time that the
	// context has left bounds it, too, if that is enough for an answer: after a
	// try without one there is time for another, or to read back a write.
	TryTimeout    = 15 * time.Second
	minTryTimeout = time.Second
)

// Table is a [Store] that uses another one and repeats requests that fail
// without an answer. It is safe for concurrent use. The package comment
// describes its errors.
type Table struct{ store Store }

// New returns a table that uses the store. It makes no request.
func New(store Store) (*Table, error) {
	if store == nil {
		return nil, errors.New("new table: the store is nil")
	}
	return &Table{store}, nil
}

// Get returns one row, or ErrNotFound.
func (t *Table) Get(ctx context.Context, partition, key string) (Row, error) {
	return Retry(ctx, func(ctx context.Context) (Row, error) { return t.store.Get(ctx, partition, key) })
}

// Query returns one page.
func (t *Table) Query(ctx context.Context, q Query) (Page, error) {
	return Retry(ctx, func(ctx context.Context) (Page, error) { return t.store.Query(ctx, q) })
}

// Submit makes all writes or none, and returns the new version of each row.
// After an error that wraps ErrUnclear, they may have been made.
func (t *Table) Submit(ctx context.Context, writes ...Write) ([]string, error) {
	return RetryWrite(ctx, func(ctx context.Context) ([]string, error) { return t.store.Submit(ctx, writes...) })
}

// SubmitOnce is Submit without repeats, for a transaction whose second arrival
// could undo later changes.
func (t *Table) SubmitOnce(ctx context.Context, writes ...Write) ([]string, error) {
	return repeat(ctx, 1, true, func(ctx context.Context) ([]string, error) { return t.store.Submit(ctx, writes...) })
}

// ReadBack reads a row after a write to it failed with the error write, so that
// the caller can find out whether the write was made. It returns found false if
// the row does not exist. If the store refused the write or a limit forbids it,
// ReadBack returns write without a read. If the read fails, the error wraps
// ErrUnclear if write does.
func (t *Table) ReadBack(ctx context.Context, write error, partition, key string) (row Row, found bool, err error) {
	isUnclear := errors.Is(write, ErrUnclear)
	if !isUnclear && (errors.Is(write, ErrRefused) || errors.Is(write, ErrLimit)) {
		return Row{}, false, write
	}
	row, err = t.Get(ctx, partition, key)
	switch {
	case err == nil:
		return row, true, nil
	case errors.Is(err, ErrNotFound):
		return Row{}, false, nil
	}
	// Wrap only the read's error. The write's error may be the answer to a
	// repeated write, which the caller must not treat as the outcome.
	err = fmt.Errorf("%v; read it back: %w", write, err)
	if isUnclear {
		err = Unclear(err)
	}
	return Row{}, false, err
}

// Unclear wraps an error in ErrUnclear. It is for callers whose earlier write
// may have been made. It returns nil for nil.
func Unclear(err error) error {
	if err == nil || errors.Is(err, ErrUnclear) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrUnclear, err)
}

// Retry sends a request that changes nothing until it is answered, up to four
// times. TryTimeout bounds each try. The errors of package table are answers;
// any other error means that there was no answer.
func Retry[T any](ctx context.Context, request func(context.Context) (T, error)) (T, error) {
	return repeat(ctx, maxTries, false, request)
}

// RetryWrite is Retry for a request that may change something. Its error wraps
// ErrUnclear unless the first try was answered.
func RetryWrite[T any](ctx context.Context, request func(context.Context) (T, error)) (T, error) {
	return repeat(ctx, maxTries, true, request)
}

func repeat[T any](ctx context.Context, tries int, writes bool, request func(context.Context) (T, error)) (answer T, err error) {
	if err := ctx.Err(); err != nil {
		return answer, err // nothing was sent
	}
	for n := 1; ; n++ {
		one, cancel := context.WithTimeout(ctx, tryTimeout(ctx))
		answer, err = request(one)
		cancel()
		unanswered := err != nil && !isAnswer(err)
		if err != nil && writes && (unanswered || n > 1) {
			err = Unclear(err) // an earlier try may have been applied, or may be applied later
		}
		if !unanswered || n == tries || ctx.Err() != nil {
			return answer, err
		}
		if Pause(ctx, rand.N(firstWait<<(n-1))) != nil {
			return answer, err // more useful than the error of ctx
		}
	}
}

func tryTimeout(ctx context.Context) time.Duration {
	if deadline, ok := ctx.Deadline(); ok {
		return max(minTryTimeout, min(TryTimeout, time.Until(deadline)/2))
	}
	return TryTimeout
}

// isAnswer reports whether the error is one of the store's contract, so that
// another try does not help.
func isAnswer(err error) bool {
	for _, answer := range []error{ErrNotFound, ErrExists, ErrChanged, ErrLimit, ErrToken, ErrLarge, ErrRefused} {
		if errors.Is(err, answer) {
			return true
		}
	}
	return false
}

// Pause waits for d, as between two tries. It returns the error of ctx if ctx ends first.
func Pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
