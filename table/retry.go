package table

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

// A request that fails without an answer is sent again: up to maxTries times,
// after waits with full jitter that double from firstWait.
const (
	maxTries  = 4
	firstWait = 200 * time.Millisecond

	// TryTimeout bounds one try of a request.
	TryTimeout = 15 * time.Second
)

// Table is a [Store] whose requests are repeated if they fail without an
// answer. It is safe for concurrent use. The package comment describes its
// errors.
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

// Submit makes all writes or none, and returns the new version of each row. An
// error that wraps ErrUnclear leaves open whether they are made.
func (t *Table) Submit(ctx context.Context, writes ...Write) ([]string, error) {
	return RetryWrite(ctx, func(ctx context.Context) ([]string, error) { return t.store.Submit(ctx, writes) })
}

// SubmitOnce is Submit for a transaction whose second arrival could undo what
// happened after the first. It is not repeated.
func (t *Table) SubmitOnce(ctx context.Context, writes ...Write) ([]string, error) {
	return repeat(ctx, 1, true, func(ctx context.Context) ([]string, error) { return t.store.Submit(ctx, writes) })
}

// ReadBack returns a row by which the caller of a write that failed with the
// error write decides what became of it, or found false if the row does not
// exist. It returns write itself, without a read, if that leaves nothing to
// decide because the store refused the write or a limit forbids it. If the read
// fails, so does ReadBack, with an error that wraps ErrUnclear if write does.
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
	// The read's error counts. That of the write is text only: it may be an
	// answer that the caller must not take for the outcome.
	err = fmt.Errorf("%v; read it back: %w", write, err)
	if isUnclear {
		err = Unclear(err)
	}
	return Row{}, false, err
}

// Unclear wraps an error in ErrUnclear. It is for callers who know of an
// earlier write that may have been made. It returns nil for nil.
func Unclear(err error) error {
	if err == nil || errors.Is(err, ErrUnclear) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrUnclear, err)
}

// Retry repeats a request that changes nothing until it is answered, up to four
// times. Each try has a time limit. The errors of package table are answers;
// any other error is none.
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
		one, cancel := context.WithTimeout(ctx, TryTimeout)
		answer, err = request(one)
		cancel()
		unanswered := err != nil && !isAnswer(err)
		if err != nil && writes && (unanswered || n > 1) {
			err = Unclear(err) // the tries so far may have been carried out, or may be later
		}
		if !unanswered || n == tries || ctx.Err() != nil {
			return answer, err
		}
		if pause(ctx, rand.N(firstWait<<(n-1))) != nil {
			return answer, err // it says more than the end of the time
		}
	}
}

// isAnswer reports whether the store's contract names the error, so that
// another try does not help.
func isAnswer(err error) bool {
	for _, answer := range []error{ErrNotFound, ErrExists, ErrChanged, ErrLimit, ErrToken, ErrRefused} {
		if errors.Is(err, answer) {
			return true
		}
	}
	return false
}

// pause waits for d or until ctx ends, and then returns its error.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
